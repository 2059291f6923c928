"""One metric of a run in a few points: what ``epochal series`` prints, and what agents read."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError, UsageError
from epochal.series.downsample import Buckets
from epochal.series.series import Series
from epochal.series.trend import Goal
from epochal.store.store import RunView

# Each slice of a series keeps its first, smallest, largest and last point.
_PER_SLICE = 4


class SeriesPoints(msgspec.Struct, frozen=True):
    """Points of a metric along ``x``; the others between them are left out.

    ``first``, ``last``, ``min`` and ``max`` have a position and a value, and are among the points.
    ``count`` counts all points, ``nonfinite`` those that are nan or infinite.
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


def read_series(view: RunView, name: str) -> Series:
    """The series that a name means, along the axis that was defined for it; see ``resolve``.

    Raises ``MetricNotFoundError``, which suggests similar names.
    """
    metric = view.metric(name)
    if metric is None:
        view.series(name)  # says what there is instead
        raise MetricNotFoundError(f"there is no metric {name!r}.")
    rank = metric.ranks[0] if metric.ranks else 0
    series = view.series(metric.name, rank=rank, axis=metric.axis)
    return series.reindex(metric.x or "step", view)


def series_points(view: RunView, name: str, points: int) -> SeriesPoints:
    """At most so many points of a metric, its extremes among them."""
    if points < _PER_SLICE:
        raise UsageError(f"points={points} must be {_PER_SLICE} or more.")
    series = read_series(view, name)
    shown = series
    if len(series) > points:
        cut = series.buckets(points // _PER_SLICE)
        shown = series.select(_kept(cut, series.at))
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
        values=shown.values.tolist(),
    )


def _kept(cut: Buckets, at: NDArray[Any]) -> NDArray[np.intp]:
    steps = (cut.first_step, cut.min_step, cut.max_step, cut.last_step)
    wanted = np.unique(np.concatenate([np.asarray(one, dtype=at.dtype) for one in steps]))
    return np.flatnonzero(np.isin(at, wanted))


def _pair(at: float | None, value: float | None) -> tuple[float, float] | None:
    return None if at is None or value is None else (at, value)
