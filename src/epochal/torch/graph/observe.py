"""What one graph recorded: values since the last flush, and one point per flush.

Every thread records on its own side and nobody waits for a device; a flush puts the threads
together. Safe to use from several threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from epochal.errors import UsageError
from epochal.run.accepted import CallValues, ValuePolicy
from epochal.run.current import current_values
from epochal.series.eta import remaining_of
from epochal.torch.graph.names import unknown_metric
from epochal.torch.graph.recorded import Recorded, ScalarSum, checked_weight, read_devices
from epochal.values import plain_float

_STATE_VERSION = 1


@dataclass(slots=True)
class Points:
    """One metric's history: the flush each point belongs to (from 1), its value, and how many
    records of it were not finite and therefore are not in it.
    """

    flushes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    nonfinite: list[int] = field(default_factory=list)


class Observation:
    """The recorder behind a graph; `clock` gives seconds that only grow."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[int, dict[str, Recorded]] = {}
        self._points: dict[str, Points] = {}
        self._mark: float | None = None
        self.flush_seconds: list[float] = []
        self._restored = 0

    def begin(self) -> None:
        """Start the clock of the first flush, unless it runs."""
        if self._mark is None:
            self._mark = self._clock()

    def record(self, name: str, value: Any, *, weight: Any = 1.0) -> None:
        """Take one value; one that is no number is left out and noted."""
        values = current_values()
        known = CallValues(values).name(name)
        heaviness = None if known is None else _weight(values, weight, known)
        if known is None or heaviness is None:
            return
        with self._lock:
            recorded = self._recorded(known)
            values.read(known, recorded.append, value, name=known, weight=heaviness)

    def record_many(self, name: str, values: Any, *, weight: Any = 1.0) -> None:
        """Take several values, each with the same weight; one that is no number is left out."""
        policy = current_values()
        known = CallValues(policy).name(name)
        heaviness = None if known is None else _weight(policy, weight, known)
        if known is None or heaviness is None:
            return
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            wrong = UsageError(f"record({known!r}) takes several values; record_scalar takes one.")
            policy.drop(known, values, wrong)
            return
        with self._lock:
            recorded = self._recorded(known)
            if isinstance(values, Tensor):
                policy.read(known, recorded.extend, values, weight=heaviness)
                return
            several: list[Any] = policy.read(known, list, values) or []
            for value in several:
                policy.read(known, recorded.append, value, name=known, weight=heaviness)

    def names(self) -> list[str]:
        """Everything that was ever recorded, by first record."""
        return list(self._points)

    def collected(self, name: str) -> list[float]:
        """The values since the last flush; waits for a device that holds some."""
        self._require([name])
        with self._lock:
            found = [metrics[name] for metrics in self._open.values() if name in metrics]
            read_devices(found)
            return [value for recorded in found for value in recorded.values()]

    def flush(self, names: Iterable[str] = ()) -> list[str]:
        """Make one point of each metric's values; returns those that had any."""
        wanted = list(names)
        self._require(wanted)
        with self._lock:
            summed = self._take(wanted, list(self._open))
            if summed:
                self._close_flush()
            for name, part in summed.items():
                points = self._points[name]
                points.flushes.append(self.flush_count)
                points.values.append(part.mean())
                points.nonfinite.append(part.nonfinite)
        return list(summed)

    def drain(self) -> dict[str, ScalarSum]:
        """Take what this thread recorded out again, as sums that can be sent elsewhere."""
        with self._lock:
            return self._take([], [threading.get_ident()])

    def absorb(self, parts: Mapping[str, ScalarSum]) -> None:
        """Take what another thread or rank drained."""
        with self._lock:
            for name, part in parts.items():
                self._recorded(name).absorb(part)

    @property
    def flush_count(self) -> int:
        """How many flushes found something, those before a restart included."""
        return self._restored + len(self.flush_seconds)

    def points(self, name: str) -> Points:
        """One metric's history; raises MetricNotFoundError for one never recorded."""
        self._require([name])
        return self._points[name]

    def latest(self) -> dict[str, float]:
        """The newest point of every metric that has one, by first record."""
        return {name: points.values[-1] for name, points in self._points.items() if points.values}

    def nonfinite(self) -> dict[str, int]:
        """How many records of its newest point were not finite, for the metrics that had any."""
        return {
            name: points.nonfinite[-1]
            for name, points in self._points.items()
            if points.nonfinite and points.nonfinite[-1]
        }

    def reset(self, names: Iterable[str] = ()) -> None:
        """Forget the history of some metrics, or of all; what is not flushed stays."""
        chosen = list(names)
        self._require(chosen)
        with self._lock:
            for name in chosen or self._points:
                self._points[name] = Points()

    def eta(self, total: int) -> float:
        """Seconds until `total` flushes are done, from the flushes of this process so far.

        0.0 when they are done; nan before the first flush.
        """
        goal = plain_float(total, name="total")
        if goal <= self.flush_count:
            return 0.0
        seconds = remaining_of(self.flush_seconds, total=goal, done=self.flush_count)
        return float("nan") if seconds is None else seconds

    def state(self) -> dict[str, Any]:
        """The history as JSON can hold it, to be kept beside a checkpoint."""
        with self._lock:
            return {
                "version": _STATE_VERSION,
                "flush_count": self.flush_count,
                "points": {
                    name: {
                        "flushes": list(points.flushes),
                        "values": [repr(value) for value in points.values],
                        "nonfinite": list(points.nonfinite),
                    }
                    for name, points in self._points.items()
                },
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved history; the clock starts anew."""
        if state.get("version") != _STATE_VERSION:
            raise UsageError(
                f"This history has version {state.get('version')!r}; {_STATE_VERSION} is known."
            )
        with self._lock:
            self._points = {
                name: Points(
                    list(saved["flushes"]),
                    [float(value) for value in saved["values"]],
                    list(saved["nonfinite"]),
                )
                for name, saved in state["points"].items()
            }
            self._restored = int(state["flush_count"])
            self.flush_seconds, self._mark = [], None

    def __getstate__(self) -> dict[str, Any]:
        # A copy starts with the history; what was not flushed stays with the original.
        return {**self.__dict__, "_lock": None, "_open": {}, "_mark": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._points = {
            name: Points(list(one.flushes), list(one.values), list(one.nonfinite))
            for name, one in self._points.items()
        }
        self.flush_seconds = list(self.flush_seconds)

    def _recorded(self, name: str) -> Recorded:
        if not str(name) or str(name) != name:
            raise UsageError(f"A metric's name must be a non-empty text, got {name!r}.")
        self.begin()
        self._points.setdefault(name, Points())
        return self._open.setdefault(threading.get_ident(), {}).setdefault(name, Recorded())

    def _take(self, names: list[str], threads: list[int]) -> dict[str, ScalarSum]:
        taken: dict[str, list[Recorded]] = {}
        for thread in threads:
            metrics = self._open.get(thread, {})
            for name in [name for name in metrics if not names or name in names]:
                taken.setdefault(name, []).append(metrics.pop(name))
        read_devices([recorded for parts in taken.values() for recorded in parts])
        summed = {name: _joined(taken[name]) for name in self._points if name in taken}
        return {name: part for name, part in summed.items() if part.count}

    def _close_flush(self) -> None:
        now = self._clock()
        self.flush_seconds.append(now - (now if self._mark is None else self._mark))
        self._mark = now

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._points:
                raise unknown_metric(name, self._points)


def _weight(values: ValuePolicy, weight: Any, name: str) -> float | None:
    return values.read(name, checked_weight, weight, name=name)


def _joined(parts: list[Recorded]) -> ScalarSum:
    whole = Recorded()
    for part in parts:
        whole.absorb(part.summed())
    return whole.summed()
