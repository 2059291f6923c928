"""The losses of runs as a drawing: what was logged, pale, its moving mean, and evaluations as dots.

A drawing is a list of shapes on a page of ``WIDTH`` by ``HEIGHT``; the formats draw them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochal.format import format_count, format_number
from epochal.series.downsample import Buckets, buckets
from epochal.series.series import Series
from epochal.store.store import RunView

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 40
# How many neighbours the mean takes in, half of them on each side.
MEAN_OVER = 21
_COLOURS = ("#2f6fd0", "#d0562f", "#2f9e5b", "#8a4fc9", "#b8860b", "#c2408c")
_INK, _GRID = "#556070", "#e3e7ee"
_RAW_OPACITY = 0.5
_X_TICKS, _Y_TICKS = 6, 5
_ROUND = (1.0, 2.0, 5.0, 10.0)
# A spike so many times as far from the middle as most values are leaves the picture at its edge.
_FAR_OUT, _MOST = 20.0, 99.0
_LONGEST_NAME = 48

Values = NDArray[np.float64]
Colour = str


@dataclass(frozen=True, slots=True, eq=False)
class Stroke:
    """A line through points; one that leaves the plot is cut there."""

    x: Values
    y: Values
    colour: Colour
    width: float = 1.0
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A filled circle with a pale edge."""

    x: float
    y: float
    radius: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Label:
    """A text whose ``anchor`` (start, middle, end) is at x, on the line y."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    colour: Colour = _INK


Shape = Stroke | Dot | Label


@dataclass(frozen=True, slots=True, eq=False)
class _LossCurves:
    """The losses of one run on one axis."""

    name: str
    colour: Colour
    loss: Series | None
    evaluated: Series | None

    def present(self) -> Iterator[Series]:
        yield from (series for series in (self.loss, self.evaluated) if series is not None)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the plot spans, in steps and in losses."""

    first: float
    last: float
    low: float
    high: float

    def x(self, steps: NDArray[np.int64] | Values) -> Values:
        share = (np.asarray(steps, dtype=np.float64) - self.first) / (self.last - self.first)
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def y(self, values: Values) -> Values:
        share = (values - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def draw(runs: Sequence[RunView]) -> list[Shape]:
    """The drawing of some runs, each in its colour; runs without a loss are named all the same."""
    axis = "step" if any(_on(run, "step") for run in runs) else "epoch"
    coloured = [(run, _COLOURS[index % len(_COLOURS)]) for index, run in enumerate(runs)]
    curves = [_loss_curves(run, axis, colour) for run, colour in coloured]
    defined = _defined_axis(runs, axis)
    if defined is not None:
        moved = [_loss_curves(run, axis, colour, x=defined) for run, colour in coloured]
        # One picture has one axis: all losses go along it, or none.
        if all(series.x == defined for curve in moved for series in curve.present()):
            curves, axis = moved, defined
    frame = _frame(curves)
    shapes: list[Shape] = [*_axes(frame, axis)]
    for curve in curves:
        shapes += _strokes(curve, frame)
    for curve in curves:
        shapes += _dots(curve, frame)
    return shapes + list(_legend(curves))


def centred_mean(values: Values) -> Values:
    """The mean of each value and its neighbours, fewer at the ends; nan and infinities left out."""
    if not values.size:
        return values
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(known)])
    places = np.arange(values.size)
    reach = MEAN_OVER // 2
    low, high = np.maximum(places - reach, 0), np.minimum(places + reach + 1, values.size)
    number = counts[high] - counts[low]
    total: Values = sums[high] - sums[low]
    mean: Values = np.divide(total, number, out=np.full(values.size, np.nan), where=number > 0)
    return mean


def _on(run: RunView, axis: str) -> bool:
    roles = (run.role("loss"), run.role("eval_loss"))
    return any(metric is not None and metric.axis == axis for metric in roles)


def _defined_axis(runs: Sequence[RunView], axis: str) -> str | None:
    """The axis that every run defined for its losses; None where they do not agree."""
    losses = (run.role(role) for run in runs for role in ("loss", "eval_loss"))
    found = {metric.x for metric in losses if metric is not None and metric.axis == axis}
    return next(iter(found)) if len(found) == 1 else None


def _loss_curves(run: RunView, axis: str, colour: Colour, *, x: str | None = None) -> _LossCurves:
    found: list[Series | None] = []
    for role in ("loss", "eval_loss"):
        metric = run.role(role)
        fits = metric is not None and metric.axis == axis and 0 in metric.ranks
        series = run.series(metric.name, axis=metric.axis) if metric and fits else None
        found.append(series if series is None or x is None else series.reindex(x, run))
    name = _printable(f"{run.info.project}/{run.info.name}")
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return _LossCurves(short, colour, *found)


def _frame(curves: Sequence[_LossCurves]) -> _Frame:
    present = [series for curve in curves for series in curve.present() if len(series)]
    if not present:
        return _Frame(0.0, 1.0, 0.0, 1.0)
    first = float(min(series.at[0] for series in present))
    last = float(max(series.at[-1] for series in present))
    values = np.concatenate([series.floats[np.isfinite(series.floats)] for series in present])
    low, high = _limits(values)
    return _Frame(first, last if last > first else first + 1, low, high)


def _limits(values: Values) -> tuple[float, float]:
    if not values.size:
        return 0.0, 1.0
    middle, most = (float(value) for value in np.percentile(values, [50.0, _MOST]))
    if most > middle:
        values = values[values - middle <= _FAR_OUT * (most - middle)]
    low, high = float(values.min()), float(values.max())
    room = 0.04 * (high - low) or abs(low) / 10 or 1.0
    return low - room, high + room


def _axes(frame: _Frame, axis: str) -> Iterator[Shape]:
    for value in _ticks(frame.low, frame.high, _Y_TICKS):
        y = float(frame.y(np.array(value)))
        yield Stroke(np.array([LEFT, WIDTH - RIGHT]), np.array([y, y]), _GRID)
        yield Label(LEFT - 8, y + 4, _short(value), "end")
    base = HEIGHT - BOTTOM
    for value in _ticks(frame.first, frame.last, _X_TICKS):
        x = float(frame.x(np.array(value)))
        yield Stroke(np.array([x, x]), np.array([base, base + 4]), _INK)
        yield Label(x, base + 18, format_count(value) if value >= 1e4 else f"{value:g}", "middle")
    yield Stroke(np.array([LEFT, LEFT, WIDTH - RIGHT]), np.array([TOP, base, base]), _INK)
    yield Label(WIDTH - RIGHT, HEIGHT - 6, axis, "end")
    yield Label(LEFT - 8, TOP - 10, "loss", "end")


def _short(value: float) -> str:
    return f"{value:g}" if 1e-3 <= abs(value) < 1e5 or value == 0 else format_number(value)


def _strokes(curve: _LossCurves, frame: _Frame) -> Iterator[Shape]:
    loss = curve.loss
    if loss is None:
        return
    raw = buckets(loss.at, loss.floats, pixels=WIDTH - LEFT - RIGHT)
    steps, values = _points(raw)
    yield Stroke(frame.x(steps), frame.y(values), curve.colour, width=1.0, opacity=_RAW_OPACITY)
    mean = buckets(loss.at, centred_mean(loss.floats), pixels=(WIDTH - LEFT - RIGHT) // 2)
    steps, values = _points(mean)
    yield Stroke(frame.x(steps), frame.y(values), curve.colour, width=2.0)


def _points(cut: Buckets) -> tuple[Values, Values]:
    """The corners of a line through buckets: each one's lowest and highest, as they came."""
    if cut.raw:
        return cut.first_step.astype(np.float64), cut.first
    low_first = cut.min_step <= cut.max_step
    steps = np.stack(
        [
            np.where(low_first, cut.min_step, cut.max_step),
            np.where(low_first, cut.max_step, cut.min_step),
        ],
        axis=1,
    )
    values = np.stack(
        [np.where(low_first, cut.min, cut.max), np.where(low_first, cut.max, cut.min)], axis=1
    )
    return steps.reshape(-1).astype(np.float64), values.reshape(-1)


def _dots(curve: _LossCurves, frame: _Frame) -> Iterator[Shape]:
    series = curve.evaluated
    if series is None:
        return
    known = np.isfinite(series.floats)
    places = np.flatnonzero(known)
    most = (WIDTH - LEFT - RIGHT) // 3
    if places.size > most:
        places = places[np.unique(np.linspace(0, places.size - 1, most).astype(np.intp))]
    for x, y in zip(frame.x(series.at[places]), frame.y(series.floats[places]), strict=True):
        if TOP <= y <= HEIGHT - BOTTOM:
            yield Dot(float(x), float(y), 3.0, curve.colour)


def _legend(curves: Sequence[_LossCurves]) -> Iterator[Shape]:
    x = float(LEFT)
    for curve in curves:
        text = f"{curve.name}{_final_text(curve)}"
        length = 24.0 + 6.4 * len(text) + 14
        if x > LEFT and x + length > WIDTH - RIGHT:
            yield Label(x, TOP - 16, f"+{len(curves) - curves.index(curve)} more")
            return
        y = TOP - 20.0
        yield Stroke(np.array([x, x + 18]), np.array([y, y]), curve.colour, width=2.0)
        yield Label(x + 24, TOP - 16, text)
        x += length


def _final_text(curve: _LossCurves) -> str:
    """What the lines cannot show: where they end, and values that are no numbers."""
    words = []
    for label, series in (("", curve.loss), ("eval ", curve.evaluated)):
        if series is not None and len(series):
            words.append(f"{label}{format_number(float(series.floats[-1]))}")
            strange = series.floats[~np.isfinite(series.floats)]
            if strange.size:
                words.append(f"{strange.size} x {format_number(float(strange[-1]))}")
    return f"  {', '.join(words)}" if words else "  no loss"


def _ticks(low: float, high: float, count: int) -> list[float]:
    """About so many round values from low to high."""
    span = (high - low) / count
    power = 10.0 ** math.floor(math.log10(span))
    step = next(round_ * power for round_ in _ROUND if round_ * power >= span * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
