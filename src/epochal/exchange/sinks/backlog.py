"""Reads the records of a run that a sink has not sent yet, and turns them into its entries.

Nothing waits in memory for a slow sink. Only its position is stored, one for each writer. When the
sink is ready, the records from there on are read from journal parts or from segments. A position
is ``(attempt, part, ordinal)`` of the next record. Only rank 0's training is sent, and the
telemetry of every node: the same rule for every sink.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from epochal.exchange.sinks.sink import Entry
from epochal.journal.layout import LOOP, PartName, RunFolder, rank_of_writer
from epochal.journal.reader import PartReader
from epochal.journal.regular_file import regular_only
from epochal.journal.segments.read import Segment
from epochal.records import Position, Record, axis_of, moment_of

Place = tuple[int, int, int]
RecordIndex = dict[str, Place]
Item = tuple[Position, Record]

_START: Place = (0, 0, 0)
_COUNTED_BYTES = 1024 * 1024
_TELEMETRY = "telemetry-"


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
        ahead: dict[str, list[PartName]] = {}
        for name in self._parts_ahead():
            ahead.setdefault(name.writer, []).append(name)
        for writer, parts in ahead.items():
            if writer not in self._writers:
                place = self.places.get(writer, _START)
                self._writers[writer] = _WriterBacklog(self._folder, place)
            self._writers[writer].parts = parts
        taken: list[Item] = []
        waiting: list[tuple[float, str]] = []
        ends = {} if until is None else {writer: until.get(writer, _START) for writer in ahead}
        for writer, backlog in self._writers.items():
            _queue(waiting, backlog, writer, ends.get(writer))
        while waiting and len(taken) < limit:
            _, writer = heapq.heappop(waiting)
            backlog = self._writers[writer]
            taken.append(backlog.pop())
            self.places[writer] = backlog.place
            _queue(waiting, backlog, writer, ends.get(writer))
        return taken

    def count(self) -> int:
        """How many records there are from here on."""
        total = 0
        for name in self._parts_ahead():
            attempt, part, ordinal = self.places.get(name.writer, _START)
            is_begun = (name.attempt, name.part) == (attempt, part)
            total += _num_records(self._folder, name) - (ordinal if is_begun else 0)
        return total

    def close(self) -> None:
        """Close the files that are open."""
        self._writers.clear()  # the end of a generator closes its file

    def _parts_ahead(self) -> list[PartName]:
        """The parts there are in either form that are not yet behind."""
        return [
            name
            for name in self._folder.all_parts()
            if self._wants(name.writer)
            and (name.attempt, name.part) >= self.places.get(name.writer, _START)[:2]
        ]


def _queue(
    waiting: list[tuple[float, str]], backlog: _WriterBacklog, writer: str, until: Place | None
) -> None:
    """Put a writer in line by the time of its next record, if it has one before ``until``."""
    head = backlog.peek()
    if head is not None and (until is None or head[0][1:] < until):
        heapq.heappush(waiting, (moment_of(head[1]), writer))


class _WriterBacklog:
    """One writer's records, part after part; ``parts`` are those not yet behind."""

    def __init__(self, folder: RunFolder, place: Place) -> None:
        self._folder = folder
        self.place = place
        self.parts: Sequence[PartName] = ()
        self._reader: PartReader | None = None
        self._items: Iterator[Item] | None = None
        self._head: Item | None = None

    def peek(self) -> Item | None:
        """The next record; None where there is none yet."""
        if self._head is None:
            self._head = self._next()
        return self._head

    def pop(self) -> Item:
        """The record that ``peek`` showed."""
        assert self._head is not None
        head, self._head = self._head, None
        _, attempt, part, ordinal = head[0]
        self.place = (attempt, part, ordinal + 1)
        return head

    def _next(self) -> Item | None:
        # A writer that has begun a part never writes to an earlier one again.
        for name in self.parts:
            if self._reader is None or self._reader.name < name:
                if name[1:] > self.place[:2]:
                    self.place = (*name[1:], 0)
                self._reader, self._items = PartReader(self._folder.part_path(name), name), None
            if self._reader.name == name:
                self._items = self._items or self._read_on(self._reader)
                for position, record in self._items:
                    if position.ordinal >= self.place[2]:
                        return position, record
                self._items = None
        return None

    def _read_on(self, reader: PartReader) -> Iterator[Item]:
        try:
            size = reader.path.stat().st_size
            if size < reader.offset:
                reader.recover()
                self.place = (*self.place[:2], min(self.place[2], reader.ordinal))
            if size > reader.offset:
                yield from reader.read()
        except FileNotFoundError:
            # Sealed since the parts were listed.
            with Segment(self._folder.sealed_path(reader.name)) as segment:
                for ordinal, record in segment.records(first=self.place[2]):
                    yield Position(*reader.name, ordinal), record


def _num_records(folder: RunFolder, name: PartName) -> int:
    """The number of records in a part; while it is written, its complete lines."""
    try:
        with open(folder.part_path(name), "rb", opener=regular_only) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_COUNTED_BYTES), b""))
    except FileNotFoundError:
        with Segment(folder.sealed_path(name)) as segment:
            return segment.num_records


def is_sent(writer: str) -> bool:
    """Whether a writer's records go to sinks at all."""
    return not rank_of_writer(writer)


class Stream:
    """Gives each record its step and node, in order; ``plain()`` is the state to continue from."""

    def __init__(self, memory: Mapping[str, Any] | None = None) -> None:
        remembered = memory or {}
        self._step: int | None = remembered.get("step")
        self._epoch: int | None = remembered.get("epoch")
        # Writers whose telemetry is of another node than rank 0's.
        self._remote_writers: list[str] = list(remembered.get("away", ()))
        self.status: str | None = remembered.get("status")

    def plain(self) -> dict[str, Any]:
        """The state, as JSON values."""
        return {
            "step": self._step,
            "epoch": self._epoch,
            "away": self._remote_writers,
            "status": self.status,
        }

    def entry(self, position: Position, record: Record) -> Entry | None:
        """The record with its step and node; None for one that is not sent."""
        writer = position.writer
        if record["log"] == "run" and not self._begins(position, record):
            return None
        if record["log"] == "finish":
            if writer != LOOP:
                return None
            self.status = str(record.get("status"))
        node = writer.removeprefix(_TELEMETRY) if writer in self._remote_writers else None
        return Entry(position, record, self._step_of(writer, record), node)

    def _begins(self, position: Position, record: Record) -> bool:
        """Take in the first record of a part; True for the one that begins an attempt."""
        if position.writer.startswith(_TELEMETRY):
            is_remote = bool(record.get("rank"))
            if is_remote and position.writer not in self._remote_writers:
                self._remote_writers.append(position.writer)
            return False
        if position.writer != LOOP or position.part:
            return False
        self.status = None
        return True

    def _step_of(self, writer: str, record: Record) -> int:
        axis, step, epoch = axis_of(record), record.get("step"), record.get("epoch")
        if axis == "epoch" and isinstance(epoch, int):
            self._epoch = epoch
            return epoch
        if isinstance(step, int):
            if axis == "step" and writer == LOOP:
                self._step = step
            return step
        reached = self._epoch if self._step is None else self._step
        return 0 if reached is None else reached
