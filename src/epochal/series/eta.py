"""The time left of a training. Console, event stream, page and ``epochal watch`` all use this.

The estimate is wall time per unit (step, epoch or token) times the units left. Wall time includes
evaluations, checkpoints and everything else between two observations. Each interval is weighted by
its place in the attempt: an interval at the middle counts half as much as one at the end. A slow
start (compilation, cold caches) is therefore forgotten, and periodic evaluations are averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec

# An interval longer than this many times all the time before it is a pause, unless it recurs.
_PAUSE_FACTOR = 2.0
# A later interval of at least this share of a pause shows that it recurs: then both count.
_RECURS_FROM = 0.5


class _Pause(msgspec.Struct):
    seconds: float
    weight: float
    counted_s: float


class Eta:
    """Estimates the time left from observations of (units done, clock) within one attempt.

    The first observation only sets the start, so that the time before it does not count. A single
    long interval (the program was stopped, a file system hung) counts as an average one, until an
    interval of similar length follows.
    """

    def __init__(self, total: float | None) -> None:
        if total is not None and not (math.isfinite(total) and total >= 0):
            raise ValueError(f"total must be None or a finite number of at least 0, got {total!r}")
        self.total = total
        self._last: tuple[float, float] | None = None
        self._returned: tuple[float, float] | None = None
        self._units = 0.0
        self._seconds = 0.0
        self._weighted_s = 0.0
        self._pause: _Pause | None = None

    def observe(self, done: float, at: float, *, took_s: float | None = None) -> None:
        """Take in that `done` units are complete at the time `at`, in seconds.

        `took_s` is the duration of the last unit: it places the start of the first one, and no
        later one counts for less.
        """
        if not (math.isfinite(done) and math.isfinite(at)):
            raise ValueError(f"done and at must be finite numbers, got {done!r} and {at!r}")
        if took_s is not None and not 0 <= took_s < math.inf:
            took_s = None
        if self._last is None and took_s is not None:
            self._last = done - 1, at - took_s
        if self._last is None or at < self._last[1]:
            self._last, self._returned = (done, at), None
            return
        if done < self._last[0]:
            self._go_back(done, at)
            return
        self._returned = None
        units, seconds = done - self._last[0], max(at - self._last[1], took_s or 0.0)
        # Without progress, or within one tick of a coarse clock, the next observation covers both.
        if units > 0 and seconds > 0:
            self._add(units, seconds)
            self._last = done, at

    def remaining_s(self) -> float | None:
        """Return the seconds left: 0 when nothing is left, None while it cannot be known."""
        if self.total is None or self._last is None:
            return None
        left = self.total - self._last[0]
        if left <= 0:
            return 0.0
        return None if self._units == 0 else self._seconds_per_unit() * left

    def _go_back(self, done: float, at: float) -> None:
        """A lower count is a record out of order, unless the next one continues from there."""
        if self._returned is not None and done > self._returned[0]:
            self._last, self._returned = self._returned, None
            self.observe(done, at)
        else:
            self._returned = done, at

    def _add(self, units: float, seconds: float) -> None:
        before = self._units
        self._units += units
        weight = before + units / 2
        if self._pause is not None and seconds >= _RECURS_FROM * self._pause.seconds:
            self._count(self._pause.weight, self._pause.seconds - self._pause.counted_s)
            self._pause = None
        elif before and seconds > _PAUSE_FACTOR * self._seconds:
            typical_s = self._weighted_s / (before * before / 2) * units
            self._pause = _Pause(seconds, weight, typical_s)
            seconds = typical_s
        self._count(weight, seconds)

    def _count(self, weight: float, seconds: float) -> None:
        self._weighted_s += weight * seconds
        self._seconds += seconds

    def _seconds_per_unit(self) -> float:
        # The weights of all units sum up to the area of a triangle.
        return self._weighted_s / (self._units * self._units / 2)


def remaining_of(durations: Sequence[float], *, total: float, done: float) -> float | None:
    """Return the seconds left when `done` of `total` units are complete, from their durations.

    `durations` are those of the last units, one each; None when there are none.
    """
    eta = Eta(total)
    first = done - len(durations)
    for count, at in enumerate(itertools.accumulate(durations, initial=0.0)):
        eta.observe(first + count, at)
    return eta.remaining_s()
