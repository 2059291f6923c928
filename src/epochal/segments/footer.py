"""What lists need of a segment, in the footer of its file: read without opening the columns.

The footer of a Parquet file is its last bytes, and holds pairs of key and value. One of them has
the records that say something of the whole run, how far the part reaches, the names of its series
and what each series amounts to. It is found in these bytes without reading Parquet: a list of
thousands of runs reads one piece of each file.

Segments that were sealed before this had such a footer have none; they are read in full.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from epochal.errors import FormatError
from epochal.journal.line import decode_json, encode_json
from epochal.journal.regular_file import regular_only
from epochal.records import Axis, Record
from epochal.series.reduce import Summary
from epochal.values import nonfinite_word

FOOTER_KEY = b"epochal.segment.footer"
FOOTER_VERSION = 1
# The kinds whose records are kept in the footer, unless they take more than this.
KEPT_KINDS = (
    "run", "finish", "define", "resume", "option", "summary", "epoch", "event", "finding",
)  # fmt: skip
MAX_KEPT_BYTES = 64 * 1024
_MAGIC = b"PAR1"
_DIGEST_CHARS = 32
_END_BYTES = 32 * 1024
_PLAIN_BYTES = 4096
_AXES: Mapping[str, Axis] = {"s": "step", "e": "epoch", "t": "time"}
_LETTERS = {axis: letter for letter, axis in _AXES.items()}
# In the compact protocol of Thrift: the next field, which is a text.
_NEXT_TEXT = b"\x18"
# A series of a part: its name and its axis.
SeriesName = tuple[str, Axis]
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class Extent(NamedTuple):
    """The highest step and the latest time (Unix seconds) of some records, where they have any."""

    step: int | None
    time: float | None


class PartSummary(NamedTuple):
    """What a series amounts to in one part; its points ascend along its axis.

    ``first_at`` is where its first point stands; ``last_t`` the time of the last, in Unix seconds.
    """

    summary: Summary
    first_at: float
    last_t: float


@dataclass(frozen=True)
class Footer:
    """What lists need of a part; ``records`` are those of ``kept``, with their ordinals."""

    num_records: int
    num_damaged: int
    journal_bytes: int
    kinds: Mapping[str, int]
    extents: Mapping[str, Extent]
    names: tuple[SeriesName, ...]
    kept: tuple[str, ...] = ()
    records: tuple[tuple[int, Record], ...] = ()
    # By the number of the series: the fields of its summary, its first place and its last time.
    numbers: Mapping[int, list[Any]] = field(default_factory=dict)

    @cached_property
    def summaries(self) -> dict[SeriesName, PartSummary]:
        """The summaries that were kept, by series."""
        return {
            self.names[number]: PartSummary(
                Summary(*map(_number, numbers[:-2])), numbers[-2], numbers[-1]
            )
            for number, numbers in self.numbers.items()
        }

    def encode(self) -> bytes:
        """The value as it is kept in the file: a digest of the text, and the text."""
        document = {
            "v": FOOTER_VERSION,
            "num_records": self.num_records,
            "num_damaged": self.num_damaged,
            "journal_bytes": self.journal_bytes,
            "kinds": self.kinds,
            "extents": self.extents,
            "names": [name for name, _ in self.names],
            "axes": "".join(_LETTERS[axis] for _, axis in self.names),
            "kept": self.kept,
            "records": self.records,
            "summaries": [[number, *numbers] for number, numbers in self.numbers.items()],
        }
        text = pack_text(encode_json(document))
        return _digest(text) + text


def summary_numbers(summary: Summary, *, first_at: float, last_t: float) -> list[Any]:
    """The fields of a summary as JSON holds them; nan and infinities are words."""
    numbers = (
        summary.count,
        summary.nonfinite,
        summary.first,
        summary.last,
        summary.last_step,
        summary.min,
        summary.min_step,
        summary.max,
        summary.max_step,
        summary.mean,
    )
    return [*(nonfinite_word(n) or n if type(n) is float else n for n in numbers), first_at, last_t]


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) else value


def pack_text(text: bytes) -> bytes:
    """A JSON text as it is kept in a file's footer: as it is, or in base64 of zlib if it is long.

    Readers of Parquet take these values for texts, so they are ASCII or UTF-8.
    """
    return text if len(text) <= _PLAIN_BYTES else base64.b64encode(zlib.compress(text, 6))


def unpack_text(packed: bytes) -> bytes:
    """The JSON text; raises ValueError for what is none."""
    if packed.startswith(b"{"):
        return packed
    try:
        return zlib.decompress(base64.b64decode(packed, validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def decode_footer(value: bytes) -> Footer | None:
    """A footer from its value; None for one that is damaged or of a newer Epochal."""
    text = value[_DIGEST_CHARS:]
    if value[:_DIGEST_CHARS] != _digest(text):
        return None
    try:
        document = decode_json(unpack_text(text))
        if document["v"] > FOOTER_VERSION:
            return None
        return Footer(
            num_records=document["num_records"],
            num_damaged=document["num_damaged"],
            journal_bytes=document["journal_bytes"],
            kinds=document["kinds"],
            extents={kind: Extent(*extent) for kind, extent in document["extents"].items()},
            names=tuple(
                (name, _AXES[letter])
                for name, letter in zip(document["names"], document["axes"], strict=True)
            ),
            kept=tuple(document["kept"]),
            records=tuple((ordinal, record) for ordinal, record in document["records"]),
            numbers={number: numbers for number, *numbers in document["summaries"]},
        )
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        return None


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_CHARS // 2).hexdigest().encode()


def read_footer(path: Path) -> Footer | None:
    """The footer of a segment; None for one without, or where the file has to be looked at closely.

    Raises ``FileNotFoundError`` where there is no file.
    """
    try:
        file = regular_only(str(path), _OPEN_FLAGS)
    except FileNotFoundError:
        raise
    except (OSError, FormatError):
        return None
    try:
        metadata = _file_metadata(file)
    except OSError:
        return None
    finally:
        os.close(file)
    value = None if metadata is None else _value_of(FOOTER_KEY, metadata)
    return None if value is None else decode_footer(value)


def _file_metadata(file: int) -> bytes | None:
    """The metadata at the end of a Parquet file; its length and four letters follow it."""
    size = os.fstat(file).st_size
    end = os.pread(file, _END_BYTES, max(0, size - _END_BYTES))
    length = int.from_bytes(end[-8:-4], "little")
    if end[-4:] != _MAGIC or length + 8 > size:
        return None
    if length + 8 > len(end):
        end = os.pread(file, length + 8, size - length - 8)
        if len(end) != length + 8:
            return None
    return end[-8 - length : -8]


def _value_of(key: bytes, metadata: bytes) -> bytes | None:
    """The value of a key: in Thrift's compact protocol it follows, with its length before it."""
    found = metadata.rfind(key + _NEXT_TEXT)
    if found < 0:
        return None
    place = found + len(key) + 1
    length = shift = 0
    while place < len(metadata):
        byte = metadata[place]
        length |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            value = metadata[place : place + length]
            return value if len(value) == length else None
    return None
