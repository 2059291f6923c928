"""What the runs of a store hold in memory together, and its limits."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from epochal.store.answers import Series
from epochal.store.cached import CachedSegments
from epochal.store.columns import SeriesKey
from epochal.store.sealed import OpenSegments

SERIES_BYTES = 512 * 1024 * 1024
JOURNAL_BYTES = 512 * 1024 * 1024

_Key = tuple[int, SeriesKey, int]


class Releasable(Protocol):
    """A run that has parts of its journal in memory."""

    @property
    def held_bytes(self) -> int:
        """How much they take."""

    def release(self) -> bool:
        """Let go of them; False when they are still in use."""


class HeldSeries:
    """Series that were asked for, the ones asked last, up to a number of bytes."""

    def __init__(self, limit_bytes: int = SERIES_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._series: OrderedDict[_Key, Series] = OrderedDict()
        self._of: dict[int, set[_Key]] = {}

    def get(self, owner: int, key: SeriesKey, rank: int) -> Series | None:
        """A series, if it is still held."""
        series = self._series.get((owner, key, rank))
        if series is not None:
            self._series.move_to_end((owner, key, rank))
        return series

    def put(self, series: Series, owner: int, key: SeriesKey, rank: int) -> None:
        """Hold a series; others go when there is not enough room."""
        self._series[owner, key, rank] = series
        self._of.setdefault(owner, set()).add((owner, key, rank))
        self._size += _bytes(series)
        while self._size > self._limit and len(self._series) > 1:
            self._let_go(next(iter(self._series)))

    def drop(self, owner: int) -> None:
        """Let go of every series of one owner."""
        for key in list(self._of.get(owner, ())):
            self._let_go(key)

    def _let_go(self, key: _Key) -> None:
        self._size -= _bytes(self._series.pop(key))
        keys = self._of[key[0]]
        keys.discard(key)
        if not keys:
            del self._of[key[0]]


class LoadedRuns:
    """Runs with journals in memory: beyond a number of bytes, those used longest ago let go."""

    def __init__(self, limit_bytes: int = JOURNAL_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._runs: OrderedDict[int, tuple[Releasable, int]] = OrderedDict()

    def grown(self, run: Releasable) -> None:
        """A run has read something; others let go of what they hold where it is too much."""
        self.forget(run)
        self._runs[id(run)] = (run, run.held_bytes)
        self._size += run.held_bytes
        if self._size <= self._limit:
            return
        for key, (other, _) in list(self._runs.items())[:-1]:
            if other.release():
                self._size -= self._runs.pop(key)[1]
            if self._size <= self._limit:
                return

    def used(self, run: Releasable) -> None:
        """A run was asked just now."""
        if id(run) in self._runs:
            self._runs.move_to_end(id(run))

    def forget(self, run: Releasable) -> None:
        """A run holds nothing any more."""
        known = self._runs.pop(id(run), None)
        if known is not None:
            self._size -= known[1]


@dataclass(frozen=True, slots=True)
class Held:
    """All of it."""

    series: HeldSeries = field(default_factory=HeldSeries)
    segments: OpenSegments = field(default_factory=OpenSegments)
    loaded: LoadedRuns = field(default_factory=LoadedRuns)
    cached: CachedSegments | None = None


def _bytes(series: Series) -> int:
    return series.steps.nbytes + series.times.nbytes + series.values.nbytes
