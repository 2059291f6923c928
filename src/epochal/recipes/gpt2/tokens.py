"""From text to tokens and back: bytes, which need nothing, or the tokenizers of other packages."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.errors import UsageError

BYTES = "bytes"
GPT2 = "gpt2"
# Shards hold 16-bit tokens.
LARGEST_VOCABULARY = 1 << 16
_PADDED_TO = 128


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Two functions, how many tokens there are, and the one that ends a document."""

    name: str
    num_tokens: int
    end: int
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]

    @property
    def padded_size(self) -> int:
        """The vocabulary rounded up to a size that matrix units like: 50,304 for GPT-2's."""
        return -(-self.num_tokens // _PADDED_TO) * _PADDED_TO


def open_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of a name: ``bytes``, one of tiktoken's, or the path of a tokenizer.json.

    Raises UsageError when its package is not installed or its files cannot be had.
    """
    if name == BYTES:
        return Tokenizer(BYTES, 257, 256, _bytes_of, _text_of_bytes)
    found = _of_file(Path(name)) if name.endswith(".json") else _of_tiktoken(name)
    if found.num_tokens > LARGEST_VOCABULARY:
        raise UsageError(
            f"--tokenizer {name} has {found.num_tokens} tokens; shards hold up to "
            f"{LARGEST_VOCABULARY}."
        )
    return found


def _bytes_of(text: str) -> list[int]:
    return list(text.encode("utf-8", errors="replace"))


def _text_of_bytes(tokens: Sequence[int]) -> str:
    return bytes(token for token in tokens if token < 256).decode("utf-8", errors="replace")


def _of_tiktoken(name: str) -> Tokenizer:
    tiktoken = _package("tiktoken", name)
    try:
        encoding = tiktoken.get_encoding(name)
    except (ValueError, OSError) as error:  # unknown, or its files are neither here nor there
        raise UsageError(f"--tokenizer {name} cannot be opened: {error}") from error
    return Tokenizer(
        name,
        encoding.n_vocab,
        encoding.eot_token,
        encoding.encode_ordinary,
        lambda tokens: str(encoding.decode([t for t in tokens if t < encoding.n_vocab])),
    )


def _of_file(path: Path) -> Tokenizer:
    tokenizers = _package("tokenizers", str(path))
    if not path.is_file():
        raise UsageError(f"--tokenizer {path}: there is no such file.")
    encoding = tokenizers.Tokenizer.from_file(str(path))
    num_tokens = encoding.get_vocab_size()
    names = ("<|endoftext|>", "</s>", "[SEP]")
    ends = [token for text in names if (token := encoding.token_to_id(text)) is not None]
    return Tokenizer(
        str(path),
        # Without a token of its own a document ends with one that is added.
        num_tokens if ends else num_tokens + 1,
        ends[0] if ends else num_tokens,
        lambda text: list(encoding.encode(text, add_special_tokens=False).ids),
        lambda tokens: str(encoding.decode([t for t in tokens if t < num_tokens])),
    )


def _package(package: str, name: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UsageError(
            f"--tokenizer {name} needs the package {package!r}: pip install {package}, or use "
            f"--tokenizer {BYTES}."
        ) from error
