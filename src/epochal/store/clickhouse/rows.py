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
from epochal.journal.shape import Decoded, LineDecoder, Rows
from epochal.records import DENSE_KINDS, KINDS, Axis, Record, whole_number, word_key
from epochal.segments.columns import PartColumns, by_id, plan_of, seconds
from epochal.store.local.part import label_of

AXES: tuple[Axis, ...] = ("step", "epoch", "time")
# The step of a record that has none.
NO_STEP = -(2**63)
# A place has 15 bits for the attempt, 16 for the part, and 32 for the ordinal of the record.
_MOST = 1 << 15
_POINT = np.dtype([("place", "<u8"), ("step", "<i8"), ("t", "<f8"), ("value", "<f8")])
_RECORD = np.dtype([("line", "<u4"), ("ordinal", "<u4"), ("step", "<i8"), ("t", "<f8")])


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

    ``D`` and ``U`` are arrays of Float64 and UInt64.
    """
    at, size = 0, len(answer)
    fixed = {letter: struct.Struct(f"<{letter}") for letter in set(types) - set("sDU")}

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
            elif letter in "DU":
                count = read_length()
                kind = np.float64 if letter == "D" else np.uint64
                row.append(np.frombuffer(answer, kind, count, at))
                at += 8 * count
            else:
                row.append(fixed[letter].unpack_from(answer, at)[0])
                at += fixed[letter].size
        yield tuple(row)


def _table(prefix: bytes, columns: Mapping[str, Any], kind: np.dtype[Any], suffix: bytes) -> bytes:
    """Rows that differ in numbers only."""
    size = len(next(iter(columns.values())))
    made = np.dtype([("prefix", f"V{len(prefix)}"), *kind.descr, ("suffix", f"V{len(suffix)}")])
    rows = np.empty(size, made)
    rows["prefix"] = np.void(prefix)
    for name, column in columns.items():
        rows[name] = column
    if suffix:
        rows["suffix"] = np.void(suffix)
    return rows.tobytes()


# -- records into rows ----------------------------------------------------------------------------


def first_place(name: PartName) -> int:
    """The place of the first record of a part; raises ``FormatError`` for one that has none."""
    if name.attempt >= _MOST or name.part >= _MOST:
        raise FormatError(f"{name.stem}: a hub over ClickHouse takes {_MOST:,} attempts and parts.")
    return (name.attempt << 48) | (name.part << 32)


class Split(NamedTuple):
    """Some lines of a part as rows of ``points`` and ``records``."""

    points: bytes
    records: bytes
    num_lines: int
    num_records: int
    num_damaged: int


def split_lines(run_id: str, name: PartName, lines: bytes, *, first: int, ordinal: int) -> Split:
    """Whole lines of a part as rows; ``first`` is the number of the first line.

    ``ordinal`` is that of the first record. Both differ where lines of the part are damaged.
    """
    num_lines, columns = lines.count(b"\n"), PartColumns()
    decoded = LineDecoder().decode(lines, first=ordinal)
    prefix = (text(run_id), text(name.writer) + whole(name.attempt, name.part, bits=32))
    place = first_place(name)
    damaged = 0
    if decoded.num_records == num_lines and all(line.is_whole for line in decoded.lines):
        records = _rows_of(decoded, columns, prefix, first - ordinal)
    else:
        records, damaged = _rows_one_by_one(lines, columns, prefix, first, ordinal)
    points: list[bytes] = []
    for number, key in enumerate(columns):
        series, ordinals = columns.points(key)
        start = text(run_id) + text(key.name) + bytes([AXES.index(key.axis)]) + text(name.writer)
        start += whole(min(number, 0xFFFF), bits=16)
        column: dict[str, Any] = {"place": ordinals.astype(np.uint64) + np.uint64(place)}
        column |= {"step": series.steps, "t": series.times, "value": series.floats}
        points.append(_table(start, column, _POINT, b""))
    malformed = damaged + columns.num_malformed
    return Split(b"".join(points), records, num_lines, decoded.num_records, malformed)


_Prefix = tuple[bytes, bytes]


def _rows_of(decoded: Decoded, columns: PartColumns, prefix: _Prefix, shift: int) -> bytes:
    """The rows of lines that are all records; a line's number is its ordinal and ``shift``."""
    found: list[bytes] = []
    for rows in decoded.rows:
        for gpu, some in by_id(rows):
            columns.add_rows(some, gpu)
            rest = _common_rest(some, gpu)
            if rest is None:
                pairs = zip(some.ordinals, some.records(), strict=True)
                found += (_row(prefix, ordinal + shift, ordinal, one) for ordinal, one in pairs)
            else:
                found.append(_rows_with(rest, some, prefix, shift))
    for line in decoded.lines:
        assert line.record is not None
        columns.add(line.record, ordinal=line.ordinal)
        found.append(_row(prefix, line.ordinal + shift, line.ordinal, line.record))
    return b"".join(found)


def _rows_one_by_one(
    lines: bytes, columns: PartColumns, prefix: _Prefix, first: int, ordinal: int
) -> tuple[bytes, int]:
    """The rows of lines of which some are no records, and how many are damaged."""
    found: list[bytes] = []
    damaged = 0
    for number, line in enumerate(lines.split(b"\n")[:-1], first):
        record = decode(line) if line else None
        if record is None:
            damaged += bool(line)
            found.append(_assembled(prefix, "", number, ordinal, NO_STEP, math.nan, "", line))
        else:
            columns.add(record, ordinal=ordinal)
            found.append(_row(prefix, number, ordinal, record))
            ordinal += 1
    return b"".join(found), damaged


def _row(prefix: _Prefix, line: int, ordinal: int, record: Record) -> bytes:
    step, t, kind = whole_number(record.get("step")), seconds(record), record["log"]
    rest = encode_json(_without_numbers(record) if kind in DENSE_KINDS else record)
    at = NO_STEP if step is None else step
    return _assembled(prefix, kind, line, ordinal, at, t, label_of(record), rest)


def _assembled(
    prefix: _Prefix,
    kind: str,
    line: int,
    ordinal: int,
    step: int,
    t: float,
    label: str,
    rest: bytes,
) -> bytes:
    numbers = struct.pack("<IIqd", line, ordinal, step, t)
    return prefix[0] + text(kind) + prefix[1] + numbers + text(label) + text(rest)


def _rows_with(rest: bytes, rows: Rows, prefix: _Prefix, shift: int) -> bytes:
    """The rows of records that differ in points, times and steps only."""
    ordinals = np.array(rows.ordinals, dtype=np.int64)
    places = {path: place for place, path in enumerate(rows.shape.paths())}
    steps, times = places.get(("step",)), places.get(("t",))
    columns: dict[str, Any] = {"line": ordinals + shift, "ordinal": ordinals}
    columns["step"] = NO_STEP if steps is None else np.frombuffer(rows.columns[steps], np.int64)  # type: ignore[arg-type]
    columns["t"] = math.nan if times is None else np.frombuffer(rows.columns[times], np.float64)  # type: ignore[arg-type]
    start = prefix[0] + text(rows.shape.kind) + prefix[1]
    return _table(start, columns, _RECORD, text("") + text(rest))


def _common_rest(rows: Rows, gpu: Any) -> bytes | None:
    """The rest of all records of a shape; None where it is not the same for all."""
    shape, plan = rows.shape, plan_of(rows.shape, gpu)
    kinds = dict(zip(shape.paths(), shape.types, strict=True))
    step, t = kinds.pop(("step",), int), kinds.pop(("t",), float)
    is_plain = set(kinds.values()) == {float} and step is int and t is float
    if not is_plain or plan is None or len(plan.names) != len(kinds):
        return None
    first = next(rows.select([0]).records())
    rest = _without_numbers(first)
    is_split = (rest.get("t"), rest.get("step")) == (None, None)
    return encode_json(rest) if is_split and _in_bounds(rows) else None


def _in_bounds(rows: Rows) -> bool:
    """Whether the columns of the table hold every time and every step."""
    for path, kind, column in zip(rows.shape.paths(), rows.shape.types, rows.columns, strict=True):
        if path in (("t",), ("step",)) and isinstance(column, bytes):
            numbers = np.frombuffer(column, np.float64 if kind is float else np.int64)
            if not np.all(np.abs(numbers.astype(np.float64)) < 2.0**63):
                return False
    return True


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
    """A row of ``records``."""

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
