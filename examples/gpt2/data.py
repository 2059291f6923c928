"""Where the tokens come from: tokenizers, files of tokens, and text.

A file of tokens is a ``.npy`` array of uint16, a ``.bin`` file of bare uint16, or a ``.bin`` file
that begins with the header of llm.c. Files are memory-mapped, so they may be larger than memory.
Text is tokenised once into a ``.bin`` file in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from epochal import UsageError
from epochal.demo.text import write_text
from epochal.settings import cache_folder

Tokens = npt.NDArray[np.uint16]

ENDINGS = (".npy", ".bin")
TEXT_ENDINGS = (".txt", ".md", ".rst", ".py", ".text")
_LLM_C_MAGIC, _LLM_C_HEADER_BYTES = 20_240_520, 1024
# If no file is named as the validation split, the end of the data is.
_HELD_OUT = 0.02
# About 2.4 MB of generated text: enough windows for the default batch on eight ranks.
_NUM_SENTENCES, _SENTENCES_PER_DOCUMENT = 40_000, 40


@dataclass(frozen=True)
class Tokenizer:
    """Encodes and decodes text. `end` is the token that ends a document."""

    name: str
    num_tokens: int
    end: int
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]

    @property
    def padded_size(self) -> int:
        """The vocabulary size rounded up to a multiple of 128: 50,304 for GPT-2."""
        return -(-self.num_tokens // 128) * 128


def open_tokenizer(name: str) -> Tokenizer:
    """Open ``bytes``, which needs nothing, or one of tiktoken's tokenizers, such as ``gpt2``."""
    if name == "bytes":
        return Tokenizer(
            name,
            257,
            256,
            lambda text: list(text.encode(errors="replace")),
            lambda tokens: bytes(t for t in tokens if t < 256).decode(errors="replace"),
        )
    try:
        import tiktoken

        encoding = tiktoken.get_encoding(name)
    except ImportError as error:
        raise UsageError(
            f"--tokenizer {name} needs the package tiktoken. Install it with "
            "`pip install tiktoken`, or use --tokenizer bytes."
        ) from error
    except (ValueError, OSError) as error:  # an unknown name, or its files cannot be downloaded
        raise UsageError(f"--tokenizer {name} cannot be opened: {error}") from error
    if encoding.n_vocab > 1 << 16:
        raise UsageError(
            f"--tokenizer {name} has {encoding.n_vocab} tokens. Token files hold up to 65536."
        )
    return Tokenizer(
        name,
        encoding.n_vocab,
        encoding.eot_token,
        encoding.encode_ordinary,
        lambda tokens: str(encoding.decode([t for t in tokens if t < encoding.n_vocab])),
    )


@dataclass(frozen=True)
class Shard:
    """The tokens of one file, or of a part of it."""

    name: str
    tokens: Tokens


def has_token_files(data: str | None) -> bool:
    """Return True if the path names files of tokens rather than text."""
    return data is not None and bool(_token_files(Path(data)))


def open_corpus(
    data: str | None, tokenizer: Tokenizer, *, context: int, seed: int
) -> tuple[list[Shard], list[Shard]]:
    """Open the training and the validation shards of a path; without a path, of generated text."""
    paths = [] if data is None else _token_files(Path(data))
    if paths:
        shards = [Shard(path.name, read_tokens(path)) for path in paths]
    else:
        path = _tokenised_text(data, tokenizer, seed)
        shards = [Shard(data or "generated", read_tokens(path))]
    validation = [shard for shard in shards if _is_validation(shard.name)]
    train = [shard for shard in shards if shard not in validation]
    if not validation:
        last = shards[-1]
        num_held = max(context + 1, int(_HELD_OUT * sum(len(s.tokens) for s in shards)))
        cut = max(len(last.tokens) - num_held, len(last.tokens) // 2)
        train = [*shards[:-1], Shard(last.name, last.tokens[:cut])]
        validation = [Shard(f"end of {last.name}", last.tokens[cut:])]
    for name, split in (("train on", train), ("evaluate on", validation)):
        if not any(len(shard.tokens) > context for shard in split):
            raise UsageError(
                f"--data {data} has too few tokens to {name} at --context_length {context}."
            )
    return train, validation


def read_tokens(path: Path) -> Tokens:
    """Memory-map one file of tokens."""
    if path.suffix == ".npy":
        try:
            tokens = np.load(path, mmap_mode="r")
        except ValueError as error:
            raise UsageError(f"{path} is not an array that can be mapped: {error}") from error
        if tokens.dtype != np.uint16 or tokens.ndim != 1:
            raise UsageError(f"{path} must be one row of uint16, but it is {tokens.dtype}.")
        mapped: Tokens = tokens
        return mapped
    with path.open("rb") as file:
        has_header = int.from_bytes(file.read(4), "little") == _LLM_C_MAGIC
    start = _LLM_C_HEADER_BYTES if has_header else 0
    if path.stat().st_size - start < 2:
        raise UsageError(f"{path} holds no tokens.")
    return np.memmap(path, dtype=np.uint16, mode="r", offset=start)


def _token_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.suffix in ENDINGS and p.is_file())
    return [path] if path.is_file() and path.suffix in ENDINGS else []


def _is_validation(name: str) -> bool:
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    return not {"val", "valid", "validation"}.isdisjoint(words)


def _tokenised_text(data: str | None, tokenizer: Tokenizer, seed: int) -> Path:
    """Return the file of tokens of a text. It is made once, and again when the text changes."""
    paths = [] if data is None else _text_files(Path(data))
    facts = [(str(p.absolute()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    key = json.dumps([tokenizer.name, tokenizer.num_tokens, facts or seed])
    target = cache_folder() / "gpt2" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.bin"
    if not target.exists():
        texts = (p.read_text(encoding="utf-8", errors="replace") for p in paths)
        documents: Iterable[str] = texts if paths else _generated_documents(seed)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("wb") as file:
            for document in documents:
                tokens = [*tokenizer.encode(document), tokenizer.end]
                file.write(np.array(tokens, dtype="<u2").tobytes())
        temporary.replace(target)
    return target


def _text_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"--data {path} does not exist.")
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in TEXT_ENDINGS)
    if not files:
        raise UsageError(
            f"--data {path} contains neither tokens ({', '.join(ENDINGS)}) nor text "
            f"({', '.join(TEXT_ENDINGS)})."
        )
    return files


def _generated_documents(seed: int) -> Iterator[str]:
    """Yield short documents, each made of sentences of a tiny grammar."""
    text = write_text(np.random.default_rng(seed), num_sentences=_NUM_SENTENCES)
    lines = text.splitlines(keepends=True)
    for start in range(0, len(lines), _SENTENCES_PER_DOCUMENT):
        yield "".join(lines[start : start + _SENTENCES_PER_DOCUMENT])
