"""Reads one journal part into buckets of records of the same shape, and loses no byte of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from epochal.journal.line import decode, decode_json, encode_json
from epochal.journal.reader import check_version
from epochal.journal.regular_file import read_regular
from epochal.records import Axis, Record, axis_of, scalars_of
from epochal.segments.fast_decoder import Lane, signature_of
from epochal.segments.long import NO_NUMBER, LongForm, LongKey
from epochal.segments.shape import VALUED, Path, Shape, put_together, take_apart

_INT64 = 2**63
_LATEST_MS = 2**62


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
    """The records of one shape: their ordinals, and their values record after record."""

    shape: Shape
    ordinals: array[int] = field(default_factory=lambda: array("q"))
    values: list[Any] = field(default_factory=list)
    paths: list[Path] = field(init=False)

    def __post_init__(self) -> None:
        self.paths = self.shape.paths()

    @property
    def size(self) -> int:
        """How many records."""
        return len(self.ordinals)

    def columns(self) -> list[list[Any]]:
        """The values of each letter that has them."""
        width = sum(code in VALUED for code in self.shape.codes)
        return [self.values[place::width] for place in range(width)]

    def records(self) -> list[Record]:
        """The records themselves."""
        return put_together(self.shape, self.columns(), size=self.size)


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
    _lanes: dict[tuple[Any, ...], tuple[Lane, Bucket]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Take in the next record of the part."""
        ordinal = self.num_records
        self.num_records += 1
        signature = signature_of(record)
        known = None if signature is None else self._lanes.get(signature)
        if known is not None and (row := known[0].values(record)) is not None:
            known[1].ordinals.append(ordinal)
            known[1].values.extend(row)
            return
        taken = take_apart(record) if _has_columns(record) else None
        if taken is None:
            self.keep_whole(ordinal, record)
            return
        shape, values = taken
        bucket = self.buckets.get(shape)
        if bucket is None:
            bucket = self.buckets[shape] = Bucket(shape)
        bucket.ordinals.append(ordinal)
        bucket.values.extend(values)
        if signature is not None and (lane := Lane(record, shape)).is_open:
            self._lanes.setdefault(signature, (lane, bucket))
        if shape.kind == "allocator":  # its numbers lie too deep for columns
            self._add_points(ordinal, {k: v for k, v in record.items() if k != "m"})

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
        for name, value in _scalars(record):
            self.long.add(
                LongKey(name, axis, ""),
                ordinals=(ordinal,),
                steps=(NO_NUMBER if step is None else step,),
                milliseconds=(NO_NUMBER if milliseconds is None else milliseconds,),
                values=(value,),
            )

    def dissolve(self, bucket: Bucket) -> None:
        """Keep a bucket's records as JSON after all."""
        for ordinal, record in zip(bucket.ordinals, bucket.records(), strict=True):
            self.keep_whole(ordinal, record)


def collect(path: FilePath) -> Collected:
    """Read a whole part; raises NewerFormatError for one of a newer format."""
    text = read_regular(path)
    found = Collected(journal_bytes=len(text))
    for line in whole_lines(text):
        record = _parse(line)
        if record is None:
            # A torn line may end in a whole record; the bytes before that one are kept too.
            found.damage.append(Damage(found.num_records, line))
            record = decode(line)
            found.num_damaged += record is None
        if record is not None:
            if found.num_records == 0:
                check_version(record, path)
            found.add(record)
    if rest := text[_end_of_lines(text) :]:
        found.damage.append(Damage(found.num_records, rest))
    return found


def whole_lines(text: bytes) -> Iterator[bytes]:
    """The lines of a part that a reader looks at, without the empty ones."""
    start, limit = 0, _end_of_lines(text)
    while start < limit:
        end = text.index(b"\n", start)
        if end > start:
            yield text[start:end]
        start = end + 1


def _end_of_lines(text: bytes) -> int:
    """Where reading ends: at a torn last line, or at the line that holds the first NUL."""
    nul = text.find(b"\0")
    return text.rfind(b"\n", 0, len(text) if nul < 0 else nul) + 1


def _parse(line: bytes) -> Record | None:
    try:
        record = decode_json(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("log"), str) else None


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


def whole_number(value: Any) -> int | None:
    """A step as 64 bits hold it; None for anything that is not one."""
    if type(value) is not int:
        return None
    return value if -_INT64 <= value < _INT64 else None


def milliseconds_of(record: Record) -> int | None:
    """A record's time in whole milliseconds; None when it has none that fits."""
    t: Any = record.get("t")
    if type(t) not in (int, float) or not -_LATEST_MS < t * 1000 < _LATEST_MS:
        return None
    milliseconds: int = round(t * 1000)
    return milliseconds
