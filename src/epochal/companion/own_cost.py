"""What a companion itself takes from the machine, so that the run can say it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_MIB = 1024**2


class OwnCost:
    """CPU time of this process and of those it started, as a share of one core."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = self._previous = (clock(), _cpu_s())

    def pct(self) -> float | None:
        """Percent of one core since the last call; None before time has passed."""
        before, self._previous = self._previous, (self._clock(), _cpu_s())
        return _share(before, self._previous)

    def mean_pct(self) -> float | None:
        """Percent of one core since the beginning."""
        return _share(self._first, (self._clock(), _cpu_s()))

    def rss(self) -> int | None:
        """Bytes of memory held now, rounded to MiB."""
        import psutil

        return round(psutil.Process().memory_info().rss / _MIB) * _MIB


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _share(before: tuple[float, float], after: tuple[float, float]) -> float | None:
    elapsed_s = after[0] - before[0]
    if elapsed_s <= 0:
        return None
    return round(100 * (after[1] - before[1]) / elapsed_s, 2)
