"""The chart of a metric: which curves it shows, and how plotext draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import plotext
from numpy.typing import NDArray
from rich.text import Text

from epochal.cli.tui.text import clip, short_number
from epochal.journal.metrics import Metric
from epochal.records.format import format_count, format_duration
from epochal.series.downsample import buckets
from epochal.series.series import Series, X
from epochal.series.smooth import Smoothing
from epochal.store.run import RunView

# Numbers of the terminal's own colours.
_MAIN, _RAW, _EVALUATION, _BAD, _FLAG, _AXES = 14, 4, 11, 9, 3, 8
COMPARED = (5, 2, 1, 3)
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
_SMALLEST = (20, 5)
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_MARKED = 40  # more evaluations than this are drawn as a line

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class View:
    """What the chart shows; ``metric`` None is the loss."""

    metric: str | None = None
    smoothing: float = 0.0
    is_log: bool = False
    x: X = "step"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A series as it is drawn; ``mark`` draws each point as this character."""

    name: str
    x: Floats
    values: Floats
    colour: int
    mark: str = ""


def curves_of(
    run: RunView, metric: Metric, view: View, compared: Sequence[RunView] = ()
) -> tuple[list[Curve], X]:
    """The curves of a metric, the foremost last, and their x axis.

    Compared runs that do not have the metric on that axis are left out.
    """
    x = metric.x or view.x if view.x == "step" else view.x
    main = _series(run, metric).reindex(x, run)
    curves = [_curve(main, metric.name, _MAIN, view.smoothing)]
    if view.smoothing:
        curves.insert(0, _curve(main, metric.name, _RAW))
    for other, colour in zip(compared, COMPARED, strict=False):
        same = None if other is run else _same_metric(other, metric)
        if same is not None:
            theirs = _series(other, same).reindex(x, other)
            if theirs.x == main.x:
                curves.insert(0, _curve(theirs, other.info.name, colour, view.smoothing))
    evaluated = run.role("eval_loss") if metric.role == "loss" else None
    if evaluated is not None and evaluated.ranks:
        points = _series(run, evaluated).reindex(x, run)
        if points.x == main.x:
            mark = "◆" if len(points) <= _MOST_MARKED else ""
            curves.append(Curve(evaluated.name, *_points(points), _EVALUATION, mark))
    return curves, main.x


def draw_chart(
    curves: Sequence[Curve],
    axis: X,
    *,
    columns: int,
    rows: int,
    is_log: bool = False,
    flagged: Sequence[float] = (),
) -> list[Text]:
    """Draw curves with axes; ``×`` are values that are not finite, ``▲`` the flagged positions."""
    if is_log:
        with np.errstate(divide="ignore", invalid="ignore"):
            curves = [replace(curve, values=np.log10(curve.values)) for curve in curves]
    values = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in curves])
    positions = np.concatenate([curve.x for curve in curves])
    if not positions.size or columns < _SMALLEST[0] or rows < _SMALLEST[1]:
        return [Text("no points yet", "dim")] if columns > 0 < rows else []
    left, right = _apart(float(positions.min()), float(positions.max()))
    low, high = _apart(*((values.min(), values.max()) if values.size else (0.0, 0.0)))
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # to that of the process's own terminal
    plotext.plotsize(columns, rows)
    plotext.ticks_color(_AXES)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    for curve in curves:
        _draw_curve(curve, columns)
        _scatter(curve.x[~np.isfinite(curve.values)], high, "×", _BAD)
    _scatter(np.array([at for at in flagged if left <= at <= right]), low, "▲", _FLAG)
    plotext.xlim(left, right)
    plotext.ylim(low, high)
    ticks = _ticks(left, right, max(columns // 18, 2))
    plotext.xticks(ticks, [position_text(at, axis) for at in ticks])
    ticks = _log_ticks(low, high) if is_log else _ticks(low, high, max(rows // 4, 2))
    plotext.yticks(ticks, [_tick_text(10**at if is_log else at) for at in ticks])
    return list(Text.from_ansi(plotext.build(), no_wrap=True).split("\n"))[:rows]


def title(curves: Sequence[Curve], axis: X, view: View, columns: int) -> Text:
    """The names of the curves in their colours, the newest value, and what differs from usual."""
    line = Text(no_wrap=True)
    newest = next(one for one in curves if one.colour == (_RAW if view.smoothing else _MAIN))
    for curve in reversed(curves):
        if curve.colour == _RAW:
            continue
        line.append(f"{curve.mark or '━━'} ", f"color({curve.colour})").append(clip(curve.name, 30))
        if curve.colour == _MAIN and newest.values.size:
            line.append(f" {short_number(newest.values[-1])}", "strong")
        line.append("  ")
    modes = [
        "log" if view.is_log else "",
        f"smooth {view.smoothing:g}" if view.smoothing else "",
        f"x {axis}" if axis != "step" else "",
    ]
    line.append("  ".join(filter(None, modes)), "accent")
    line.truncate(columns, overflow="ellipsis")
    return line


def position_text(at: float, axis: X) -> str:
    """A position on the x axis: a step, an epoch, tokens, a time of day, or a duration."""
    if axis == "wall":
        try:
            return datetime.fromtimestamp(at).strftime("%H:%M:%S")
        except (OverflowError, ValueError, OSError):
            return "?"
    if axis == "relative":
        return format_duration(at)
    return _tick_text(at)


def _draw_curve(curve: Curve, columns: int) -> None:
    """Draw one curve; of a long one every column shows its smallest and its largest value."""
    cut = buckets(curve.x, curve.values, pixels=2 * columns)
    if cut.raw:
        x, y = cut.first_step.astype(np.float64), cut.first
    else:
        x = np.repeat(cut.first_step.astype(np.float64), 4)
        y = np.stack([cut.first, cut.min, cut.max, cut.last], axis=1).reshape(-1)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    if curve.mark or y.size == 1:
        _scatter(x, y, curve.mark or "◆", curve.colour)
    elif y.size:
        plotext.plot(x.tolist(), y.tolist(), marker="braille", color=curve.colour)


def _scatter(x: Floats, y: float | Floats, mark: str, colour: int) -> None:
    if x.size:
        heights = np.broadcast_to(y, x.size).tolist()
        plotext.scatter(x.tolist(), heights, marker=mark, color=colour)


def _apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, some way apart where all points are at one position."""
    room = 0.0 if low < high else abs(low) / 10 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float, most: int) -> list[float]:
    """At most about so many round values between two ends."""
    about = (high - low) / most
    power = 10.0 ** math.floor(math.log10(about))
    step = next(factor * power for factor in _ROUND if factor * power >= about * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Logarithms of powers of ten, and where these are few of 2 and 5 times as much."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    factors = (1, 2, 5) if len(powers) <= 3 else (1,)
    places = [n + math.log10(f) for n in powers[:: -(-len(powers) // 8)] for f in factors]
    return [place for place in places if low <= place <= high] or [low, high]


def _tick_text(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e5 else format_count(value)


def _series(run: RunView, metric: Metric) -> Series:
    return run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)


def _points(series: Series) -> tuple[Floats, Floats]:
    return series.at.astype(np.float64), series.floats


def _curve(series: Series, name: str, colour: int, smoothing: float = 0.0) -> Curve:
    x, values = _points(series)
    return Curve(name, x, Smoothing("ema", smoothing).apply(values, x), colour)


def _same_metric(run: RunView, metric: Metric) -> Metric | None:
    """The metric of another run that means the same: by name and axis, else by role."""
    for other in run.metrics():
        if (other.name, other.axis) == (metric.name, metric.axis) and other.ranks:
            return other
    same = None if metric.role is None else run.role(metric.role)
    return same if same is not None and same.ranks else None
