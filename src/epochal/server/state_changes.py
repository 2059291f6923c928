"""Where the text fields of step and GPU records change: the training phase, GPU throttling.

Series hold numbers only, and there are too many of these records to keep each one. They are read
once and only the changes are kept. Later reads continue from the last position.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from epochal.journal.layout import LOOP
from epochal.records import Position, Record, finite, whole_number
from epochal.store.answers import Cursor
from epochal.store.store import RunView

# Only this many of a writer's newest records are read in a longer journal.
MAX_RECORDS = 200_000
MAX_RUNS = 64
_TELEMETRY = "telemetry-"


class PhaseChange(NamedTuple):
    """From this step on the training is in this phase."""

    step: int
    t: float | None
    phase: str


class ThrottleChange(NamedTuple):
    """From this time on a GPU is throttled for this reason; empty at full speed."""

    t: float
    gpu: int
    reason: str


class StateChanges(msgspec.Struct):
    """The changes of one run so far, in order."""

    phases: list[PhaseChange] = []
    throttles: list[ThrottleChange] = []
    read_to: dict[str, Position] = {}
    _gpus: dict[tuple[str, int], str] = {}

    def add(self, position: Position, record: Record) -> None:
        """Add one record; the records of one writer arrive in the order written."""
        self.read_to[position.writer] = position
        kind = record["log"]
        if kind == "step":
            self._add_step(record)
        elif kind == "gpu":
            self._add_gpu(position.writer, record)
        elif kind == "resume" and isinstance(step := record.get("step"), int):
            # The store hides what an older attempt logged from this step on; so does this.
            self.phases = [change for change in self.phases if change.step < step]

    def _add_step(self, record: Record) -> None:
        step, phase = whole_number(record.get("step")), record.get("phase")
        if step is None or not isinstance(phase, str):
            return
        if not self.phases or self.phases[-1].phase != phase:
            self.phases.append(PhaseChange(step, finite(record.get("t")), phase))

    def _add_gpu(self, writer: str, record: Record) -> None:
        gpu, reason, t = record.get("id"), record.get("throttle"), finite(record.get("t"))
        if not isinstance(gpu, int) or not isinstance(reason, str) or t is None:
            return
        if self._gpus.get((writer, gpu), "") != reason:
            self._gpus[writer, gpu] = reason
            self.throttles.append(ThrottleChange(t, gpu, reason))


class StateChangeCache:
    """The state changes of the most recently requested runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_run: OrderedDict[str, StateChanges] = OrderedDict()

    def read(self, run: RunView, run_id: str) -> StateChanges:
        """Return a run's changes up to its last record; the caller holds the run's lock.

        There are many step records: they are read only where no event records the phases.
        """
        with self._lock:
            changes = self._by_run.setdefault(run_id, StateChanges())
            self._by_run.move_to_end(run_id)
            if not _is_before(changes.read_to, run.end()):
                changes = self._by_run[run_id] = StateChanges()
            while len(self._by_run) > MAX_RUNS:
                self._by_run.popitem(last=False)
        has_events = bool(run.entries("event", name="phase", rank=None))
        for position, record in _unread(run, changes.read_to, with_loop=not has_events):
            changes.add(position, record)
        return changes


def _unread(run: RunView, read_to: Cursor, *, with_loop: bool) -> Iterator[tuple[Position, Record]]:
    end = run.end()
    since: dict[str, Position] = {}
    for writer, last in end.items():
        if not writer.startswith(_TELEMETRY) and not (with_loop and writer == LOOP):
            since[writer] = last
        elif writer in read_to:
            since[writer] = read_to[writer]
        elif last.ordinal > MAX_RECORDS:
            since[writer] = last._replace(ordinal=last.ordinal - MAX_RECORDS)
    return run.records(since)


def _is_before(cursor: Cursor, end: Cursor) -> bool:
    return all(writer in end and last <= end[writer] for writer, last in cursor.items())
