"""What one graph recorded: values since the last flush, and one point per flush.

A value on an accelerator is copied on its own device, which waits for nothing. A flush reads all of
them in one copy per device. Safe to use from several threads.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from epochal.errors import MetricNotFoundError, UsageError, ValueTypeError
from epochal.run.accepted import CallValues
from epochal.run.current import current_values
from epochal.series.eta import remaining_of
from epochal.torch.graph.builder import suggestion
from epochal.values import plain_float

_STATE_VERSION = 2
# Copies on a device take at least 512 bytes each; so many are joined into one.
_JOINED = 1024


@dataclass(slots=True)
class Points:
    """One metric's history: the flush of each point (from 1), and its value.

    `nonfinite` counts the records that were not finite and therefore are not in the value.
    """

    flushes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    nonfinite: list[int] = field(default_factory=list)

    def copy(self) -> Points:
        """Return a copy that nothing else changes."""
        return Points(list(self.flushes), list(self.values), list(self.nonfinite))


class Recorded:
    """One metric's values since the last flush, on the host and on devices."""

    def __init__(self) -> None:
        self.host = array("d")
        self.on_device: dict[torch.device, list[Tensor]] = {}
        self._streams: dict[torch.device, Any] = {}

    def append(self, value: Any, *, name: str) -> None:
        """Take one number; on an accelerator it stays there."""
        if not isinstance(value, Tensor) or value.device.type in ("cpu", "meta"):
            self.host.append(plain_float(value, name=name))
            return
        if value.numel() != 1:
            raise ValueTypeError(f"metric {name!r} holds {value.numel()} values: use record().")
        self._keep(value)

    def extend(self, values: Tensor) -> None:
        """Take all numbers of a tensor."""
        if values.device.type in ("cpu", "meta"):
            self.host.extend(values.detach().flatten().to(torch.float64).tolist())
        else:
            self._keep(values)

    def _keep(self, values: Tensor) -> None:
        device = values.device
        if device.type == "cuda":
            # Wait, on the device, for the stream that wrote before, if it is another one.
            current, before = torch.cuda.current_stream(device), self._streams.get(device)
            if before is not None and before != current:
                current.wait_stream(before)
            self._streams[device] = current
        kept = self.on_device.setdefault(device, [])
        dtype = torch.float32 if device.type == "mps" else torch.float64
        kept.append(values.detach().flatten().to(dtype, copy=True))
        if len(kept) > _JOINED:
            kept[:] = [torch.cat(kept)]

    def mean(self) -> tuple[float, int]:
        """Return the mean of the finite values, nan without any, and how many are not finite."""
        finite = [value for value in self.host if math.isfinite(value)]
        return (sum(finite) / len(finite) if finite else math.nan), len(self.host) - len(finite)


class Observation:
    """The recorder behind a graph; `clock` returns seconds that only grow."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Recorded] = {}
        self._points: dict[str, Points] = {}
        self._mark: float | None = None
        self._restored = 0
        self.flush_seconds: list[float] = []

    def begin(self) -> None:
        """Start the clock of the first flush, unless it runs."""
        if self._mark is None:
            self._mark = self._clock()

    def record(self, name: str, value: Any) -> None:
        """Take one value; one that is not a number is left out and noted."""
        policy = current_values()
        known = CallValues(policy).name(name)
        if known is not None:
            with self._lock:
                policy.read(known, self._recorded(known).append, value, name=known)

    def record_many(self, name: str, values: Any) -> None:
        """Take several values; one that is not a number is left out and noted."""
        policy = current_values()
        known = CallValues(policy).name(name)
        if known is None:
            return
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            wrong = UsageError(f"record({known!r}) takes several values; record_scalar takes one.")
            policy.drop(known, values, wrong)
            return
        with self._lock:
            recorded = self._recorded(known)
            if isinstance(values, Tensor):
                policy.read(known, recorded.extend, values)
                return
            several: list[Any] = policy.read(known, list, values) or []
            for value in several:
                policy.read(known, recorded.append, value, name=known)

    def names(self) -> list[str]:
        """Return everything that was ever recorded, by first record."""
        return list(self._points)

    def flush(self, names: Iterable[str] = ()) -> None:
        """Make one point of the values of each metric that has any."""
        wanted = list(names)
        with self._lock:
            chosen = [n for n in self._points if n in self._open and (not wanted or n in wanted)]
            taken = {name: self._open.pop(name) for name in chosen}
            _read_devices(list(taken.values()))
            filled = {name: recorded for name, recorded in taken.items() if recorded.host}
            if filled:
                now = self._clock()
                self.flush_seconds.append(now - (now if self._mark is None else self._mark))
                self._mark = now
            for name, recorded in filled.items():
                points = self._points[name]
                value, nonfinite = recorded.mean()
                points.flushes.append(self.flush_count)
                points.values.append(value)
                points.nonfinite.append(nonfinite)

    @property
    def flush_count(self) -> int:
        """How many flushes found something, those before a restart included."""
        return self._restored + len(self.flush_seconds)

    def points(self, name: str) -> Points:
        """Return one metric's history; empty for one that was never recorded."""
        return self._points.get(name, Points())

    def latest(self) -> dict[str, float]:
        """Return the newest point of every metric that has one, by first record."""
        return {name: points.values[-1] for name, points in self._points.items() if points.values}

    def eta(self, total: int) -> float:
        """Return the seconds until `total` flushes are done; nan before the first flush."""
        goal = plain_float(total, name="total")
        if goal <= self.flush_count:
            return 0.0
        seconds = remaining_of(self.flush_seconds, total=goal, done=self.flush_count)
        return float("nan") if seconds is None else seconds

    def state(self) -> dict[str, Any]:
        """Return the history as JSON can hold it, to be stored with a checkpoint."""
        with self._lock:
            points = {
                name: {
                    "flushes": list(one.flushes),
                    "values": [repr(value) for value in one.values],
                    "nonfinite": list(one.nonfinite),
                }
                for name, one in self._points.items()
            }
            return {"version": _STATE_VERSION, "flush_count": self.flush_count, "points": points}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved history; the clock starts again."""
        if state.get("version") != _STATE_VERSION:
            raise UsageError(f"history version {state.get('version')!r} is not {_STATE_VERSION}.")
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
        self._points = {name: points.copy() for name, points in self._points.items()}
        self.flush_seconds = list(self.flush_seconds)

    def _recorded(self, name: str) -> Recorded:
        self.begin()
        self._points.setdefault(name, Points())
        return self._open.setdefault(name, Recorded())


def unknown_metric(name: str, known: Iterable[str]) -> MetricNotFoundError:
    """Return the error for a metric that was never recorded."""
    return MetricNotFoundError(f"Nothing was recorded as {name!r}: {suggestion(name, known)}")


def _read_devices(metrics: Sequence[Recorded]) -> None:
    """Bring every value that is on a device to the host, in one copy for each device."""
    for device in dict.fromkeys(device for metric in metrics for device in metric.on_device):
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # values may come from several streams
        there = [metric for metric in metrics if device in metric.on_device]
        parts = [torch.cat(metric.on_device.pop(device)) for metric in there]
        numbers = torch.cat(parts).cpu().to(torch.float64).tolist()
        for metric, part in zip(there, parts, strict=True):
            metric.host.extend(numbers[: len(part)])
            del numbers[: len(part)]
