"""What one graph recorded: values since the last flush, and one point per flush.

A value on an accelerator is copied on its own device, which waits for nothing. A flush reads all of
them in one copy per device. Safe to use from several threads.
"""

from __future__ import annotations

import csv
import json
import math
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from epochal.base.atomic_file import new_text_file
from epochal.errors import MetricNotFoundError, UsageError, ValueTypeError
from epochal.records.format import format_duration, format_number
from epochal.records.values import plain_float
from epochal.run.accepted import CallValues
from epochal.run.current import current_values
from epochal.series.eta import remaining_of
from epochal.torch.graph.wiring import suggestion

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


# -- the history in files: a page of curves, CSV, and a log for people -----------------------------


_WIDTH, _HEIGHT = 900.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 12.0, 30.0
_COLOURS = (
    "#3b78e7", "#e5484d", "#2f9e62", "#d9730d", "#8e5bd6", "#0f9fb3",
    "#c2418c", "#7a8b00", "#5566cc", "#b3653a", "#3f7f6f", "#8a6d9c",
)  # fmt: skip
_LABELS = 5


def plot_html(path: str | Path, history: Mapping[str, Points], *, title: str) -> None:
    """Draw every metric over its epochs; what is not finite is a gap, and counted in the legend."""
    drawn = {name: points for name, points in history.items() if points.values}
    if not drawn:
        raise UsageError("There is nothing to draw yet: flush() makes the first points.")
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(drawn)}
    finite = [v for points in drawn.values() for v in points.values if math.isfinite(v)]
    scale = _Scale(
        epochs=max(points.flushes[-1] for points in drawn.values()),
        low=min(finite, default=0.0),
        high=max(finite, default=1.0),
    )
    body = "".join(_line(name, drawn[name], colours[name], scale) for name in drawn)
    legend = "".join(_entry(i, name, drawn[name], colours[name]) for i, name in enumerate(drawn))
    data = {
        "names": list(drawn),
        "flushes": [points.flushes for points in drawn.values()],
        "values": [[format_number(v) for v in points.values] for points in drawn.values()],
        "left": _LEFT,
        "span": _WIDTH - _LEFT - _RIGHT,
        "epochs": scale.epochs,
    }
    template = Path(__file__).with_name("curves.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=escape(title),
        axes="".join(_axes(scale)),
        lines=body,
        legend=legend,
        width=f"{_WIDTH:.0f}",
        height=f"{_HEIGHT:.0f}",
        # Inside a script only a closing tag could end the data.
        data=json.dumps(data).replace("<", "\\u003c"),
    )
    with new_text_file(path) as out:
        out.write(page)


class _Scale:
    """From epochs and values to places on the page."""

    def __init__(self, *, epochs: int, low: float, high: float) -> None:
        padding = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
        if not math.isfinite(padding):
            padding = 0.0
        self.epochs = epochs
        self.low, self.high = low - padding, high + padding

    def x(self, epoch: int) -> float:
        """The place of an epoch, from 1."""
        share = (epoch - 1) / (self.epochs - 1) if self.epochs > 1 else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The place of a value; halves first, where the whole range has no number."""
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _line(name: str, points: Points, colour: str, scale: _Scale) -> str:
    path, pen = [], "M"
    dots = []
    for epoch, value in zip(points.flushes, points.values, strict=True):
        if not math.isfinite(value):
            pen = "M"
            continue
        x, y = scale.x(epoch), scale.y(value)
        path.append(f"{pen}{x:.1f},{y:.1f}")
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>')
        pen = "L"
    shown = dots if len(dots) <= 60 else dots[-1:]
    return (
        f'<g class="curve" style="--c:{colour}"><title>{escape(name)}</title>'
        f'<path d="{"".join(path)}"/>{"".join(shown)}</g>'
    )


def _entry(number: int, name: str, points: Points, colour: str) -> str:
    lost = sum(points.nonfinite)
    note = f" <i>{lost} not finite</i>" if lost else ""
    return (
        f'<button data-i="{number}" style="--c:{colour}"><b></b>{escape(name)} '
        f"<span>{escape(format_number(points.values[-1]))}</span>{note}</button>"
    )


def _axes(scale: _Scale) -> Iterator[str]:
    for index in range(_LABELS):
        share = index / (_LABELS - 1)
        value = scale.low * (1 - share) + scale.high * share
        y = scale.y(value)
        yield f'<path class="grid" d="M{_LEFT},{y:.1f}H{_WIDTH - _RIGHT}"/>'
        label = format_number(value)
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    stride = max(math.ceil(scale.epochs / 8), 1)
    for epoch in range(1, scale.epochs + 1, stride):
        yield (
            f'<text x="{scale.x(epoch):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{epoch}</text>'
        )


def write_table(path: str | Path, history: Mapping[str, Points]) -> None:
    """Write a row per epoch and a column per metric; an epoch without a point has an empty cell.

    Numbers are written so that reading them gives the same number back.
    """
    with new_text_file(path) as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["epoch", *history])
        for epoch, row in _rows(history):
            table.writerow([epoch, *(repr(row[name]) if name in row else "" for name in history)])


def write_epochs(
    path: str | Path,
    history: Mapping[str, Points],
    *,
    total_epochs: int,
    seconds: Sequence[float],
    first_timed: int,
) -> None:
    """Write a line per epoch; `seconds` are the durations from epoch `first_timed` on.

    The time left is estimated from the durations up to that line; a `total_epochs` of 0 leaves it
    out.
    """
    lines = ["# epochal training log"]
    width = len(str(total_epochs)) if total_epochs else 3
    for epoch, row in _rows(history):
        place = f"{epoch:{width}d}/{total_epochs}" if total_epochs else f"{epoch:3d}"
        figures = "".join(f"  {_one_line(k)}={format_number(v)}" for k, v in row.items())
        lines.append(f"epoch {place}{figures}{_times(epoch, total_epochs, seconds, first_timed)}")
    lines.append(f"# total: {format_duration(math.fsum(seconds))}")
    with new_text_file(path) as out:
        out.write("\n".join(lines) + "\n")


def _times(epoch: int, total: int, seconds: Sequence[float], first: int) -> str:
    done = seconds[: epoch - first + 1] if epoch >= first else []
    if not done:
        return ""
    left_s = remaining_of(done, total=total, done=epoch)
    eta = f"  ETA {format_duration(left_s)}" if left_s else ""
    return f"  [{format_duration(done[-1])}{eta}]"


def _rows(history: Mapping[str, Points]) -> list[tuple[int, dict[str, float]]]:
    rows: dict[int, dict[str, float]] = {}
    for name, points in history.items():
        for flush, value in zip(points.flushes, points.values, strict=True):
            rows.setdefault(flush, {})[name] = value
    return sorted(rows.items())


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
