"""Rows of the tables in ClickHouse's format RowBinary, and lines of a journal split into such rows.

A line gives a row of ``points`` for each of its numbers. The lines of a batch that have the same
kind and label are one row of ``records``, as they were written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.journal.rows import Line, Rows, decode_lines
from epochal.records import DENSE_KINDS, Axis, Record, axis_of
from epochal.segments.columns import Extent, PartColumns, SeriesKey
from epochal.series.series import Series
from epochal.store.local.part import label_of

AXES: tuple[Axis, ...] = ("step", "epoch", "time")
# The step of a part that has none.
NO_STEP = -(2**63)
# The lines of a row of ``records`` are at most so far apart.
ROW_LINES = 1024
# A place has 15 bits for the attempt, 16 for the part, and 32 for the ordinal of the record.
_MOST = 1 << 15
_POINT = np.dtype([("place", "<u8"), ("step", "<i8"), ("t", "<f8"), ("value", "<f8")])
_WHOLE = np.dtype("<u4")


# -- the format -----------------------------------------------------------------------------------


def text(value: str | bytes) -> bytes:
    """A value of type String."""
    data = value.encode() if isinstance(value, str) else value
    return length(len(data)) + data


def length(number: int) -> bytes:
    """The number of bytes of a String, or of the items of an array, before them."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def whole(*numbers: int, bits: int = 64) -> bytes:
    """Values of a type UInt."""
    return b"".join(number.to_bytes(bits // 8, "little") for number in numbers)


def unpacked(answer: bytes, types: str) -> Iterator[tuple[Any, ...]]:
    """The rows of an answer; each letter is a type of ``struct``, or ``s`` for a String.

    ``A`` is an array of UInt32.
    """
    at, size = 0, len(answer)
    fixed = {letter: struct.Struct(f"<{letter}") for letter in set(types) - set("sA")}

    def read_length() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = answer[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    while at < size:
        row: list[Any] = []
        for letter in types:
            if letter == "s":
                count = read_length()
                row.append(answer[at : at + count])
                at += count
            elif letter == "A":
                count = read_length()
                row.append(np.frombuffer(answer, _WHOLE, count, at).tolist())
                at += _WHOLE.itemsize * count
            else:
                row.append(fixed[letter].unpack_from(answer, at)[0])
                at += fixed[letter].size
        yield tuple(row)


def _point_rows(prefix: bytes, series: Series, places: NDArray[np.uint64]) -> bytes:
    """Rows of ``points`` for one series."""
    rows = np.empty(len(series), np.dtype([("prefix", f"V{len(prefix)}"), *_POINT.descr]))
    rows["prefix"] = np.void(prefix)
    rows["place"], rows["step"] = places, series.steps
    rows["t"], rows["value"] = series.times, series.floats
    return rows.tobytes()


# -- lines into rows ------------------------------------------------------------------------------


def first_place(name: PartName) -> int:
    """The place of the first record of a part; raises ``FormatError`` for one that has none."""
    if name.attempt >= _MOST or name.part >= _MOST:
        raise FormatError(f"{name.stem}: a hub over ClickHouse takes {_MOST:,} attempts and parts.")
    return (name.attempt << 48) | (name.part << 32)


class Split(NamedTuple):
    """Some lines of a part as rows of ``points`` and ``records``, and what they say of the part.

    ``series`` has the place of the first point of each.
    """

    points: bytes
    records: bytes
    num_lines: int
    num_records: int
    num_damaged: int
    series: Mapping[SeriesKey, int]
    step: int
    t: float
    kinds: frozenset[str]


def split_lines(run_id: str, name: PartName, lines: bytes, *, first: int, ordinal: int) -> Split:
    """Whole lines of a part as rows; ``first`` is the number of the first line.

    ``ordinal`` is that of the first record. Both differ where lines of the part are damaged.
    """
    found = _Lines(lines.split(b"\n")[:-1], first, ordinal)
    place, points = first_place(name), list[bytes]()
    series: dict[SeriesKey, int] = {}
    for key in found.columns:
        own, ordinals = found.columns.points(key)
        places = ordinals.astype(np.uint64) + np.uint64(place)
        start = text(run_id) + text(key.name) + bytes([AXES.index(key.axis)]) + text(name.writer)
        points.append(_point_rows(start, own, places))
        series[key] = int(places.min())
    step, t = found.extent
    return Split(
        b"".join(points),
        b"".join(found.rows(run_id, name)),
        len(found.lines),
        found.num_records,
        found.num_damaged + found.columns.num_malformed,
        series,
        NO_STEP if step is None else step,
        t or 0.0,
        frozenset(found.kinds),
    )


class _Lines:
    """Some lines of a part: their points, and their numbers by row of ``records``."""

    def __init__(self, lines: list[bytes], first: int, ordinal: int) -> None:
        self.lines = lines
        self.columns = PartColumns()
        self.extent = Extent(None, None)
        self.kinds: set[str] = set()
        self.num_records = self.num_damaged = 0
        self._first = first
        # By kind, label and damaged lines before it, and by what is near enough for one row.
        self._rows: dict[tuple[str, str, int, int], list[int]] = {}
        decoded = decode_lines(b"\n".join([*lines, b""]), first=ordinal)
        if decoded.num_records == len(lines):
            self._take_records(decoded.items, first - ordinal)
        else:
            self._take_each(ordinal)

    def _take_records(self, items: Iterable[Rows | Line], shift: int) -> None:
        """Take in lines that are all records; a line's number is its ordinal and ``shift``."""
        for item in items:
            if isinstance(item, Rows):
                self._note(item.kind, len(item.records), self.columns.add_rows(item))
                for ordinal in item.ordinals:
                    self._put(item.kind, "", ordinal + shift, shift)
            else:
                assert item.record is not None
                self._take(item.record, item.ordinal, shift)

    def _take_each(self, ordinal: int) -> None:
        """Take in lines of which some are no records."""
        for number, line in enumerate(self.lines, self._first):
            record = decode(line) if line else None
            if record is None:
                self.num_damaged += bool(line)
                self._put("", "", number, number - ordinal)
            else:
                self._take(record, ordinal, number - ordinal)
                ordinal += 1

    def _take(self, record: Record, ordinal: int, shift: int) -> None:
        kind = record["log"]
        self._note(kind, 1, self.columns.add(record, ordinal=ordinal))
        label = "" if kind in DENSE_KINDS else label_of(record)
        self._put(kind, label, ordinal + shift, shift)

    def _note(self, kind: str, count: int, extent: Extent) -> None:
        # Only steps of the step axis say how far the run has come.
        is_on_steps = axis_of({"log": kind, "step": 0}) == "step"
        self.extent = self.extent.joined(Extent(extent.step if is_on_steps else None, extent.time))
        self.kinds.add(kind)
        self.num_records += count

    def _put(self, kind: str, label: str, line: int, shift: int) -> None:
        self._rows.setdefault((kind, label, shift, line // ROW_LINES), []).append(line)

    def rows(self, run_id: str, name: PartName) -> Iterator[bytes]:
        """The rows of ``records``."""
        part = text(name.writer) + whole(name.attempt, name.part, bits=32)
        for (kind, label, shift, _), numbers in self._rows.items():
            about = whole(numbers[0], numbers[-1], shift, bits=32) + text(label)
            listed = length(len(numbers)) + np.array(numbers, _WHOLE).tobytes()
            said = b"\n".join([self.lines[number - self._first] for number in numbers])
            yield text(run_id) + text(kind) + part + about + listed + text(said)
