"""What a store keeps so that it is not read twice: series and journals in memory, copies on disk.

Runs are read by several threads: each class in this file holds a short lock of its own, and methods
of runs hold that of the run (``locked``).

Copies on disk are segments of large unsealed parts. They are in the user's cache folder, never in a
run's own. Each is named after size and time of the journal part that it was made of. So one of an
older state is never used for the part as it is.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from epochal.errors import EpochalError
from epochal.guard import Guard
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder, parse_part_name
from epochal.segments.columns import SeriesKey
from epochal.series.series import Series
from epochal.store.local.listing import FoundPart

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="Lockable")

SERIES_BYTES = 512 * 1024 * 1024
JOURNAL_BYTES = 512 * 1024 * 1024
# A list of ten thousand small runs reads each of them once; they need not all stay in memory. But
# the charts of a sweep go through the same thousand runs one after the other.
JOURNAL_RUNS = 2048
# Runs that are being written free nothing: so many are tried before it is left for later.
_ASKED_TO_LET_GO = 8

_Key = tuple[int, SeriesKey, int]
LARGE_BYTES = 8 * 1024 * 1024
# The columns of a run with more unsealed lines than this would take too much memory.
HUGE_RUN_BYTES = 512 * 1024 * 1024
# A part that nobody wrote to for this long is copied even when it may still grow.
QUIET_S = 60.0
# Copies that nobody asked for in this time are deleted when another is made.
KEEP_S = 30 * 86400.0


class Lockable(Protocol):
    """An object with a lock of its own."""

    lock: threading.RLock


def locked(method: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """A method that holds its object's lock while it runs."""

    @functools.wraps(method)
    def call(owner: L, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with owner.lock:
            return method(owner, *args, **kwargs)

    return call


class Releasable(Protocol):
    """A run that has parts of its journal in memory."""

    @property
    def held_bytes(self) -> int:
        """How many bytes they take."""

    def release(self) -> bool:
        """Free them without waiting; False when they are still in use."""


class HeldSeries:
    """The series that were used last, up to a number of bytes."""

    def __init__(self, limit_bytes: int = SERIES_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._lock = threading.Lock()
        self._series: OrderedDict[_Key, Series] = OrderedDict()
        self._of: dict[int, set[_Key]] = {}

    def get(self, owner: int, key: SeriesKey, rank: int) -> Series | None:
        """A series, if it is still kept."""
        with self._lock:
            series = self._series.get((owner, key, rank))
            if series is not None:
                self._series.move_to_end((owner, key, rank))
            return series

    def put(self, series: Series, owner: int, key: SeriesKey, rank: int) -> None:
        """Keep a series; the ones used longest ago are dropped beyond the limit."""
        with self._lock:
            self._series[owner, key, rank] = series
            self._of.setdefault(owner, set()).add((owner, key, rank))
            self._size += series.nbytes
            while self._size > self._limit and len(self._series) > 1:
                self._let_go(next(iter(self._series)))

    def drop(self, owner: int) -> None:
        """Drop every series of one owner."""
        with self._lock:
            for key in list(self._of.get(owner, ())):
                self._let_go(key)

    def _let_go(self, key: _Key) -> None:
        self._size -= self._series.pop(key).nbytes
        keys = self._of[key[0]]
        keys.discard(key)
        if not keys:
            del self._of[key[0]]


class LoadedRuns:
    """Runs with journals in memory; beyond the limits, those used longest ago free them."""

    def __init__(self, limit_bytes: int = JOURNAL_BYTES, most: int = JOURNAL_RUNS) -> None:
        self._limit = limit_bytes
        self._most = most
        self._size = 0
        # Entered again when a run that lets go is forgotten meanwhile.
        self._lock = threading.RLock()
        self._runs: OrderedDict[int, tuple[Releasable, int]] = OrderedDict()

    @property
    def num_runs(self) -> int:
        """How many runs have something in memory."""
        return len(self._runs)

    def grown(self, run: Releasable) -> None:
        """A run has read something; beyond the limits, others free what they have read."""
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
        """A run was used just now."""
        with self._lock:
            if id(run) in self._runs:
                self._runs.move_to_end(id(run))

    def forget(self, run: Releasable) -> None:
        """A run has nothing in memory any more."""
        with self._lock:
            known = self._runs.pop(id(run), None)
            if known is not None:
                self._size -= known[1]


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """All that is kept, for all runs of a store."""

    series: HeldSeries = field(default_factory=HeldSeries)
    loaded: LoadedRuns = field(default_factory=LoadedRuns)
    cached: CachedSegments | None = None
    # The faults of runs in lists, by the place of each run.
    guard: Guard = field(default_factory=Guard)
    # How rules judge runs that do not say it themselves.
    rules: RuleSettings = field(default_factory=RuleSettings)


class CachedSegments:
    """Finds sealed copies of the large parts of a huge run that nobody writes, and makes them.

    The columns of a huge run would take too much memory. Any other run is read from its lines.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "segments"
        self._failed: set[Path] = set()
        self._lock = threading.Lock()

    def find(self, found: FoundPart, *, run_bytes: int) -> Path | None:
        """The copy of a large part as it is now; None where its lines have to be read.

        ``run_bytes`` is the size of all unsealed parts of its run.

        Making a copy reads the lines once, and takes little longer than reading them.
        """
        is_quiet = time.time() - found.stat.mtime_ns / 1e9 >= QUIET_S
        if found.stat.size < LARGE_BYTES or not is_quiet:
            return None
        said = f"{found.path} {found.stat.size} {found.stat.mtime_ns}"
        digest = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
        # A part that a rank wrote elsewhere has another attempt than in its run.
        path = self._folder / digest / f"{found.path.stem}.parquet"
        with self._lock:
            with contextlib.suppress(OSError):
                os.utime(path)  # it is in use
            if not path.exists():
                is_huge = run_bytes >= HUGE_RUN_BYTES
                return path if is_huge and self._make(found.path, path) else None
        return path

    def _make(self, journal: Path, target: Path) -> bool:
        """Whether a copy was made; deletes copies that nobody uses any more."""
        from epochal.segments.seal import seal_part

        name = parse_part_name(journal.name, ".jsonl")
        if name is None or target in self._failed:
            return False
        try:
            seal_part(RunFolder(journal.parent.parent), name, into=target.parent)
        except (EpochalError, OSError):  # the lines are read in its place, which says what is wrong
            self._failed.add(target)
            shutil.rmtree(target.parent, ignore_errors=True)
            return False
        for folder in self._folder.iterdir():
            used = [path.stat().st_mtime for path in folder.glob("*.parquet")]
            if used and time.time() - max(used) > KEEP_S:
                shutil.rmtree(folder, ignore_errors=True)
        return True
