"""Processes the records of a part, each once, and reads on in the file of a journal part.

Frequent kinds that hold only numbers (``metrics``, ``step`` and others) come as columns and go
straight to their block. Other records come one by one. What is kept are columns of numbers, and
the file positions of other records.
"""

from __future__ import annotations

import bisect
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epochal.journal.columnar import ColumnarDecoder, Decoded, KnownShapes, Line
from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.journal.line_columns import FieldPath, Lines, LineShape
from epochal.journal.reader import PartReader, ShorterFileError, check_version
from epochal.journal.regular_file import regular_only
from epochal.records import DENSE_KINDS, KINDS, Axis, Position, Record, axis_of, whole_number
from epochal.segments.footer import PartSummary
from epochal.series.series import Series
from epochal.store.local.columns import (
    NO_STEP,
    STEP_LIMIT,
    Block,
    Blocks,
    Names,
    SeriesKey,
    SeriesTable,
    SpillFile,
    seconds,
)
from epochal.store.local.part import (
    FACT_KINDS,
    PartFacts,
    Place,
    RecordIndex,
    StalePartError,
    label_of,
)

_CHUNK_BYTES = 512 * 1024
_COMPARED_BYTES = 64
# The starts of so many newest chunks are kept; of older ones, one in so many bytes.
_NEWEST_MARKS = 16
_MARK_EVERY_BYTES = 256 * 1024
_PLANNED = frozenset({"step", "moe", "gpu", "system"})
_NUMPY_TYPES: Mapping[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_}


class Plan(NamedTuple):
    """Which values of a record of one shape belong to which series."""

    names: Names
    paths: tuple[FieldPath, ...]
    axis: Axis


class PartDigest:
    """The content of a part: columns of numbers, file positions of other records, and the facts."""

    def __init__(self, name: PartName, spill: SpillFile | None = None) -> None:
        self.facts = PartFacts(name)
        self.blocks = Blocks(spill)
        self.places: dict[str, RecordIndex] = {}
        self._plans: dict[tuple[LineShape, Any], Plan | None] = {}

    def take(self, ordinal: int, record: Record, start: int, end: int) -> None:
        """Process the next record, which lies between these bytes of its file."""
        if ordinal == 0:
            self.facts.header = {}
        kind = record["log"]
        facts, axis, t = self.facts, axis_of(record), seconds(record)
        if math.isfinite(t) and (facts.updated is None or t > facts.updated):
            facts.updated = t
        if kind in FACT_KINDS:
            facts.note(ordinal, record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        if at is not None and axis in ("step", "epoch"):
            facts.reach(axis, at)
        if axis == "time" or (at is not None and axis != "none"):
            step = NO_STEP if at is None else at
            try:
                self.blocks.add(record, axis=axis, ordinal=ordinal, at=step, t=t)
            except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
                facts.num_damaged += 1  # valid JSON, but not what this kind of record holds
        if kind not in DENSE_KINDS:
            places = self.places.get(kind)
            if places is None:
                places = self.places[kind] = RecordIndex()
            places.add(ordinal, (start, end), label_of(record), NO_STEP if at is None else at, t)

    def take_lines(self, lines: Lines) -> None:
        """Process records of one shape that ``plan_of`` has a plan for."""
        plan = self.plan_of(lines)
        assert plan is not None
        paths = lines.shape.paths()
        numbers = {
            path: np.frombuffer(column, dtype=_NUMPY_TYPES[kind])
            for path, kind, column in zip(paths, lines.shape.types, lines.columns, strict=True)
            if kind in _NUMPY_TYPES
        }
        if lines.ordinals[0] == 0:
            self.facts.header = {}
        times = numbers["t",]
        is_time = np.abs(times) < STEP_LIMIT
        if not is_time.all():
            times = np.where(is_time, times, np.nan)
        steps = numbers.get(("step",))
        block = self.blocks.block(plan.axis, plan.names)
        columns = [numbers[path].astype(np.float64, copy=False) for path in plan.paths]
        if block is not None:
            block.extend(lines.ordinals, steps, times, columns)
        else:
            for name, column in zip(plan.names, columns, strict=True):
                alone = self.blocks.block(plan.axis, (name,))
                assert alone is not None
                alone.extend(lines.ordinals, steps, times, [column])
        facts, latest = self.facts, float(times[is_time].max(initial=-np.inf))
        if math.isfinite(latest) and (facts.updated is None or latest > facts.updated):
            facts.updated = latest
        if steps is not None and plan.axis == "step":
            facts.reach("step", int(steps.max()))

    def plan_of(self, lines: Lines) -> Plan | None:
        """The plan that turns records of one shape into series at once; None if there is none."""
        gpu = lines.columns[lines.shape.paths().index(("id",))][0] if _has_id(lines) else None
        key = (lines.shape, gpu)
        if key not in self._plans:
            self._plans[key] = plan_of(lines.shape, gpu)
        return self._plans[key]


@lru_cache(256)
def plan_of(shape: LineShape, gpu: Any) -> Plan | None:
    """The plan for records of a shape; None where a number has to be looked for in each record."""
    paths = shape.paths()
    types = dict(zip(paths, shape.types, strict=True))
    keys = [name for name, _ in shape.keys]
    if types.get(("t",)) is not float or "nonfinite" in keys:
        return None
    if types.get(("step",), int) is not int:
        return None
    named: dict[str, FieldPath]
    if shape.kind == "metrics":
        if ("step",) not in types:
            return None
        named = {path[1]: path for path in paths if path[0] == "m" and len(path) == 2}
    elif shape.kind in _PLANNED and "m" not in keys:
        fields: Record = dict.fromkeys(keys) | ({"id": gpu} if "id" in keys else {})
        named = {name: (field,) for field, name in KINDS[shape.kind].series_names(fields).items()}
        if KINDS[shape.kind].axis == "step" and ("step",) not in types:
            return None
    else:
        return None
    if not named or any(types.get(path) not in _NUMPY_TYPES for path in named.values()):
        return None
    return Plan(tuple(named), tuple(named.values()), KINDS[shape.kind].axis)


def are_series(shape: LineShape) -> bool:
    """Whether all that is kept of records of a shape is their series."""
    return shape.kind != "gpu" and plan_of(shape, None) is not None


def _has_id(lines: Lines) -> bool:
    return lines.shape.kind == "gpu" and ("id",) in lines.shape.paths()


class TailedPart:
    """One journal file; ``poll`` reads the new records."""

    def __init__(
        self,
        path: Path,
        name: PartName,
        *,
        spill: SpillFile | None = None,
        shapes: KnownShapes | None = None,
    ) -> None:
        self.path = path
        self.name = name
        self.offset = 0
        self._digest = PartDigest(name, spill)
        self._decoder = ColumnarDecoder(shapes, are_series=are_series)
        # Ordinal and offset where each chunk started: positions are ordinals, files are bytes.
        self._marks: list[tuple[int, int]] = []
        # Size and time of the file when a NUL was met: it may be filled in later.
        self._stopped_at: tuple[int, int] | None = None
        # The end of what was read: other bytes there mean that the file was cut and grew again.
        self._last_bytes = b""

    @property
    def facts(self) -> PartFacts:
        """The facts about the run that its records hold."""
        return self._digest.facts

    # -- reading on -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Read every complete record written since the last call.

        Raises ``FileNotFoundError`` for a part that is gone, ``ShorterFileError`` for a file that
        became shorter or was replaced, ``NewerFormatError`` for one of a newer format.
        """
        with open(self.path, "rb", buffering=0, opener=regular_only) as file:
            status = os.fstat(file.fileno())
            seen = (status.st_size, status.st_mtime_ns)
            if status.st_size < self.offset:
                raise ShorterFileError(f"{self.path} became shorter while it was being read.")
            if status.st_size == self.offset or seen == self._stopped_at:
                return
            self._stopped_at = None
            file.seek(self.offset - len(self._last_bytes))
            if file.read(len(self._last_bytes)) != self._last_bytes:
                raise ShorterFileError(f"{self.path} was replaced while it was being read.")
            size = _CHUNK_BYTES
            while chunk := file.read(size):
                end = chunk.rfind(b"\n") + 1
                nul = chunk.find(b"\0", 0, end)
                if nul >= 0:
                    self._stopped_at = seen
                    end = chunk.rfind(b"\n", 0, nul) + 1
                self._take(chunk[:end])
                if nul >= 0 or (not end and len(chunk) < size):
                    return
                # A line that is longer than a chunk is read again, with more of it each time.
                size = _CHUNK_BYTES if end else 2 * size
                file.seek(self.offset)

    def _take(self, text: bytes) -> None:
        """Process complete lines."""
        facts, digest = self._digest.facts, self._digest
        decoded = self._decoder.decode(text, first=facts.num_records)
        if facts.num_records == 0 and (first := decoded.first_record()) is not None:
            check_version(first, self.path)
        if decoded.num_records:
            self._mark(facts.num_records)
        for item in self._in_order(decoded, text):
            if isinstance(item, Lines):
                digest.take_lines(item)
            elif item.record is None:
                facts.num_damaged += 1
            else:
                start, end = self.offset + item.start, self.offset + item.end
                digest.take(item.ordinal, item.record, start, end)
        digest.blocks.sort(facts.num_records, decoded.num_records)
        digest.blocks.spill()
        facts.num_records += decoded.num_records
        self.offset += len(text)
        self._last_bytes = (self._last_bytes + text[-_COMPARED_BYTES:])[-_COMPARED_BYTES:]

    def _mark(self, ordinal: int) -> None:
        """Keep where a chunk starts: a part that grows by a line at a time has a million."""
        marks = self._marks
        marks.append((ordinal, self.offset))
        older = len(marks) - _NEWEST_MARKS
        if older > 1 and marks[older][1] - marks[older - 2][1] < _MARK_EVERY_BYTES:
            del marks[older - 1]

    def _in_order(self, decoded: Decoded, text: bytes) -> list[Lines | Line]:
        """Groups that become series at once, and every other record, by their first ordinals."""
        work: list[tuple[int, Lines | Line]] = [(line.ordinal, line) for line in decoded.lines]
        spans: list[tuple[int, int]] = []
        for group in decoded.groups:
            for lines in group.by_value(("id",)) if group.shape.kind == "gpu" else [group]:
                if self._digest.plan_of(lines) is not None:
                    work.append((lines.ordinals[0], lines))
                    continue
                spans = spans or decoded.spans(text)
                for ordinal, record in zip(lines.ordinals, lines.records(), strict=True):
                    start, end = spans[ordinal - self._digest.facts.num_records]
                    work.append((ordinal, Line(ordinal, start, end, record, is_whole=True)))
        return [item for _, item in sorted(work, key=itemgetter(0))]

    # -- answers ----------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The memory of the columns, and of the places of other records."""
        digest = self._digest
        return digest.blocks.held_bytes + sum(one.held_bytes for one in digest.places.values())

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        return self._digest.blocks

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each."""
        return self._digest.blocks.tables()

    def kept_summaries(self) -> Mapping[tuple[str, Axis], PartSummary]:
        """None: its series are read."""
        return {}

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        blocks = self._digest.blocks
        return blocks.series(key, self.facts.origin.rank) if key in blocks else None

    def columns(self, key: SeriesKey) -> list[tuple[Block, int]]:
        """The blocks that have a series, each with the number of its column."""
        return self._digest.blocks.columns(key)

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are."""
        places = self._digest.places.get(kind)
        return () if places is None else places.of(self.facts.origin, label=label)

    def read(self, kind: str, places: list[Place]) -> Iterator[Record]:
        """The records at these places; the bytes of each may have damaged lines before it."""
        with open(self.path, "rb", opener=regular_only) as file:
            for place in places:
                start, end = place.key
                file.seek(start)
                record = decode(file.read(end - start).rstrip(b"\n").rpartition(b"\n")[2])
                if record is None:
                    raise StalePartError(f"{self.path} does not hold what was read of it.")
                yield record

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """The records read so far, from an ordinal on."""
        end = self.facts.num_records
        if first >= end:
            return
        mark = bisect.bisect_right(self._marks, first, key=itemgetter(0)) - 1
        ordinal, offset = self._marks[mark]
        reader = PartReader(self.path, self.name, offset=offset, ordinal=ordinal)
        try:
            for records in reader.read_blocks():
                for ordinal, record in enumerate(records, reader.ordinal - len(records)):
                    if ordinal >= end:
                        return
                    if ordinal >= first:
                        yield Position(*self.name, ordinal), record
        except ShorterFileError as error:
            raise StalePartError(str(error)) from error

    def close(self) -> None:
        """Does nothing: no file stays open between reads."""
