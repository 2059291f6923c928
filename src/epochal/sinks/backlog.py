"""Reads the records of a run that a sink has not sent yet.

Nothing waits in memory for a slow sink. Only its position is stored, one for each writer. When the
sink is ready, the records from there on are read from journal parts or from segments. A position
is ``(attempt, part, ordinal)`` of the next record.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import PartReader
from epochal.journal.regular_file import regular_only
from epochal.records import Position, Record
from epochal.segments.read import Segment
from epochal.segments.run_records import every_part

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
        self._lanes: dict[str, _Lane] = {}

    def take(self, *, limit: int, until: Mapping[str, Place] | None = None) -> list[Item]:
        """The next records, at most ``limit``; with ``until`` none at or after those places."""
        self._look()
        taken: dict[str, list[Item]] = {}
        waiting: list[tuple[float, str]] = []
        for writer, lane in self._lanes.items():
            self._queue(waiting, lane, writer, until)
        for _ in range(limit):
            if not waiting:
                break
            _, writer = heapq.heappop(waiting)
            lane = self._lanes[writer]
            taken.setdefault(writer, []).append(lane.pop())
            self.places[writer] = lane.place
            self._queue(waiting, lane, writer, until)
        return _merged([taken[writer] for writer in sorted(taken)])

    def count(self) -> int:
        """How many records there are from here on."""
        return sum(
            _num_records(self._folder, name) - self._first_ordinal(name)
            for name in self._parts_ahead()
        )

    def close(self) -> None:
        """Close the files that are open."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    @staticmethod
    def _queue(
        waiting: list[tuple[float, str]],
        lane: _Lane,
        writer: str,
        until: Mapping[str, Place] | None,
    ) -> None:
        head = lane.peek(None if until is None else until.get(writer, _START))
        if head is not None:
            heapq.heappush(waiting, (_time_of(head), writer))

    def _look(self) -> None:
        ahead: dict[str, list[PartName]] = {}
        for name in self._parts_ahead():
            ahead.setdefault(name.writer, []).append(name)
        for writer, parts in ahead.items():
            if writer not in self._lanes:
                self._lanes[writer] = _Lane(self._folder, self.places.get(writer, _START))
            self._lanes[writer].parts = parts

    def _parts_ahead(self) -> list[PartName]:
        return [
            name
            for name in every_part(self._folder)
            if self._wants(name.writer)
            and (name.attempt, name.part) >= self.places.get(name.writer, _START)[:2]
        ]

    def _first_ordinal(self, name: PartName) -> int:
        attempt, part, ordinal = self.places.get(name.writer, _START)
        return ordinal if (name.attempt, name.part) == (attempt, part) else 0


class _Lane:
    """One writer's records, part after part; ``parts`` are those not yet behind."""

    def __init__(self, folder: RunFolder, place: Place) -> None:
        self._folder = folder
        self.place = place
        self.parts: Sequence[PartName] = ()
        self._cursor: _Cursor | None = None
        self._head: Item | None = None

    def peek(self, until: Place | None) -> Item | None:
        """The next record, if it is before ``until``."""
        if self._head is None:
            self._head = self._next()
        if self._head is None or until is None:
            return self._head
        position = self._head[0]
        return self._head if position[1:] < until else None

    def pop(self) -> Item:
        """The record that ``peek`` showed."""
        assert self._head is not None
        head, self._head = self._head, None
        self.place = (head[0].attempt, head[0].part, head[0].ordinal + 1)
        return head

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def _next(self) -> Item | None:
        # A writer that has begun a part never writes to an earlier one again.
        for name in self.parts:
            here = (name.attempt, name.part)
            if here < self.place[:2]:
                continue
            if self._cursor is None or self._cursor.name < name:
                first = self.place[2] if here == self.place[:2] else 0
                self.close()
                self._cursor = _Cursor(self._folder, name, first)
            item = self._cursor.next() if self._cursor.name == name else None
            if item is not None:
                return item
        return None


class _Cursor:
    """Reads one part from an ordinal on; continues where it stopped when the part has grown."""

    def __init__(self, folder: RunFolder, name: PartName, first: int) -> None:
        self.name = name
        self._folder = folder
        self._ordinal = first
        self._reader = PartReader(folder.part_path(name), name)
        self._records: Iterator[Item] | None = None

    def next(self) -> Item | None:
        if self._records is None:
            self._records = self._read_on()
        item = next(self._records, None)
        if item is None:
            self._records = None
        else:
            self._ordinal = item[0].ordinal + 1
        return item

    def close(self) -> None:
        self._records = None  # the end of a generator closes its file

    def _read_on(self) -> Iterator[Item]:
        try:
            size = self._folder.part_path(self.name).stat().st_size
            if size < self._reader.offset:
                self._reader.recover()
                self._ordinal = min(self._ordinal, self._reader.ordinal)
            if size <= self._reader.offset:
                return
            for position, record in self._reader.read():
                if position.ordinal >= self._ordinal:
                    yield position, record
        except FileNotFoundError:
            # Sealed since the parts were listed.
            with Segment(self._folder.sealed_path(self.name)) as segment:
                for ordinal, record in segment.records(first=self._ordinal):
                    yield Position(*self.name, ordinal), record


def _merged(lanes: Sequence[list[Item]]) -> list[Item]:
    """Records of several writers by time, each writer's in its own order."""
    if len(lanes) == 1:
        return lanes[0]
    keyed = [list(_rising(items, index)) for index, items in enumerate(lanes)]
    return [item for _, _, item in heapq.merge(*keyed, key=lambda entry: entry[:2])]


def _rising(items: Sequence[Item], lane: int) -> Iterator[tuple[float, int, Item]]:
    """Items with a time that never falls: a clock that was set back does not reorder a writer."""
    latest = float("-inf")
    for item in items:
        latest = max(latest, _time_of(item))
        yield latest, lane, item


def _time_of(item: Item) -> float:
    moment = item[1].get("t")
    return float(moment) if isinstance(moment, (int, float)) else 0.0


def _num_records(folder: RunFolder, name: PartName) -> int:
    """The number of records in a part; while it is written, its complete lines."""
    try:
        with open(folder.part_path(name), "rb", opener=regular_only) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_COUNTED_BYTES), b""))
    except FileNotFoundError:
        with Segment(folder.sealed_path(name)) as segment:
            return segment.num_records
