"""Files of tokens: 16 bits each, memory-mapped, so that a corpus may be larger than memory.

``.npy`` arrays of uint16, ``.bin`` files of bare uint16, and ``.bin`` files that begin with the
256-word header of llm.c. Text is tokenised once into a ``.bin`` in the cache folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from epochal.atomic_file import replaced_file
from epochal.errors import FormatError, UsageError
from epochal.recipes.demo.text import write_text
from epochal.recipes.gpt2.tokens import Tokenizer
from epochal.settings import cache_folder

Tokens = npt.NDArray[np.uint16]

ENDINGS = (".npy", ".bin")
_TEXT_ENDINGS = (".txt", ".md", ".rst", ".py", ".text")
_HEADER_MAGIC, _HEADER_BYTES = 20_240_520, 1024
# Of a corpus whose files do not say which are for validation, its end is.
_HELD_OUT = 0.02


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of tokens, or a stretch of one."""

    name: str
    tokens: Tokens

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is trained on and what is kept apart to judge it by."""

    train: tuple[Shard, ...]
    validation: tuple[Shard, ...]
    is_text: bool


def is_tokenised(data: str | None) -> bool:
    """Whether a path names files of tokens rather than text."""
    return data is not None and bool(_shard_paths(Path(data)))


def open_corpus(data: str | None, tokenizer: Tokenizer, *, context: int, seed: int) -> Corpus:
    """The corpus at a path; without one a small text is made.

    Raises UsageError when there is nothing to read, FormatError when a file is not of tokens.
    """
    paths = [] if data is None else _shard_paths(Path(data))
    if paths:
        shards = [open_shard(path) for path in paths]
    else:
        path = _tokenised_text(data, tokenizer, seed=seed)
        shards = [Shard(data or "generated", open_shard(path).tokens)]
    validation = [shard for shard in shards if _is_for_validation(shard.name)]
    train = [shard for shard in shards if shard not in validation]
    if not validation:
        train, validation = _hold_out(train, context=context)
    if not train or not any(len(shard) > context for shard in train):
        raise UsageError(f"--data {data} has no more than {context} tokens to train on.")
    return Corpus(tuple(train), tuple(validation), is_text=not paths)


def open_shard(path: Path) -> Shard:
    """Map one file of tokens."""
    if path.suffix == ".npy":
        try:
            tokens = np.load(path, mmap_mode="r")
        except ValueError as error:
            raise FormatError(f"{path} is no array that can be mapped: {error}") from error
        if tokens.dtype != np.uint16 or tokens.ndim != 1:
            raise FormatError(f"{path} must be one row of uint16, it is {tokens.dtype}.")
        return Shard(path.name, tokens)
    start = _HEADER_BYTES if _has_header(path) else 0
    if path.stat().st_size - start < 2:
        raise FormatError(f"{path} holds no tokens.")
    return Shard(path.name, np.memmap(path, dtype=np.uint16, mode="r", offset=start))


def write_shard(path: Path, documents: Iterable[str], tokenizer: Tokenizer) -> None:
    """Tokenise documents into one file, each ended by the tokenizer's end; appears when whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as temporary, temporary.open("wb") as file:
        for document in documents:
            tokens = [*tokenizer.encode(document), tokenizer.end]
            file.write(np.array(tokens, dtype="<u2").tobytes())


def _shard_paths(path: Path) -> list[Path]:
    if path.is_file() and path.suffix in ENDINGS:
        return [path]
    if not path.is_dir():
        return []
    return sorted(p for p in path.iterdir() if p.suffix in ENDINGS and p.is_file())


def _has_header(path: Path) -> bool:
    with open(path, "rb") as file:
        first = file.read(4)
    return len(first) == 4 and int.from_bytes(first, "little") == _HEADER_MAGIC


def _is_for_validation(name: str) -> bool:
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    return any(word in ("val", "valid", "validation") for word in words)


def _hold_out(shards: list[Shard], *, context: int) -> tuple[list[Shard], list[Shard]]:
    """The end of the corpus, a fiftieth but at least one window, apart from the rest."""
    num_held = max(context + 1, int(_HELD_OUT * sum(len(shard) for shard in shards)))
    last = shards[-1]
    cut = max(len(last) - num_held, len(last) // 2)
    if len(last) - cut <= context:
        raise UsageError(
            f"{last.name} has {len(last)} tokens: too few to train and to judge on at "
            f"--context_length {context}."
        )
    held = Shard(f"end of {last.name}", last.tokens[cut:])
    return [*shards[:-1], Shard(last.name, last.tokens[:cut])], [held]


def _tokenised_text(data: str | None, tokenizer: Tokenizer, *, seed: int) -> Path:
    """The file of tokens made of a text; made once, and again when the text has changed."""
    paths = [] if data is None else _text_paths(Path(data))
    facts = [(str(p.absolute()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    key = json.dumps([tokenizer.name, tokenizer.num_tokens, facts or seed])
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    path = cache_folder() / "gpt2" / f"{digest}.bin"
    if not path.exists():
        documents = generated_documents(seed) if data is None else _documents(paths)
        write_shard(path, documents, tokenizer)
    return path


def _text_paths(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"--data {path}: there is no such file or folder.")
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() in _TEXT_ENDINGS)
    if not found:
        raise UsageError(
            f"--data {path} holds neither tokens ({', '.join(ENDINGS)}) nor text "
            f"({', '.join(_TEXT_ENDINGS)})."
        )
    return found


def _documents(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        yield path.read_text(encoding="utf-8", errors="replace")


# About 2.4 MB: enough windows of 1,024 bytes for the default batch on eight ranks.
NUM_SENTENCES = 40_000
_SENTENCES_TO_A_DOCUMENT = 40


def generated_documents(seed: int, *, num_sentences: int = NUM_SENTENCES) -> list[str]:
    """Short documents, each of sentences of a tiny grammar."""
    text = write_text(np.random.default_rng(seed), num_sentences=num_sentences)
    lines = text.splitlines(keepends=True)
    starts = range(0, len(lines), _SENTENCES_TO_A_DOCUMENT)
    return ["".join(lines[start : start + _SENTENCES_TO_A_DOCUMENT]) for start in starts]
