"""Reads the records of a run that a sink has not sent yet.

Nothing waits in memory for a slow sink. Only its position is stored, one for each writer. When the
sink is ready, the records from there on are read from journal parts or from segments. A position
is ``(attempt, part, ordinal)`` of the next record.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from epochal.journal.columnar import ColumnarDecoder, OrdinalRecord
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line_columns import Lines
from epochal.journal.reader import PartReader
from epochal.journal.regular_file import regular_only
from epochal.records import Position, Record, moment_of
from epochal.segments.read import Segment

Place = tuple[int, int, int]
RecordIndex = dict[str, Place]
Item = tuple[Position, Record]

_START: Place = (0, 0, 0)
_COUNTED_BYTES = 1024 * 1024


class Backlog:
    """Hands out the records of some writers from a place on, in batches; each record once.

    Writers are merged by time, so that a reading of the machine stands beside the step it was
    taken at. Within a batch the order follows from the records alone: the same places give the
    same batch in the same order.
    """

    def __init__(
        self,
        folder: RunFolder,
        places: Mapping[str, Place],
        *,
        wants: Callable[[str], bool] = lambda _writer: True,
    ) -> None:
        self._folder = folder
        self._wants = wants
        self.places: RecordIndex = dict(places)
        self._writers: dict[str, _WriterBacklog] = {}

    def take(self, *, limit: int, until: Mapping[str, Place] | None = None) -> list[Item]:
        """The next records, at most ``limit``; with ``until`` none at or after those places."""
        items: list[Item] = []
        for piece in self.take_pieces(limit=limit, until=until):
            items += piece.items()
        return items

    def take_pieces(self, *, limit: int, until: Mapping[str, Place] | None = None) -> list[Piece]:
        """The same, with records of one shape that follow one another as columns."""
        self._look()
        taken: list[Piece] = []
        waiting: list[tuple[float, str]] = []
        for writer, backlog in self._writers.items():
            self._queue(waiting, backlog, writer, until)
        while waiting and limit:
            _, writer = heapq.heappop(waiting)
            backlog = self._writers[writer]
            piece = backlog.pop(limit, waiting[0] if waiting else None)
            taken.append(piece)
            limit -= len(piece)
            self.places[writer] = backlog.place
            self._queue(waiting, backlog, writer, until)
        return taken

    def count(self) -> int:
        """How many records there are from here on."""
        return sum(
            _num_records(self._folder, name) - self._first_ordinal(name)
            for name in self._parts_ahead()
        )

    def close(self) -> None:
        """Close the files that are open."""
        for backlog in self._writers.values():
            backlog.close()
        self._writers.clear()

    @staticmethod
    def _queue(
        waiting: list[tuple[float, str]],
        backlog: _WriterBacklog,
        writer: str,
        until: Mapping[str, Place] | None,
    ) -> None:
        moment = backlog.peek(None if until is None else until.get(writer, _START))
        if moment is not None:
            heapq.heappush(waiting, (moment, writer))

    def _look(self) -> None:
        ahead: dict[str, list[PartName]] = {}
        for name in self._parts_ahead():
            ahead.setdefault(name.writer, []).append(name)
        for writer, parts in ahead.items():
            if writer not in self._writers:
                place = self.places.get(writer, _START)
                self._writers[writer] = _WriterBacklog(self._folder, writer, place)
            self._writers[writer].parts = parts

    def _parts_ahead(self) -> list[PartName]:
        return [
            name
            for name in _every_part(self._folder)
            if self._wants(name.writer)
            and (name.attempt, name.part) >= self.places.get(name.writer, _START)[:2]
        ]

    def _first_ordinal(self, name: PartName) -> int:
        attempt, part, ordinal = self.places.get(name.writer, _START)
        return ordinal if (name.attempt, name.part) == (attempt, part) else 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of one part that follow one another: columns of one shape, or one record."""

    first: Position
    content: Lines | Record

    def __len__(self) -> int:
        return len(self.content.ordinals) if isinstance(self.content, Lines) else 1

    def items(self) -> list[Item]:
        """The records, each with its position."""
        if not isinstance(self.content, Lines):
            return [(self.first, self.content)]
        name = self.first[:3]
        return [
            (Position(*name, ordinal), record)
            for ordinal, record in zip(self.content.ordinals, self.content.records(), strict=True)
        ]

    def times(self) -> Sequence[float]:
        """When each was written; 0 where it does not say."""
        if not isinstance(self.content, Lines):
            return (moment_of(self.content),)
        column = self.content.column("t")
        return column if isinstance(column, array) else [0.0] * len(self)

    def split(self, row: int) -> tuple[Piece, Piece | None]:
        """The first records, and the others."""
        if not isinstance(self.content, Lines) or row >= len(self):
            return self, None
        rest = self.first._replace(ordinal=self.first.ordinal + row)
        return (
            Piece(self.first, self.content.between(0, row)),
            Piece(rest, self.content.between(row, len(self))),
        )


class _WriterBacklog:
    """One writer's records, part after part; ``parts`` are those not yet behind."""

    def __init__(self, folder: RunFolder, writer: str, place: Place) -> None:
        self._folder = folder
        self._writer = writer
        self.place = place
        self.parts: Sequence[PartName] = ()
        self._cursor: _Cursor | None = None
        self._head: Piece | None = None
        self._until: Place | None = None

    def peek(self, until: Place | None) -> float | None:
        """When the next record was written; None where there is none before ``until``."""
        self._until = until
        if self._head is None:
            self._head = self._next()
        if self._head is None or (until is not None and self._head.first[1:] >= until):
            return None
        return self._head.times()[0]

    def pop(self, limit: int, other: tuple[float, str] | None) -> Piece:
        """The record that ``peek`` showed, and those behind it in the same columns.

        At most ``limit``, and none that comes after the next record of another writer.
        """
        assert self._head is not None
        attempt, part, first = self._head.first[1:]
        count = min(limit, len(self._head))
        if self._until is not None and self._until[:2] == (attempt, part):
            count = min(count, self._until[2] - first)
        if other is not None and count > 1:
            count = self._num_before(other, count)
        head, self._head = self._head.split(count)
        self.place = (attempt, part, first + len(head))
        return head

    def _num_before(self, other: tuple[float, str], count: int) -> int:
        """How many of the first records come before another writer's; the first of them does."""
        assert self._head is not None
        times = self._head.times()[1:count]
        if (max(times), self._writer) < other:
            return count
        later = (row for row, t in enumerate(times, 1) if (t, self._writer) > other)
        return next(later, count)

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def _next(self) -> Piece | None:
        # A writer that has begun a part never writes to an earlier one again.
        for name in self.parts:
            here = (name.attempt, name.part)
            if here < self.place[:2]:
                continue
            if self._cursor is None or self._cursor.name < name:
                first = self.place[2] if here == self.place[:2] else 0
                self.close()
                self._cursor = _Cursor(self._folder, name, first)
            piece = self._cursor.next() if self._cursor.name == name else None
            if piece is not None:
                return piece
        return None


class _Cursor:
    """Reads one part from an ordinal on; continues where it stopped when the part has grown."""

    def __init__(self, folder: RunFolder, name: PartName, first: int) -> None:
        self.name = name
        self._folder = folder
        self._ordinal = first
        self._reader = PartReader(folder.part_path(name), name)
        self._decoder = ColumnarDecoder()
        self._pieces: Iterator[Lines | OrdinalRecord] | None = None

    def next(self) -> Piece | None:
        if self._pieces is None:
            self._pieces = self._read_on()
        for piece in self._pieces:
            if isinstance(piece, OrdinalRecord):
                if piece.ordinal >= self._ordinal:
                    self._ordinal = piece.ordinal + 1
                    return Piece(Position(*self.name, piece.ordinal), piece.record)
                continue
            # The place to go on from may lie inside of the columns.
            behind, size = max(0, self._ordinal - piece.ordinals[0]), len(piece.ordinals)
            if behind < size:
                self._ordinal = piece.ordinals[-1] + 1
                rest = piece.between(behind, size) if behind else piece
                return Piece(Position(*self.name, rest.ordinals[0]), rest)
        self._pieces = None
        return None

    def close(self) -> None:
        self._pieces = None  # the end of a generator closes its file

    def _read_on(self) -> Iterator[Lines | OrdinalRecord]:
        try:
            size = self._folder.part_path(self.name).stat().st_size
            if size < self._reader.offset:
                self._reader.recover()
                self._ordinal = min(self._ordinal, self._reader.ordinal)
            if size > self._reader.offset:
                yield from self._reader.read_columns(self._decoder)
        except FileNotFoundError:
            # Sealed since the parts were listed.
            with Segment(self._folder.sealed_path(self.name)) as segment:
                yield from segment.lines(first=self._ordinal)


def _num_records(folder: RunFolder, name: PartName) -> int:
    """The number of records in a part; while it is written, its complete lines."""
    try:
        with open(folder.part_path(name), "rb", opener=regular_only) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_COUNTED_BYTES), b""))
    except FileNotFoundError:
        with Segment(folder.sealed_path(name)) as segment:
            return segment.num_records


def _every_part(folder: RunFolder) -> list[PartName]:
    """Every part there is in either form; one that is being sealed meanwhile is not missed."""
    unsealed = folder.parts()  # first: a part goes from here to there, never back
    return sorted({*unsealed, *folder.sealed_parts()})
