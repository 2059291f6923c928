"""A journal part that is read on as it grows.

Frequent kinds that hold only numbers (``metrics``, ``step`` and others) come as rows and go
straight to their columns. Other records come one by one. What is kept are columns of numbers, and
the file positions of other records.
"""

from __future__ import annotations

import bisect
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.journal.reader import PartReader, ShorterFileError, check_version
from epochal.journal.regular_file import regular_only
from epochal.journal.shape import KnownShapes, Line, LineDecoder, Rows
from epochal.records import DENSE_KINDS, Axis, Position, Record, axis_of, whole_number
from epochal.segments.columns import (
    MALFORMED,
    NO_STEP,
    Extent,
    PartColumns,
    PartSummary,
    SeriesKey,
    SeriesTable,
    by_id,
    seconds,
)
from epochal.series.series import Series
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


class PartDigest:
    """The content of a part: columns of numbers, file positions of other records, and the facts."""

    def __init__(self, name: PartName) -> None:
        self.facts = PartFacts(name)
        self.columns = PartColumns()
        self.places: dict[str, RecordIndex] = {}

    def take(self, ordinal: int, record: Record, start: int, end: int) -> None:
        """Process the next record, which lies between these bytes of its file."""
        kind, axis, facts = record["log"], axis_of(record), self.facts
        facts.header = {} if facts.header is None else facts.header
        if kind in FACT_KINDS:
            facts.note(ordinal, record)
        try:
            self.columns.add(record, ordinal=ordinal)
        except MALFORMED:
            facts.num_damaged += 1  # valid JSON, but not what this kind of record holds
        at, t = whole_number(record.get("epoch" if axis == "epoch" else "step")), seconds(record)
        self._note(axis, Extent(at, t if math.isfinite(t) else None))
        if kind not in DENSE_KINDS:
            places = self.places.setdefault(kind, RecordIndex())
            places.add(ordinal, (start, end), label_of(record), NO_STEP if at is None else at, t)

    def take_rows(self, rows: Rows) -> None:
        """Process records of one shape."""
        self.facts.header = {} if self.facts.header is None else self.facts.header
        for gpu, some in by_id(rows):
            self._note(axis_of({"log": rows.shape.kind}), self.columns.add_rows(some, gpu))

    def _note(self, axis: Axis, extent: Extent) -> None:
        """Note how far some records reach."""
        facts = self.facts
        if extent.time is not None and (facts.updated is None or extent.time > facts.updated):
            facts.updated = extent.time
        if extent.step is not None and axis in ("step", "epoch"):
            facts.reach(axis, extent.step)


class TailedPart:
    """One journal file; ``poll`` reads the new records."""

    def __init__(self, path: Path, name: PartName, *, shapes: KnownShapes | None = None) -> None:
        self.path = path
        self.name = name
        self.offset = 0
        self._digest = PartDigest(name)
        self.facts = self._digest.facts
        self._columns = self._digest.columns
        self._decoder = LineDecoder(shapes, as_floats=True)
        # Ordinal and offset where each chunk started: positions are ordinals, files are bytes.
        self._marks: list[tuple[int, int]] = []
        # Size and time of the file when a NUL was met: it may be filled in later.
        self._stopped_at: tuple[int, int] | None = None
        # The end of what was read: other bytes there mean that the file was cut and grew again.
        self._last_bytes = b""

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
        facts = self.facts
        decoded = self._decoder.decode(text, first=facts.num_records)
        if facts.num_records == 0 and (first := decoded.header()) is not None:
            check_version(first, self.path)
        if decoded.num_records:
            self._mark(facts.num_records)
        items: list[tuple[int, Rows | Line]] = [(line.ordinal, line) for line in decoded.lines]
        items += [(rows.ordinals[0], rows) for rows in decoded.rows]
        for _, item in sorted(items, key=itemgetter(0)):
            if isinstance(item, Rows):
                self._digest.take_rows(item)
            elif item.record is None:
                facts.num_damaged += 1
            else:
                start, end = self.offset + item.start, self.offset + item.end
                self._digest.take(item.ordinal, item.record, start, end)
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

    # -- answers ----------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The memory of the columns, and of the places of other records."""
        return self._columns.nbytes + sum(
            places.held_bytes for places in self._digest.places.values()
        )

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        return self._columns

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each."""
        return self._columns.tables()

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""
        return self._columns.summaries()

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        rank = self.facts.origin.rank
        return self._columns.series(key, rank) if key in self._columns else None

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
