"""Words that step and GPU records carry beside their numbers, where they change.

Series hold numbers only, and these records are too many to be kept one by one: they are read once,
and what is remembered are the changes. A run is read on from where it was read to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from epochal.journal.layout import LOOP
from epochal.record import Position, Record
from epochal.store.answers import Cursor
from epochal.store.store import RunView

# Of a longer journal only so many of a writer's newest records are read for words.
MAX_RECORDS = 200_000
MAX_RUNS = 64
_TELEMETRY = "telemetry-"


class Phase(NamedTuple):
    """From this step on the training said that it is in this phase."""

    step: int
    t: float | None
    word: str


class Throttle(NamedTuple):
    """From this time on a GPU said this of its clocks; empty at full speed."""

    t: float
    gpu: int
    word: str


@dataclass(slots=True)
class Words:
    """The changes of one run so far, each list in the order of its places."""

    phases: list[Phase] = field(default_factory=list)
    throttles: list[Throttle] = field(default_factory=list)
    read_to: dict[str, Position] = field(default_factory=dict)
    _gpus: dict[tuple[str, int], str] = field(default_factory=dict)

    def add(self, position: Position, record: Record) -> None:
        """Take one record; those of one writer come in the order written."""
        self.read_to[position.writer] = position
        kind = record["log"]
        if kind == "step":
            self._add_step(record)
        elif kind == "gpu":
            self._add_gpu(position.writer, record)
        elif kind == "resume" and isinstance(step := record.get("step"), int):
            # What an older attempt logged from here on is hidden everywhere else too.
            self.phases = [phase for phase in self.phases if phase.step < step]

    def _add_step(self, record: Record) -> None:
        step, word = record.get("step"), record.get("phase")
        if not isinstance(step, int) or not isinstance(word, str):
            return
        if not self.phases or self.phases[-1].word != word:
            self.phases.append(Phase(step, _seconds(record), word))

    def _add_gpu(self, writer: str, record: Record) -> None:
        gpu, word, t = record.get("id"), record.get("throttle"), _seconds(record)
        if not isinstance(gpu, int) or not isinstance(word, str) or t is None:
            return
        if self._gpus.get((writer, gpu), "") != word:
            self._gpus[writer, gpu] = word
            self.throttles.append(Throttle(t, gpu, word))


class WordBook:
    """The words of the runs asked for last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: OrderedDict[str, Words] = OrderedDict()

    def words(self, run: RunView, run_id: str) -> Words:
        """The words of a run, read on to where the run has been read; its lock is held.

        Step records are many: they are read only where no event tells the phases.
        """
        with self._lock:
            words = self._of.setdefault(run_id, Words())
            self._of.move_to_end(run_id)
            if not _is_before(words.read_to, run.end()):
                words = self._of[run_id] = Words()
            while len(self._of) > MAX_RUNS:
                self._of.popitem(last=False)
        has_events = bool(run.entries("event", name="phase", rank=None))
        for position, record in _unread(run, words.read_to, with_loop=not has_events):
            words.add(position, record)
        return words


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


def _seconds(record: Record) -> float | None:
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) else None
