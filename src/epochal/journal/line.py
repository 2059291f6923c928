"""One record, one line of JSON.

A line is UTF-8 JSON of one object that starts with ``{"log":``, ended by a single newline. JSON
escapes newlines and NULs inside strings, so a raw newline always ends a record and a raw NUL is
always damage. Numbers JSON cannot hold (NaN, infinities) are ``null``, and ``nonfinite`` names
them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from epochal.records import Record, word_key
from epochal.records.values import split_nonfinite

# How every record starts. Nested objects of users may hold "log" too, but not in this order.
_RECORD_START = re.compile(rb'\{"log":"[^"\\]*","t":')

# Far deeper than any configuration that is recorded, far from where recursion ends.
MAX_DEPTH = 100


def _plain_text(value: Any) -> str:
    """The text of a subclass of ``str``, such as NumPy's, which the encoder does not take."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(enc_hook=_plain_text)
# Fields that hold one number per name: free metrics, and the values of abs-maxes.
_MAPPINGS_OF_NUMBERS = ("m", "values")
# For plain values alone: the hot path of ``Run.log``.
encode_lines = msgspec.json.Encoder().encode_lines
encode_json = _encoder.encode
decode_json = _decoder.decode


class MetricsRecord(msgspec.Struct, tag_field="log", tag="metrics", gc=False):
    """A record of free metrics; the encoder writes it as the dict of these fields, but faster."""

    t: float
    step: int
    m: Mapping[str, Any]


def now() -> float:
    """Unix seconds, cut to the millisecond so that the text form is short."""
    return time.time_ns() // 1_000_000 / 1000


def encode(record: Mapping[str, Any]) -> bytes:
    """The line of a record whose scalars may be non-finite; the newline is included.

    A lone surrogate, which UTF-8 cannot hold, is written as its escape sequence.
    """
    clean, words = split_nonfinite(record)
    for field in _MAPPINGS_OF_NUMBERS:
        numbers = clean.get(field)
        if isinstance(numbers, Mapping):
            clean[field], more_words = split_nonfinite(numbers)
            words.update({word_key(n, record): word for n, word in more_words.items()})
    if words:
        clean["nonfinite"] = words
    try:
        return _encoder.encode_lines([clean])
    except UnicodeEncodeError:
        return _encoder.encode_lines([without_surrogates(clean)])


def without_surrogates(value: Any) -> Any:
    """The same JSON value with every lone surrogate spelled out, so that UTF-8 can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {without_surrogates(k): without_surrogates(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_surrogates(item) for item in value]
    return value


def nests_too_deeply(value: Any) -> bool:
    """Whether a decoded JSON value has more than ``MAX_DEPTH`` levels."""
    level: list[Any] = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        deeper: list[Any] = []
        for outer in level:
            for inner in outer.values() if type(outer) is dict else outer:
                kind = type(inner)
                if kind is dict or kind is list:
                    deeper.append(inner)
        level = deeper
    return bool(level)


def decode(line: bytes) -> Record | None:
    """The record of a line, or None when the line is damaged.

    If a record was appended to a torn write, one line has the bytes of two records. The later one
    is complete, so it is found by its start.
    """
    record = decode_whole(line)
    if record is not None:
        return record
    for start in _RECORD_START.finditer(line, 1):
        record = decode_whole(line[start.start() :])
        if record is not None:
            return record
    return None


def decode_whole(line: bytes) -> Record | None:
    """The record that is all of a line; None for anything else."""
    try:
        record = decode_json(line)
    except (ValueError, RecursionError):
        return None
    return record if type(record) is dict and type(record.get("log")) is str else None
