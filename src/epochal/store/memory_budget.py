"""What the runs of a store hold in memory together, and its limits.

Runs are read by several threads: each of these holds a short lock of its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from epochal.guard import Guard
from epochal.health.rule_settings import RuleSettings
from epochal.store.answers import Series
from epochal.store.cached import CachedSegments
from epochal.store.columns import SeriesKey
from epochal.store.sealed import OpenSegments

SERIES_BYTES = 512 * 1024 * 1024
JOURNAL_BYTES = 512 * 1024 * 1024
# A list of ten thousand small runs asks each of them once, and that is no reason to keep them all.
JOURNAL_RUNS = 256
# Runs that are being written do not let go: so many are asked to before it is left for later.
_ASKED_TO_LET_GO = 8

_Key = tuple[int, SeriesKey, int]


class Releasable(Protocol):
    """A run that has parts of its journal in memory."""

    @property
    def held_bytes(self) -> int:
        """How much they take."""

    def release(self) -> bool:
        """Let go of them without waiting; False when they are still in use."""


class HeldSeries:
    """Series that were asked for, the ones asked last, up to a number of bytes."""

    def __init__(self, limit_bytes: int = SERIES_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._lock = threading.Lock()
        self._series: OrderedDict[_Key, Series] = OrderedDict()
        self._of: dict[int, set[_Key]] = {}

    def get(self, owner: int, key: SeriesKey, rank: int) -> Series | None:
        """A series, if it is still held."""
        with self._lock:
            series = self._series.get((owner, key, rank))
            if series is not None:
                self._series.move_to_end((owner, key, rank))
            return series

    def put(self, series: Series, owner: int, key: SeriesKey, rank: int) -> None:
        """Hold a series; others go when there is not enough room."""
        with self._lock:
            self._series[owner, key, rank] = series
            self._of.setdefault(owner, set()).add((owner, key, rank))
            self._size += _bytes(series)
            while self._size > self._limit and len(self._series) > 1:
                self._let_go(next(iter(self._series)))

    def drop(self, owner: int) -> None:
        """Let go of every series of one owner."""
        with self._lock:
            for key in list(self._of.get(owner, ())):
                self._let_go(key)

    def _let_go(self, key: _Key) -> None:
        self._size -= _bytes(self._series.pop(key))
        keys = self._of[key[0]]
        keys.discard(key)
        if not keys:
            del self._of[key[0]]


class LoadedRuns:
    """Runs with journals in memory: where they are too many, those used longest ago let go."""

    def __init__(self, limit_bytes: int = JOURNAL_BYTES, most: int = JOURNAL_RUNS) -> None:
        self._limit = limit_bytes
        self._most = most
        self._size = 0
        # Entered again when a run that lets go is forgotten meanwhile.
        self._lock = threading.RLock()
        self._runs: OrderedDict[int, tuple[Releasable, int]] = OrderedDict()

    def grown(self, run: Releasable) -> None:
        """A run has read something; others let go of what they hold where it is too much."""
        with self._lock:
            self.forget(run)
            self._runs[id(run)] = (run, run.held_bytes)
            self._size += run.held_bytes
            for _ in range(_ASKED_TO_LET_GO):
                is_too_much = self._size > self._limit or len(self._runs) > self._most
                if not is_too_much or len(self._runs) == 1:
                    return
                key, (other, _) = next(iter(self._runs.items()))
                if other is not run and other.release():
                    self._size -= self._runs.pop(key)[1]
                else:
                    self._runs.move_to_end(key)

    def used(self, run: Releasable) -> None:
        """A run was asked just now."""
        with self._lock:
            if id(run) in self._runs:
                self._runs.move_to_end(id(run))

    def forget(self, run: Releasable) -> None:
        """A run holds nothing any more."""
        with self._lock:
            known = self._runs.pop(id(run), None)
            if known is not None:
                self._size -= known[1]


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """All of it."""

    series: HeldSeries = field(default_factory=HeldSeries)
    segments: OpenSegments = field(default_factory=OpenSegments)
    loaded: LoadedRuns = field(default_factory=LoadedRuns)
    cached: CachedSegments | None = None
    # The faults of runs in lists, by the place of each run.
    guard: Guard = field(default_factory=Guard)
    # How rules judge runs that do not say it themselves.
    rules: RuleSettings = field(default_factory=RuleSettings)


def _bytes(series: Series) -> int:
    exact = 0 if series.exact is None else series.exact.nbytes
    return series.steps.nbytes + series.times.nbytes + series.values.nbytes + exact
