"""Thins out floods: a run that logs thousands of records a second is judged by some of them.

What passes depends on the records alone, never on the machine, so that a live run and a later
reading see the same. Records of other names (an evaluation among steps) are counted apart, and a
value that is not finite always passes.
"""

from __future__ import annotations

from typing import Any

from epochal.record import Record

# Judging a hundred records a second costs about one percent of a core.
MOST_A_SECOND = 100
_DENSE = frozenset({"step", "metrics", "moe"})
# So many times the limit within one second of a run's clock, and the second is not waited for.
_BURST = 4


class Sieve:
    """Decides record by record; a stride at most doubles at a time, so that rules can follow."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[Any, _Lane] = {}

    def passes(self, record: Record, kind: str, rank: int) -> bool:
        """Whether a record is to be judged."""
        if kind not in _DENSE or "nonfinite" in record:
            return True
        metrics = record.get("m")
        names = tuple(metrics) if isinstance(metrics, dict) else ()
        key = (rank, kind, names)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        t = record.get("t")
        return lane.passes(t if isinstance(t, (int, float)) else 0.0)


class _Lane:
    """Records of one rank, kind and set of names."""

    __slots__ = ("_index", "_num_this_second", "_second", "_stride")

    def __init__(self) -> None:
        self._index = 0
        self._second = 0
        self._num_this_second = 0
        self._stride = 1

    def passes(self, t: float) -> bool:
        second = int(t)
        if second != self._second:
            self._turn(second)
        self._num_this_second += 1
        if self._num_this_second > _BURST * MOST_A_SECOND * self._stride:
            self._stride *= 2
        self._index += 1
        return self._index % self._stride == 0

    def _turn(self, second: int) -> None:
        count, self._num_this_second = self._num_this_second, 0
        is_next, self._second = second == self._second + 1, second
        if count > MOST_A_SECOND * self._stride:
            self._stride *= 2
        elif self._stride > 1 and (not is_next or 2 * count < MOST_A_SECOND * self._stride):
            self._stride //= 2
