"""What the runs of a store hold in memory together, and its limits."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from epochal.store.answers import Series
from epochal.store.cached import CachedSegments
from epochal.store.sealed import OpenSegments

SERIES_BYTES = 512 * 1024 * 1024
MAX_LOADED = 64


class Releasable(Protocol):
    """A run that has parts of its journal in memory."""

    def release(self) -> bool:
        """Let go of them; False when they are still in use."""


class HeldSeries:
    """Series that were asked for, the ones asked last, up to a number of bytes."""

    def __init__(self, limit_bytes: int = SERIES_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._series: OrderedDict[tuple[object, ...], Series] = OrderedDict()

    def get(self, *key: object) -> Series | None:
        """The series of a key, if it is still held."""
        series = self._series.get(key)
        if series is not None:
            self._series.move_to_end(key)
        return series

    def put(self, series: Series, *key: object) -> None:
        """Hold a series; others go when there is not enough room."""
        self._series[key] = series
        self._size += _bytes(series)
        while self._size > self._limit and len(self._series) > 1:
            _, oldest = self._series.popitem(last=False)
            self._size -= _bytes(oldest)

    def drop(self, owner: object) -> None:
        """Let go of every series whose key begins with an owner."""
        for key in [key for key in self._series if key[0] == owner]:
            self._size -= _bytes(self._series.pop(key))


class LoadedRuns:
    """Runs with journals in memory: beyond a number, those asked longest ago let go of them."""

    def __init__(self, most: int = MAX_LOADED) -> None:
        self._most = most
        self._runs: OrderedDict[int, Releasable] = OrderedDict()

    def touch(self, run: Releasable) -> None:
        """A run was asked just now."""
        self._runs[id(run)] = run
        self._runs.move_to_end(id(run))
        if len(self._runs) <= self._most:
            return
        for key, oldest in list(self._runs.items())[: -self._most]:
            if oldest.release():
                del self._runs[key]

    def forget(self, run: Releasable) -> None:
        """A run holds nothing any more."""
        self._runs.pop(id(run), None)


@dataclass(frozen=True, slots=True)
class Held:
    """All of it."""

    series: HeldSeries = field(default_factory=HeldSeries)
    segments: OpenSegments = field(default_factory=OpenSegments)
    loaded: LoadedRuns = field(default_factory=LoadedRuns)
    cached: CachedSegments | None = None


def _bytes(series: Series) -> int:
    return series.steps.nbytes + series.times.nbytes + series.values.nbytes
