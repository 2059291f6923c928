"""One record, one line of JSON.

A line is UTF-8 JSON of one object that starts with ``{"log":``, ended by a single newline. JSON
escapes newlines and NULs inside strings, so a raw newline always ends a record and a raw NUL is
always damage. Numbers JSON cannot hold (NaN, infinities) are ``null``, and ``nonfinite`` names
them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from epochal.record import Record
from epochal.values import split_nonfinite

RECORD_START = b'{"log":'

# decode() is given lines of any origin; 64 MiB is the size at which parts rotate.
_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()
encode_lines = _encoder.encode_lines
encode_json = _encoder.encode
decode_json = _decoder.decode


def now() -> float:
    """Unix seconds, cut to the millisecond so that the text form is short."""
    return time.time_ns() // 1_000_000 / 1000


def encode(record: Mapping[str, Any]) -> bytes:
    """The line of a record whose scalars may be non-finite; the newline is included."""
    clean, words = split_nonfinite(record)
    metrics = clean.get("m")
    if isinstance(metrics, Mapping):
        clean["m"], free_words = split_nonfinite(metrics)
        words.update(free_words)
    if words:
        clean["nonfinite"] = words
    return encode_lines([clean])


def decode(line: bytes) -> Record | None:
    """The record of a line, or None when the line is damaged.

    A torn write that a later record was appended to leaves two records' bytes in one line: the
    later one is whole, so it is found again by its start.
    """
    record = _parse(line)
    if record is not None:
        return record
    start = line.rfind(RECORD_START)
    return _parse(line[start:]) if start > 0 else None


def _parse(line: bytes) -> Record | None:
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("log"), str) else None
