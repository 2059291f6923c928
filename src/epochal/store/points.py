"""One metric of a run in a few points: what ``epochal series`` prints, and what agents read."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import UsageError
from epochal.records import Axis
from epochal.series.series import Series, X
from epochal.series.trend import Goal
from epochal.store.answers import Metric
from epochal.store.store import RunView

# The first, last, smallest and largest point, and the first one that is not finite.
_FEWEST = 5


class SeriesPoints(msgspec.Struct, frozen=True):
    """Points of a metric along ``x``; the others between them are left out.

    ``first``, ``last``, ``min`` and ``max`` have a position and an exact value, and are among the
    points, whose values have six digits. ``count`` counts all points, ``nonfinite`` those that are
    nan or infinite.
    """

    run: str
    metric: str
    x: str
    goal: Goal | None
    count: int
    nonfinite: int
    first: tuple[float, float] | None
    last: tuple[float, float] | None
    min: tuple[float, float] | None
    max: tuple[float, float] | None
    steps: list[float]
    values: list[float]

    def rows(self) -> list[dict[str, float | str]]:
        """One mapping per point."""
        points = zip(self.steps, self.values, strict=True)
        return [{"metric": self.metric, self.x: at, "value": value} for at, value in points]


def find_metric(view: RunView, name: str, axis: Axis | None = None) -> Metric:
    """The metric that a name or a formula means, or the one of that axis; see ``resolve``.

    Raises ``MetricNotFoundError``, which suggests similar names.
    """
    found = view.metric(name)
    if found is not None and axis in (None, found.axis):
        return found
    for metric in view.metrics():
        if metric.name == name and metric.axis == axis:
            return metric
    series = view.series(name, axis=axis)  # says what there is instead, unless it is a formula
    assert found is not None
    return msgspec.structs.replace(found, axis=series.axis)


def read_series(
    view: RunView,
    name: str,
    *,
    rank: int | None = None,
    axis: Axis | None = None,
    x: X | None = None,
) -> Series:
    """The series of ``find_metric`` along ``x``, by default along the axis defined for it.

    Without a rank it is the lowest that has the metric. Raises ``MetricNotFoundError``.
    """
    metric = find_metric(view, name, axis)
    lowest = metric.ranks[0] if metric.ranks else 0
    series = view.series(metric.name, rank=lowest if rank is None else rank, axis=metric.axis)
    return series.reindex(x or metric.x or "step", view)


def series_points(view: RunView, series: Series, points: int) -> SeriesPoints:
    """At most so many points of a series, evenly spread, and its extremes."""
    if points < _FEWEST:
        raise UsageError(f"points={points} must be {_FEWEST} or more.")
    shown = series if len(series) <= points else series.select(_spread(series.values, points))
    summary = series.summary
    row = view.outline()
    return SeriesPoints(
        run=f"{row.project}/{row.name}",
        metric=series.name,
        x=series.x,
        goal=series.goal,
        count=summary.count,
        nonfinite=summary.nonfinite,
        first=_pair(series.at[0].item(), summary.first) if len(series) else None,
        last=_pair(summary.last_step, summary.last),
        min=_pair(summary.min_step, summary.min),
        max=_pair(summary.max_step, summary.max),
        steps=shown.at.tolist(),
        values=[float(f"{value:.6g}") for value in shown.values.tolist()],
    )


def _spread(values: NDArray[np.float64], points: int) -> NDArray[np.intp]:
    """The positions of points at equal distances, of both extremes and of the first that is nan."""
    finite = np.isfinite(values)
    even = np.linspace(0, len(values) - 1, points - 3).round().astype(np.intp)
    extremes = [] if not finite.any() else [np.nanargmin(np.where(finite, values, np.nan))]
    extremes += [] if not finite.any() else [np.nanargmax(np.where(finite, values, np.nan))]
    return np.unique([*even, *extremes, *np.flatnonzero(~finite)[:1]])


def _pair(at: float | None, value: float | None) -> tuple[float, float] | None:
    return None if at is None or value is None else (at, value)
