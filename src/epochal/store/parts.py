"""Tails one journal part and remembers where its records lie."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from epochal.journal.layout import PartName
from epochal.journal.line import decode
from epochal.journal.reader import PartReader
from epochal.record import Position, Record

_MARK_EVERY = 256


class Span(NamedTuple):
    """The bytes of a part that hold one record, damaged lines before it included."""

    start: int
    end: int


class TailedPart:
    """One part: what is new in it, any record of it by its span, all of it from an ordinal on."""

    def __init__(self, path: Path, name: PartName) -> None:
        self.path = path
        self.name = name
        self._reader = PartReader(path, name)
        # Where every 256th record starts: positions are ordinals, files are bytes.
        self._marks = array("q")

    @property
    def damaged(self) -> int:
        """How many damaged lines were skipped."""
        return self._reader.damaged

    @property
    def num_records(self) -> int:
        """How many records have been read."""
        return self._reader.ordinal

    @property
    def size_read(self) -> int:
        """How many bytes have been read."""
        return self._reader.offset

    def has_grown(self) -> bool:
        """Whether there may be something new; costs one ``stat``. A part that is gone has not."""
        if self._reader.stopped_at_nul:
            return False
        try:
            return self.path.stat().st_size != self._reader.offset
        except FileNotFoundError:
            return False

    def poll(self) -> Iterator[tuple[Position, Record, Span]]:
        """Every whole record written since the last poll."""
        start = self._reader.offset
        for position, record in self._reader.read():
            if position.ordinal % _MARK_EVERY == 0:
                self._marks.append(start)
            yield position, record, Span(start, self._reader.offset)
            start = self._reader.offset

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """The records read so far, from an ordinal on."""
        end = self._reader.ordinal
        if first >= end:
            return
        mark = first // _MARK_EVERY
        reader = PartReader(
            self.path, self.name, offset=self._marks[mark], ordinal=mark * _MARK_EVERY
        )
        for position, record in reader.read():
            if position.ordinal >= end:
                return
            if position.ordinal >= first:
                yield position, record

    def read_spans(self, spans: list[Span]) -> Iterator[Record]:
        """The records at these spans, in their order."""
        with open(self.path, "rb") as file:
            for start, end in spans:
                file.seek(start)
                record = decode(file.read(end - start).rstrip(b"\n").rpartition(b"\n")[2])
                assert record is not None
                yield record
