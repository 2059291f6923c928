"""Rows of the tables in ClickHouse's format RowBinary, and records split into such rows.

A record gives the rows of its points and one row with its rest. In the rest of a frequent record,
``null`` stands for each float that is a point, for the time, and for the step: so the rests of a
whole training are one text, which takes no room. :func:`filled` puts the numbers back.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.journal.layout import PartName
from epochal.journal.line import decode, decode_json, encode_json
from epochal.journal.rows import Line, Rows, decode_lines
from epochal.records import DENSE_KINDS, KINDS, Axis, Record, axis_of, whole_number, word_key
from epochal.segments.columns import Extent, PartColumns, SeriesKey, plan_of, seconds
from epochal.series.series import Series
from epochal.store.local.part import label_of

AXES: tuple[Axis, ...] = ("step", "epoch", "time")
# The step of a record that has none.
NO_STEP = -(2**63)
# The lines of a row of ``records`` are at most so far apart.
ROW_LINES = 1024
# A place has 15 bits for the attempt, 16 for the part, and 32 for the ordinal of the record.
_MOST = 1 << 15
_POINT = np.dtype([("place", "<u8"), ("step", "<i8"), ("t", "<f8"), ("value", "<f8")])
_ARRAYS: dict[str, np.dtype[Any]] = {
    "A": np.dtype("<u4"),
    "L": np.dtype("<i8"),
    "D": np.dtype("<f8"),
    "U": np.dtype("<u8"),
}


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

    ``A``, ``L``, ``D`` and ``U`` are arrays of UInt32, Int64, Float64 and UInt64.
    """
    at, size = 0, len(answer)
    fixed = {letter: struct.Struct(f"<{letter}") for letter in set(types) - set("sALDU")}

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
            elif letter in _ARRAYS:
                kind = _ARRAYS[letter]
                count = read_length()
                row.append(np.frombuffer(answer, kind, count, at))
                at += kind.itemsize * count
            else:
                row.append(fixed[letter].unpack_from(answer, at)[0])
                at += fixed[letter].size
        yield tuple(row)


def array(values: Any, letter: str) -> bytes:
    """A value of an array type."""
    column = np.asarray(values, _ARRAYS[letter])
    return length(column.size) + column.tobytes()


def _point_rows(prefix: bytes, series: Series, places: NDArray[np.uint64]) -> bytes:
    """Rows of ``points`` for one series."""
    rows = np.empty(len(series), np.dtype([("prefix", f"V{len(prefix)}"), *_POINT.descr]))
    rows["prefix"] = np.void(prefix)
    rows["place"], rows["step"] = places, series.steps
    rows["t"], rows["value"] = series.times, series.floats
    return rows.tobytes()


# -- records into rows ----------------------------------------------------------------------------


def first_place(name: PartName) -> int:
    """The place of the first record of a part; raises ``FormatError`` for one that has none."""
    if name.attempt >= _MOST or name.part >= _MOST:
        raise FormatError(f"{name.stem}: a hub over ClickHouse takes {_MOST:,} attempts and parts.")
    return (name.attempt << 48) | (name.part << 32)


class Grown(NamedTuple):
    """A series in some lines: its first place, first and last step, and whether they ascend."""

    place: int
    first: int
    last: int
    ascends: bool


class Split(NamedTuple):
    """Some lines of a part as rows of ``points`` and ``records``, and what they say of the part."""

    points: bytes
    records: bytes
    num_lines: int
    num_records: int
    num_damaged: int
    series: Mapping[SeriesKey, Grown]
    step: int
    t: float
    kinds: frozenset[str]


def split_lines(run_id: str, name: PartName, lines: bytes, *, first: int, ordinal: int) -> Split:
    """Whole lines of a part as rows; ``first`` is the number of the first line.

    ``ordinal`` is that of the first record. Both differ where lines of the part are damaged.
    """
    place, rows = first_place(name), _RecordRows(run_id, name)
    decoded = decode_lines(lines, first=ordinal)
    num_lines, damaged = lines.count(b"\n"), 0
    if decoded.num_records == num_lines and all(line.is_whole for line in decoded.lines):
        rows.add_all(decoded.items, shift=first - ordinal)
    else:
        damaged = rows.add_one_by_one(lines, first, ordinal)
    points: list[bytes] = []
    grown: dict[SeriesKey, Grown] = {}
    for key in rows.columns:
        series, ordinals = rows.columns.points(key)
        places, steps = ordinals.astype(np.uint64) + np.uint64(place), series.steps
        start = text(run_id) + text(key.name) + bytes([AXES.index(key.axis)]) + text(name.writer)
        points.append(_point_rows(start, series, places))
        ascends = bool(np.all(steps[:-1] < steps[1:]))
        grown[key] = Grown(int(places.min()), int(steps[0]), int(steps[-1]), ascends)
    step, t = rows.extent
    return Split(
        b"".join(points),
        b"".join(rows.rows),
        num_lines,
        decoded.num_records,
        damaged + rows.columns.num_malformed,
        grown,
        NO_STEP if step is None else step,
        t or 0.0,
        frozenset(rows.kinds),
    )


class _RecordRows:
    """Collects the rows of ``records``, the points, and what lists need of a part."""

    def __init__(self, run_id: str, name: PartName) -> None:
        self._run = text(run_id)
        self._part = text(name.writer) + whole(name.attempt, name.part, bits=32)
        self.columns = PartColumns()
        self.rows: list[bytes] = []
        self.extent = Extent(None, None)
        self.kinds: set[str] = set()

    def add_all(self, items: Iterable[Rows | Line], *, shift: int) -> None:
        """Take in lines that are all records; a line's number is its ordinal and ``shift``."""
        for item in items:
            if isinstance(item, Line):
                assert item.record is not None
                self._add(item.ordinal + shift, shift, item.record)
                continue
            self._note(item.kind, self.columns.add_rows(item))
            if (rest := _common_rest(item)) is not None:
                self._add_rows(rest, item, shift)
            else:
                for ordinal, record in zip(item.ordinals, item.records, strict=True):
                    self._add_row(ordinal + shift, shift, record)

    def add_one_by_one(self, lines: bytes, first: int, ordinal: int) -> int:
        """Take in lines of which some are no records; how many are damaged."""
        damaged = 0
        for number, line in enumerate(lines.split(b"\n")[:-1], first):
            record = decode(line) if line else None
            if record is None:
                damaged += bool(line)
                self._append("", [number], number - ordinal, "", [NO_STEP], [math.nan], line)
            else:
                self._add(number, number - ordinal, record)
                ordinal += 1
        return damaged

    def _add(self, line: int, shift: int, record: Record) -> None:
        self._note(record["log"], self.columns.add(record, ordinal=line - shift))
        self._add_row(line, shift, record)

    def _add_row(self, line: int, shift: int, record: Record) -> None:
        step, kind = whole_number(record.get("step")), record["log"]
        rest = encode_json(_without_numbers(record) if kind in DENSE_KINDS else record)
        steps = [NO_STEP if step is None else step]
        self._append(kind, [line], shift, label_of(record), steps, [seconds(record)], rest)

    def _add_rows(self, rest: bytes, rows: Rows, shift: int) -> None:
        """Add records that differ in points, times and steps only as one row."""
        columns = rows.columns()
        lines = np.asarray(rows.ordinals) + shift
        steps, times = np.array(columns["step",], np.int64), np.array(columns["t",], np.float64)
        ends = np.flatnonzero(np.diff(lines // ROW_LINES)) + 1
        for some in zip(*(np.split(column, ends) for column in (lines, steps, times)), strict=True):
            self._append(rows.kind, some[0], shift, "", some[1], some[2], rest)

    def _append(
        self, kind: str, lines: Any, shift: int, label: str, steps: Any, times: Any, rest: bytes
    ) -> None:
        about = whole(int(lines[0]), int(lines[-1]), shift, bits=32) + text(label)
        arrays = array(lines, "A") + array(steps, "L") + array(times, "D")
        self.rows.append(self._run + text(kind) + self._part + about + arrays + text(rest))

    def _note(self, kind: str, extent: Extent) -> None:
        # Only steps of the step axis say how far the run has come.
        is_on_steps = axis_of({"log": kind, "step": 0}) == "step"
        self.extent = self.extent.joined(Extent(extent.step if is_on_steps else None, extent.time))
        self.kinds.add(kind)


def _common_rest(rows: Rows) -> bytes | None:
    """The rest of all of these records; None where it is not the same for all."""
    plan, columns = plan_of(rows.kind, rows.keys, rows.gpu), rows.columns()
    columns.pop(("log",))
    steps, times = columns.pop(("step",), ()), columns.pop(("t",), ())
    is_plain = all(set(map(type, column)) == {float} for column in (times, *columns.values()))
    if not is_plain or set(map(type, steps)) != {int} or plan is None:
        return None
    if set(plan.paths.values()) != columns.keys():
        return None
    in_bounds = all(max(map(abs, column)) < 2**63 for column in (steps, times))
    rest = _without_numbers(rows.records[0])
    is_split = (rest.get("t"), rest.get("step")) == (None, None)
    return encode_json(rest) if is_split and in_bounds else None


class Leaf(NamedTuple):
    """A number of a record: the series that it is a point of, and where it is."""

    series: str
    field: str
    member: str | None


def _leaves(record: Record) -> Iterator[Leaf]:
    """The numbers of a record that may be points, as ``stored_numbers_of`` names them."""
    kind = KINDS.get(record["log"])
    objects = {"m": ""} | ({} if kind is None else dict.fromkeys(kind.objects, kind.prefix))
    for field, prefix in objects.items():
        members = record.get(field)
        if isinstance(members, Mapping):
            yield from (Leaf(prefix + member, field, member) for member in members)
    if kind is not None and kind.scalars:
        for field, series in kind.series_names(record).items():
            yield Leaf(series, field, None)


def _without_numbers(record: Record) -> Record:
    """A record with ``null`` for its time, its step and the floats that are points of it."""
    rest = dict(record)
    if type(rest.get("t")) is float and not math.isnan(seconds(record)):
        rest["t"] = None
    if whole_number(rest.get("step")) not in (None, NO_STEP):
        rest["step"] = None
    elif KINDS[record["log"]].axis == "step":
        return rest  # without a step it has no points
    leaves = list(_leaves(record))
    if KINDS[record["log"]].axis == "none" or len({leaf.series for leaf in leaves}) < len(leaves):
        return rest
    for leaf in leaves:
        if leaf.member is None:
            if type(record[leaf.field]) is float:
                rest[leaf.field] = None
        elif type(record[leaf.field][leaf.member]) is float:
            if rest[leaf.field] is record[leaf.field]:
                rest[leaf.field] = dict(record[leaf.field])
            rest[leaf.field][leaf.member] = None
    return rest


# -- rows into records ----------------------------------------------------------------------------

# By series, the places of its points in one part and their values.
Points = Mapping[str, tuple[NDArray[np.uint64], NDArray[np.float64]]]


class RecordRow(NamedTuple):
    """A record without its numbers, from a row of ``records``."""

    line: int
    place: int
    step: int
    t: float
    rest: bytes


@functools.lru_cache(4096)
def _gaps(rest: bytes) -> tuple[Leaf, ...]:
    """Where numbers are missing in a rest."""
    record = decode_json(rest)
    words = record.get("nonfinite", {})
    words = words if isinstance(words, Mapping) else {}
    found: list[Leaf] = []
    for leaf in _leaves(record):
        value = record[leaf.field] if leaf.member is None else record[leaf.field][leaf.member]
        key = leaf.field if leaf.member is None else word_key(leaf.member, record)
        if value is None and key not in words:
            found.append(leaf)
    return tuple(found)


def filled(rows: Iterable[RecordRow], points: Points) -> Iterator[Record]:
    """The records of rows, with their numbers put back."""
    by_place = {
        name: dict(zip(places.tolist(), values.tolist(), strict=True))
        for name, (places, values) in points.items()
    }
    for row in rows:
        record: Record = decode_json(row.rest)
        if record["log"] in DENSE_KINDS:
            if record.get("t", 0) is None and not math.isnan(row.t):
                record["t"] = row.t
            if record.get("step", 0) is None and row.step != NO_STEP:
                record["step"] = row.step
            for leaf in _gaps(row.rest):
                value = by_place.get(leaf.series, {}).get(row.place)
                if value is not None and leaf.member is None:
                    record[leaf.field] = value
                elif value is not None:
                    record[leaf.field][leaf.member] = value
        yield record
