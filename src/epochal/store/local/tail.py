"""Tails one journal part: numbers become columns, of the rest it is remembered where they lie."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from epochal.journal.layout import PartName
from epochal.journal.line import decode, decode_json
from epochal.journal.reader import PartReader, ShorterFileError, check_version
from epochal.journal.regular_file import regular_only
from epochal.records import Position, Record
from epochal.series.series import Series
from epochal.store.local.columns import SeriesKey, SeriesTable
from epochal.store.local.digest import PartDigest
from epochal.store.local.part import PartFacts, Place, StalePartError

_MARK_EVERY = 256
_CHUNK_BYTES = 4 * 1024 * 1024
_COMPARED_BYTES = 64


class TailedPart:
    """One journal file; ``poll`` reads what was written to it since."""

    def __init__(self, path: Path, name: PartName) -> None:
        self.path = path
        self.name = name
        self.offset = 0
        self._digest = PartDigest(name)
        # Where every 256th record starts: positions are ordinals, files are bytes.
        self._marks = array("q")
        # Size and time of the file when a NUL was met: it may be filled in later.
        self._stopped_at: tuple[int, int] | None = None
        # The end of what was read: other bytes there mean that the file was cut and grew again.
        self._last_bytes = b""

    @property
    def facts(self) -> PartFacts:
        """What it says of its run."""
        return self._digest.facts

    # -- reading on -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take in every whole record written since.

        Raises ``FileNotFoundError`` for a part that is gone, ``ShorterFileError`` for a file that
        became shorter or was replaced, ``NewerFormatError`` for one of a newer format.
        """
        with open(self.path, "rb", opener=regular_only) as file:
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
            rest = b""
            while chunk := file.read(_CHUNK_BYTES):
                chunk = rest + chunk
                end = chunk.rfind(b"\n") + 1
                nul = chunk.find(b"\0", 0, end)
                if nul >= 0:
                    self._stopped_at = seen
                    end = chunk.rfind(b"\n", 0, nul) + 1
                self._take(chunk[:end])
                if nul >= 0:
                    return
                rest = chunk[end:]

    def _take(self, text: bytes) -> None:
        """Take in whole lines."""
        facts, take, take_line = self._digest.facts, self._digest.take, self._digest.lanes.take
        ordinal = facts.num_records
        start = end = self.offset
        for line in text.split(b"\n")[:-1]:
            end += len(line) + 1
            if not take_line(ordinal, line):
                record = _record(line)
                if record is None:
                    facts.num_damaged += bool(line)  # an empty line ended a torn record
                    continue
                if ordinal == 0:
                    check_version(record, self.path)
                take(ordinal, record, start, end)
            if ordinal % _MARK_EVERY == 0:
                self._marks.append(start)
            ordinal += 1
            start = end
        facts.num_records = ordinal
        self.offset = end
        self._last_bytes = (self._last_bytes + text[-_COMPARED_BYTES:])[-_COMPARED_BYTES:]

    # -- answers ----------------------------------------------------------------------------------

    @property
    def held_bytes(self) -> int:
        """The columns, which take about half of what their text does."""
        return self.offset // 2

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        return self._digest.blocks

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each."""
        return self._digest.blocks.tables()

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        blocks = self._digest.blocks
        return blocks.series(key, self.facts.origin.rank) if key in blocks else None

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
        mark = first // _MARK_EVERY
        reader = PartReader(
            self.path, self.name, offset=self._marks[mark], ordinal=mark * _MARK_EVERY
        )
        try:
            for position, record in reader.read():
                if position.ordinal >= end:
                    return
                if position.ordinal >= first:
                    yield position, record
        except ShorterFileError as error:
            raise StalePartError(str(error)) from error

    def close(self) -> None:
        """Nothing is held open between questions."""


def _record(line: bytes) -> Record | None:
    try:
        record: Any = decode_json(line)
    except (ValueError, RecursionError):
        record = None
    if type(record) is dict and type(record.get("log")) is str:
        return record
    # A torn write that a later record was appended to: the later one is whole.
    return decode(line) if line else None
