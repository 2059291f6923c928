"""What a store keeps in memory so that it is not read twice: journals, and series made of them.

Runs are read by several threads: ``LoadedRuns`` holds a short lock of its own, and methods of runs
hold that of the run (``locked``).
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from epochal.base.guard import Guard
from epochal.health.rule_settings import RuleSettings

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="Lockable")

# Of one run, and of everything.
SERIES_BYTES = 512 * 1024 * 1024
LIMIT_BYTES = 1024 * 1024 * 1024
# A list of ten thousand small runs reads each of them once; they need not all stay in memory. But
# the charts of a sweep go through the same thousand runs one after the other.
JOURNAL_RUNS = 2048
# Runs that are being written free nothing: so many are tried before it is left for later.
_ASKED_TO_LET_GO = 8


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
    """A run that has parts of its journal, or series, in memory."""

    @property
    def held_bytes(self) -> int:
        """How many bytes they take."""

    def release(self) -> bool:
        """Free them without waiting; False when they are still in use."""


class LoadedRuns:
    """Runs with something in memory; beyond the limits, those used longest ago free them."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, most: int = JOURNAL_RUNS) -> None:
        self._limit = limit_bytes
        self._most = most
        # Entered again when a run that lets go is forgotten meanwhile.
        self._lock = threading.RLock()
        self._runs: OrderedDict[int, tuple[Releasable, int]] = OrderedDict()

    def grown(self, run: Releasable) -> None:
        """A run has read something; beyond the limits, others free what they have read."""
        with self._lock:
            self.forget(run)
            self._runs[id(run)] = (run, run.held_bytes)
            for _ in range(_ASKED_TO_LET_GO):
                size = sum(num_bytes for _, num_bytes in self._runs.values())
                is_too_much = size > self._limit or len(self._runs) > self._most
                if not is_too_much or len(self._runs) == 1:
                    return
                key, (other, _) = next(iter(self._runs.items()))
                if other is not run and other.release():
                    del self._runs[key]
                else:
                    self._runs.move_to_end(key)

    def used(self, run: Releasable, *, more_bytes: int = 0) -> None:
        """A run was used just now, and keeps so many bytes more."""
        with self._lock:
            known = self._runs.get(id(run))
            if known is not None:
                self._runs[id(run)] = (run, known[1] + more_bytes)
                self._runs.move_to_end(id(run))

    def forget(self, run: Releasable) -> None:
        """A run has nothing in memory any more."""
        with self._lock:
            self._runs.pop(id(run), None)


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """All that is kept, for all runs of a store."""

    loaded: LoadedRuns = field(default_factory=LoadedRuns)
    # The faults of runs in lists, by the place of each run.
    guard: Guard = field(default_factory=Guard)
    # How rules judge runs that do not say it themselves.
    rules: RuleSettings = field(default_factory=RuleSettings)
