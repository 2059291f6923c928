"""Notices when a step took much longer than usual, from the times of a run's records."""

from __future__ import annotations

from typing import Any, NamedTuple

from epochal.records import Record, finite
from epochal.series.window import RecentMedian

STEP_KINDS = frozenset({"step", "metrics"})
# Below this nobody waits; the driver's samples would not show it either.
_LEAST_S = 1.0
_TIMES_USUAL = 3.0
# Before so many steps nothing is usual: compilation, first batches, caches.
_FIRST_STEPS = 10


class Stretch(NamedTuple):
    """A step that took long: from the record before it to its own, in Unix seconds."""

    start: float
    end: float
    step: int
    usual_s: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return (
            f"step {self.step} took {self.seconds:.1f} s,"
            f" {self.seconds / max(self.usual_s, 1e-3):.1f} times the usual"
        )


class SlowSteps:
    """Follows rank 0's steps; a step logged every k steps counts as k."""

    def __init__(self) -> None:
        self._usual_s = RecentMedian()
        self._num_seen = 0
        self._last: tuple[int, float] | None = None

    def take(self, record: Record) -> Stretch | None:
        """The slow stretch that a record ends, if it does."""
        place = _place(record)
        if place is None or self._last is None:
            self._last = place or self._last
            return None
        (before, since), (step, at) = self._last, place
        if step == before:
            return None  # several records of one step
        self._last = place
        if step < before or at <= since:
            return None
        seconds = at - since
        a_step_s = seconds / (step - before)
        usual_s = self._usual_s.median()
        self._usual_s.push(a_step_s)
        self._num_seen += 1
        if usual_s is None or self._num_seen <= _FIRST_STEPS or seconds < _LEAST_S:
            return None
        expected_s = usual_s * (step - before)
        return Stretch(since, at, step, expected_s) if seconds > _TIMES_USUAL * expected_s else None


def _place(record: Record) -> tuple[int, float] | None:
    step: Any = record.get("step")
    at = finite(record.get("t"))
    if record.get("log") not in STEP_KINDS or not isinstance(step, int):
        return None
    return None if at is None else (step, at)
