"""Reads one journal part into buckets of records of the same shape, and loses no byte of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from numpy.typing import NDArray

from epochal.journal.columnar import ColumnarDecoder, Decoded
from epochal.journal.line import encode_json, encode_lines
from epochal.journal.line_columns import Lines
from epochal.journal.reader import check_version
from epochal.journal.regular_file import regular_only
from epochal.records import Axis, Record, axis_of, scalars_of, whole_number
from epochal.segments.long import NO_NUMBER, Along, LongForm, LongKey
from epochal.segments.shape import (
    VALUED,
    Path,
    Shape,
    as_lists,
    columns_of,
    packed,
    put_together,
    take_apart,
    unpacked,
)

_INT64 = 2**63
_LATEST_MS = 2**62
_CHUNK_BYTES = 1024 * 1024


class Document(NamedTuple):
    """A record kept whole, as JSON."""

    ordinal: int
    kind: str
    step: int | None
    milliseconds: int | None
    text: str


class Damage(NamedTuple):
    """Bytes that no reader hands out, and the ordinal of the record they stand before."""

    ordinal: int
    text: bytes


@dataclass(slots=True)
class Bucket:
    """The records of one shape: their ordinals, and a column for each letter that has values."""

    shape: Shape
    ordinals: array[int] = field(default_factory=lambda: array("q"))
    packed: list[Any] = field(init=False)
    paths: list[Path] = field(init=False)

    def __post_init__(self) -> None:
        self.paths = self.shape.paths()
        self.packed = [packed(code, ()) for code in self._letters()]

    @property
    def size(self) -> int:
        """How many records."""
        return len(self.ordinals)

    def extend(self, ordinals: Iterable[int], columns: Iterable[Sequence[Any]]) -> None:
        """Add records."""
        self.ordinals.extend(ordinals)
        for code, column, more in zip(self._letters(), self.packed, columns, strict=True):
            column += more if type(more) is type(column) else packed(code, more)

    def columns(self) -> list[NDArray[Any] | list[Any]]:
        """The values of each letter that has them; no record can be added any more."""
        return list(map(unpacked, self._letters(), self.packed))

    def records(self) -> list[Record]:
        """The records themselves."""
        return put_together(self.shape, as_lists(self.columns()), size=self.size)

    def _letters(self) -> list[str]:
        return [code for code in self.shape.codes if code in VALUED]


@dataclass(slots=True)
class _Pending:
    """Records of one shape that were taken apart one by one, and still have to be checked."""

    ordinals: list[int] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


@dataclass(slots=True)
class Collected:
    """Everything one part holds."""

    buckets: dict[Shape, Bucket] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    long: LongForm = field(default_factory=LongForm)
    damage: list[Damage] = field(default_factory=list)
    num_records: int = 0
    num_damaged: int = 0
    journal_bytes: int = 0
    _pending: dict[Shape, _Pending] = field(default_factory=dict)

    def add_all(self, decoded: Decoded, text: bytes) -> None:
        """Take in the next lines of the part."""
        for line in decoded.lines:
            if not line.is_whole:
                # A torn line may end in a whole record; the bytes before that one are kept too.
                self.damage.append(Damage(line.ordinal, text[line.start : line.end - 1]))
                self.num_damaged += line.record is None
            if line.record is not None:
                self._add(line.ordinal, line.record)
        for lines in decoded.groups:
            if not self._add_columns(lines):
                for ordinal, record in zip(lines.ordinals, lines.records(), strict=True):
                    self._add(ordinal, record)
        self._check_pending()
        self.num_records += decoded.num_records

    def _add_columns(self, lines: Lines) -> bool:
        """Whether records became columns at once; they do where one of them speaks for all."""
        (first,) = lines._replace(
            ordinals=lines.ordinals[:1], columns=[column[:1] for column in lines.columns]
        ).records()
        taken = take_apart(first) if _has_columns(first) else None
        if taken is None or first["log"] == "allocator":
            return False
        shape, values = taken
        columns = columns_of(shape, lines.columns)
        if columns is None or not _gives_back(shape, [values], [first]):
            return False
        self._bucket(shape).extend(lines.ordinals, columns)
        return True

    def _add(self, ordinal: int, record: Record) -> None:
        taken = take_apart(record) if _has_columns(record) else None
        if taken is None:
            self.keep_whole(ordinal, record)
            return
        shape, values = taken
        pending = self._pending.setdefault(shape, _Pending())
        pending.ordinals.append(ordinal)
        pending.rows.append(values)
        pending.records.append(record)

    def _check_pending(self) -> None:
        """Records that cannot be put together again are kept whole."""
        for shape, pending in self._pending.items():
            if not _gives_back(shape, pending.rows, pending.records):
                for ordinal, record in zip(pending.ordinals, pending.records, strict=True):
                    self.keep_whole(ordinal, record)
                continue
            self._bucket(shape).extend(pending.ordinals, zip(*pending.rows, strict=True))
            if shape.kind == "allocator":  # its numbers lie too deep for columns
                for ordinal, record in zip(pending.ordinals, pending.records, strict=True):
                    self._add_points(ordinal, {k: v for k, v in record.items() if k != "m"})
        self._pending.clear()

    def _bucket(self, shape: Shape) -> Bucket:
        bucket = self.buckets.get(shape)
        if bucket is None:
            bucket = self.buckets[shape] = Bucket(shape)
        return bucket

    def keep_whole(self, ordinal: int, record: Record) -> None:
        """Keep a record as JSON, and its scalars in long form."""
        text = encode_json(record).decode()
        step = whole_number(record.get("step"))
        self.documents.append(Document(ordinal, record["log"], step, milliseconds_of(record), text))
        self._add_points(ordinal, record)

    def _add_points(self, ordinal: int, record: Record) -> None:
        axis = axis_of(record)
        step = step_of(record, axis)
        if axis == "none" or (step is None and axis != "time"):
            return
        milliseconds = milliseconds_of(record)
        along = Along.of(
            (ordinal,),
            (NO_NUMBER if step is None else step,),
            (NO_NUMBER if milliseconds is None else milliseconds,),
        )
        for name, value in _scalars(record):
            self.long.add(LongKey(name, axis, ""), along, (value,))

    def dissolve(self, bucket: Bucket) -> None:
        """Keep a bucket's records as JSON after all."""
        for ordinal, record in zip(bucket.ordinals, bucket.records(), strict=True):
            self.keep_whole(ordinal, record)


def collect(path: FilePath) -> Collected:
    """Read a whole part; raises NewerFormatError for one of a newer format."""
    found = Collected()
    decoder = ColumnarDecoder()
    # Some of it at a time: the memory of what was decoded is used again.
    with open(path, "rb", buffering=0, opener=regular_only) as file:
        rest = b""
        while chunk := file.read(max(_CHUNK_BYTES, len(rest))):  # so that long lines end soon
            found.journal_bytes += len(chunk)
            text = rest + chunk
            # Reading ends at a torn last line, or at the line that holds the first NUL.
            nul = text.find(b"\0")
            end = text.rfind(b"\n", 0, len(text) if nul < 0 else nul) + 1
            lines, rest = text[:end], text[end:]
            decoded = decoder.decode(lines, first=found.num_records)
            if found.num_records == 0 and (first := decoded.first_record()) is not None:
                check_version(first, path)
            found.add_all(decoded, lines)
            if nul >= 0:
                behind = file.read()
                found.journal_bytes += len(behind)
                rest += behind
                break
    if rest:
        found.damage.append(Damage(found.num_records, rest))
    return found


def _gives_back(shape: Shape, rows: list[list[Any]], records: list[Record]) -> bool:
    """Whether records that were taken apart are put together as they were, types included."""
    columns = list(zip(*rows, strict=True))
    made = put_together(shape, columns, size=len(rows))
    return encode_lines(made) == encode_lines(records)


def _has_columns(record: Record) -> bool:
    kind = record["log"]
    if kind == "epoch":
        return whole_number(record.get("epoch")) is not None
    if kind == "gpu" and type(record.get("id", 0)) not in (int, str):
        return False
    return axis_of(record) != "none"


def _scalars(record: Record) -> list[tuple[str, float]]:
    try:
        return list(scalars_of(record))
    except (ValueError, TypeError, AttributeError, OverflowError):
        return []  # a foreign record under one of our names; it is kept whole all the same


def step_of(record: Record, axis: Axis) -> int | None:
    """Where a record stands on its axis; None when it does not."""
    return whole_number(record.get("epoch" if axis == "epoch" else "step"))


def milliseconds_of(record: Record) -> int | None:
    """A record's time in whole milliseconds; None when it has none that fits."""
    t: Any = record.get("t")
    if type(t) not in (int, float) or not -_LATEST_MS < t * 1000 < _LATEST_MS:
        return None
    milliseconds: int = round(t * 1000)
    return milliseconds
