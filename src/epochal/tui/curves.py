"""Series as charts show them: put along an axis, smoothed, with evaluations and other runs."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from epochal.series.series import Series, X
from epochal.series.smooth import ema
from epochal.store.answers import Metric
from epochal.store.store import RunView
from epochal.tui.chart import Curve

Floats = NDArray[np.float64]


class Curves:
    """Makes curves, and remembers what was smoothed for as long as its series lives."""

    def __init__(self) -> None:
        self._smoothed: WeakKeyDictionary[Series, tuple[float, Floats]] = WeakKeyDictionary()

    def of(
        self,
        run: RunView,
        metric: Metric,
        *,
        compared: Sequence[tuple[RunView, str]] = (),
        x: X = "step",
        smoothing: float = 0.0,
    ) -> tuple[list[Curve], X]:
        """What a chart of a metric shows, the foremost first, and what its x axis turned out to be.

        ``compared`` are runs to compare with, each with the style of its curve; those that do not
        have the metric on that axis are left out.
        """
        main = _series(run, metric)
        x = metric.x or x if x == "step" else x
        moved = main.reindex(x, run)
        curves = [self._curve(main, moved, metric.name, "curve", smoothing)]
        evaluated = _metric_of_role(run, "eval_loss") if metric.role == "loss" else None
        if evaluated is not None:
            points = _series(run, evaluated).reindex(x, run)
            if points.x == moved.x:
                curves.insert(0, _raw(points, evaluated.name, "eval", shape="points"))
        for other, style in compared:
            same = None if other is run else _same_metric(other, metric)
            if same is None:
                continue
            theirs = _series(other, same)
            compared_to = theirs.reindex(x, other)
            if compared_to.x == moved.x:
                name = other.info.name
                curves.append(self._curve(theirs, compared_to, name, style, smoothing))
        if smoothing:
            curves.append(_raw(moved, metric.name, "raw"))
        return curves, moved.x

    def _curve(
        self, series: Series, moved: Series, name: str, style: str, smoothing: float
    ) -> Curve:
        """A curve of ``moved``, which is ``series`` along the axis of the chart."""
        if not smoothing:
            return _raw(moved, name, style)
        weight, values = self._smoothed.get(series, (0.0, moved.floats))
        if weight != smoothing or values.size != len(moved):
            values = ema(moved.floats, smoothing)
            self._smoothed[series] = (smoothing, values)
        return Curve(name, moved.at, values, style)


def _series(run: RunView, metric: Metric) -> Series:
    return run.series(metric.name, rank=metric.ranks[0], axis=metric.axis)


def _raw(series: Series, name: str, style: str, *, shape: str = "line") -> Curve:
    return Curve(name, series.at, series.floats, style, "points" if shape == "points" else "line")


def _metric_of_role(run: RunView, role: str) -> Metric | None:
    found = run.role(role)
    return found if found is not None and found.ranks else None


def _same_metric(run: RunView, metric: Metric) -> Metric | None:
    """The metric of another run that means the same: by name and axis, else by role."""
    for other in run.metrics():
        if (other.name, other.axis) == (metric.name, metric.axis) and other.ranks:
            return other
    return None if metric.role is None else _metric_of_role(run, metric.role)
