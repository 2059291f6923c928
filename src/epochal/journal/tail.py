"""A journal part that is read on as it grows.

Frequent kinds that hold only numbers (``metrics``, ``step`` and others) come as rows with the same
keys and go straight to their columns. Other records come one by one. What is kept are columns of
numbers, and the file positions of other records.
"""

from __future__ import annotations

import bisect
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

import numpy as np

from epochal.journal.facts import FACT_KINDS, PartFacts, SeriesKey
from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.journal.reader import PartReader, ShorterFileError, check_version, whole_lines
from epochal.journal.regular_file import regular_only
from epochal.journal.rows import Line, LineDecoder, Rows
from epochal.journal.state import PartColumns, PartSummary, StalePartError, label_of
from epochal.records import DENSE_KINDS, KINDS, Position, Record, axis_of
from epochal.series.blocks import Blocks
from epochal.series.series import Series

_CHUNK_BYTES = 512 * 1024
_COMPARED_BYTES = 64
# A part with fewer lines of a kind is read before a struct for them is made.
_FEW = 8
# The starts of so many newest chunks are kept; of older ones, one in so many bytes.
_NEWEST_MARKS = 16
_MARK_EVERY_BYTES = 256 * 1024


class TailedPart:
    """One journal file; ``poll`` reads the new records."""

    is_sealed = False

    def __init__(self, path: Path, name: PartName) -> None:
        self.path = path
        self.name = name
        self.offset = 0
        self.facts = PartFacts(name)
        self._decoder = LineDecoder(_FEW)
        self._columns = PartColumns()
        # Where other records are, by kind: ordinal, start, end and the number of the label.
        self._places: dict[str, array[int]] = {}
        self._labels: dict[str, int] = {}
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
            file.seek(self.offset - len(self._last_bytes))
            if file.read(len(self._last_bytes)) != self._last_bytes:
                raise ShorterFileError(f"{self.path} was replaced while it was being read.")
            file.seek(self.offset)
            for text, has_nul in whole_lines(file, _CHUNK_BYTES):
                self._take(text)
                self._stopped_at = seen if has_nul else None

    def _take(self, text: bytes) -> None:
        facts, num_malformed = self.facts, self._columns.num_malformed
        decoded = self._decoder.decode(text, first=facts.num_records)
        if facts.num_records == 0 and (first := decoded.header()) is not None:
            check_version(first, self.path)
        if decoded.num_records:
            self._mark(facts.num_records)
        for item in decoded.items:
            if isinstance(item, Rows):
                facts.extend(KINDS[item.kind].axis, self._columns.add_rows(item))
                if item.kind not in DENSE_KINDS:
                    self._note_places(item)
            elif item.record is None:
                facts.num_damaged += 1
            else:
                self._take_record(item, item.record)
        facts.num_damaged += self._columns.num_malformed - num_malformed
        if decoded.num_records and facts.header is None:
            facts.header = {}
        facts.num_records += decoded.num_records
        self.offset += len(text)
        self._last_bytes = (self._last_bytes + text[-_COMPARED_BYTES:])[-_COMPARED_BYTES:]

    def _take_record(self, line: Line, record: Record) -> None:
        kind = record["log"]
        if kind in FACT_KINDS:
            self.facts.note(line.ordinal, record)
        extent, _ = self._columns.add(record, ordinal=line.ordinal)
        self.facts.extend(axis_of(record), extent)
        if kind not in DENSE_KINDS:
            label = self._labels.setdefault(label_of(record), len(self._labels))
            places = self._places.setdefault(kind, array("q"))
            places.extend((line.ordinal, self.offset + line.start, self.offset + line.end, label))

    def _note_places(self, rows: Rows) -> None:
        """Note where the records of some rows are; none of them has a label."""
        label = np.full(rows.ordinals.size, self._labels.setdefault("", len(self._labels)))
        columns = (rows.ordinals, self.offset + rows.starts, self.offset + rows.ends, label)
        self._places.setdefault(rows.kind, array("q")).frombytes(np.column_stack(columns).tobytes())

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
        return self._columns.nbytes + sum(8 * len(places) for places in self._places.values())

    @property
    def num_bytes(self) -> int:
        return self.offset

    def series_keys(self) -> Iterable[SeriesKey]:
        return self._columns

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        return self._columns.summaries()

    def series(self, key: SeriesKey) -> Series | None:
        rank = self.facts.origin.rank
        return self._columns.points(key, rank)[0] if key in self._columns else None

    def blocks(self, key: SeriesKey) -> Blocks | None:
        return None

    def kinds(self) -> Iterable[str]:
        """The kinds of its records that are no columns."""
        return self._places

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        """Its records of a kind; the bytes of each may have damaged lines before it."""
        wanted, places = self._labels.get(label or ""), self._places.get(kind)
        if places is None:
            return
        with open(self.path, "rb", opener=regular_only) as file:
            numbers = iter(places)
            # Records in rows and others may come by turns.
            for ordinal, start, end, number in sorted(zip(*[numbers] * 4, strict=True)):
                if label is not None and number != wanted:
                    continue
                file.seek(start)
                record = decode(file.read(end - start).rstrip(b"\n").rpartition(b"\n")[2])
                if record is None:
                    raise StalePartError(f"{self.path} does not hold what was read of it.")
                yield ordinal, record

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
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
