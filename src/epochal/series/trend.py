"""Trends of one series, for use inside the training loop, and how far an evaluation is overfit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, get_args

Goal = Literal["min", "max"]


class Trend:
    """One metric's history, one point per epoch (or whatever each point stands for).

    Points that are not finite keep their place in `values` and take no part in the arithmetic. A
    question that the points cannot answer gives nan or False: never 0.0, which reads as a
    measurement. `window` always means the last so many points, 0 all of them.

    Args:
        values: The points so far.
        goal: ``min`` or ``max``: which way is better.
    """

    def __init__(self, values: Iterable[float] = (), *, goal: Goal = "min") -> None:
        if goal not in get_args(Goal):
            raise ValueError(f"goal must be 'min' or 'max', got {goal!r}")
        self.goal = goal
        self._values = [float(value) for value in values]

    def append(self, value: float) -> None:
        """Add the newest point.

        Args:
            value: The value.
        """
        self._values.append(float(value))

    def values(self) -> list[float]:
        """Return every point, oldest first."""
        return list(self._values)

    def last(self, count: int) -> list[float]:
        """Return the newest `count` points, or all if there are fewer, oldest first."""
        if count < 0:
            raise ValueError(f"count must be at least 0, got {count}")
        return self._values[-count:] if count else []

    def latest(self) -> float:
        """Return the newest point as it is; nan without one."""
        return self._values[-1] if self._values else math.nan

    def mean(self) -> float:
        """Return the mean of the finite points; nan without one."""
        return _mean([value for _, value in self._finite(0)])

    def min(self) -> float:
        """Return the smallest finite point; nan without one."""
        return min((value for _, value in self._finite(0)), default=math.nan)

    def max(self) -> float:
        """Return the largest finite point; nan without one."""
        return max((value for _, value in self._finite(0)), default=math.nan)

    def best(self) -> tuple[int, float] | None:
        """Return index and value of the best finite point by `goal`, the first of equals."""
        choose = min if self.goal == "min" else max
        return choose(self._finite(0), key=lambda point: point[1], default=None)

    def slope(self, window: int = 0) -> float:
        """Return the least-squares slope per point; nan with fewer than two finite points.

        Args:
            window: How many of the last points count; 0 for all.
        """
        return _slope(self._finite(window))

    def improving(self, window: int = 0) -> bool:
        """Return whether the slope points towards the goal.

        Args:
            window: How many of the last points count; 0 for all.
        """
        slope = self.slope(window)
        return slope < 0 if self.goal == "min" else slope > 0

    def stalled(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether the slope is below `tol` per point, in absolute value.

        With `relative`, `tol` is a share of the window's mean. False while there are fewer points
        than `window`, or fewer than two finite ones.
        """
        return self._settled(window, tol, _slope, relative=relative)

    def converged(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether the population variance is below `tol`.

        With `relative`, it is the standard deviation as a share of the mean that must be below.
        False while there are fewer points than `window`, or fewer than two finite ones.
        """
        return self._settled(window, tol, _deviation if relative else _variance, relative=relative)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Trend({len(self)} points, latest {self.latest()!r}, goal={self.goal!r})"

    def _finite(self, window: int) -> list[tuple[int, float]]:
        if window < 0:
            raise ValueError(f"window must be at least 0, got {window}")
        start = max(len(self._values) - window, 0) if window else 0
        points = enumerate(self._values[start:], start)
        return [(index, value) for index, value in points if math.isfinite(value)]

    def _settled(
        self,
        window: int,
        tol: float,
        measure: Callable[[list[tuple[int, float]]], float],
        *,
        relative: bool,
    ) -> bool:
        if not tol >= 0:
            raise ValueError(f"tol must be a number of at least 0, got {tol!r}")
        points = self._finite(window)
        if len(self) < window or len(points) < 2:
            return False
        size = abs(measure(points))
        scale = abs(_mean([value for _, value in points])) if relative else 1.0
        # A window of zeros has no scale, but it does not move either.
        return size < tol * scale or (size == 0 and tol > 0)


class TrendGroup(Mapping[str, Trend]):
    """Several trends together, such as those of a model's heads: a mapping by name.

    Every answer about an empty group is False, {} or nan.

    Args:
        trends: The trends by name.
    """

    def __init__(self, trends: Mapping[str, Trend]) -> None:
        self._trends = dict(trends)

    def names(self) -> list[str]:
        """Return the names of the trends, in the order given."""
        return list(self._trends)

    def all_improving(self, window: int = 0) -> bool:
        """Return whether there are trends and every one is improving.

        Args:
            window: How many of the last points count; 0 for all.
        """
        return self._all(lambda trend: trend.improving(window))

    def any_improving(self, window: int = 0) -> bool:
        """Return whether at least one trend is improving.

        Args:
            window: How many of the last points count; 0 for all.
        """
        return self._any(lambda trend: trend.improving(window))

    def all_stalled(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether there are trends and every one is stalled.

        Args:
            window: How many of the last points count; 0 for all.
            tol: The bound, as of `Trend.stalled` and `Trend.converged`.
            relative: Take `tol` as a share of the mean.
        """
        return self._all(lambda trend: trend.stalled(window, tol, relative=relative))

    def any_stalled(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether at least one trend is stalled.

        Args:
            window: How many of the last points count; 0 for all.
            tol: The bound, as of `Trend.stalled` and `Trend.converged`.
            relative: Take `tol` as a share of the mean.
        """
        return self._any(lambda trend: trend.stalled(window, tol, relative=relative))

    def all_converged(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether there are trends and every one is converged.

        Args:
            window: How many of the last points count; 0 for all.
            tol: The bound, as of `Trend.stalled` and `Trend.converged`.
            relative: Take `tol` as a share of the mean.
        """
        return self._all(lambda trend: trend.converged(window, tol, relative=relative))

    def any_converged(self, window: int, tol: float, *, relative: bool = False) -> bool:
        """Return whether at least one trend is converged.

        Args:
            window: How many of the last points count; 0 for all.
            tol: The bound, as of `Trend.stalled` and `Trend.converged`.
            relative: Take `tol` as a share of the mean.
        """
        return self._any(lambda trend: trend.converged(window, tol, relative=relative))

    def slopes(self, window: int = 0) -> dict[str, float]:
        """Return each trend's slope by name.

        Args:
            window: How many of the last points count; 0 for all.
        """
        return {name: trend.slope(window) for name, trend in self._trends.items()}

    def mean_slope(self, window: int = 0) -> float:
        """Return the mean of the slopes that are known; nan if none is.

        Args:
            window: How many of the last points count; 0 for all.
        """
        return _mean([slope for slope in self.slopes(window).values() if math.isfinite(slope)])

    def __len__(self) -> int:
        return len(self._trends)

    def __iter__(self) -> Iterator[str]:
        return iter(self._trends)

    def __getitem__(self, name: str) -> Trend:
        return self._trends[name]

    def _all(self, holds: Callable[[Trend], bool]) -> bool:
        return bool(self._trends) and all(holds(trend) for trend in self._trends.values())

    def _any(self, holds: Callable[[Trend], bool]) -> bool:
        return any(holds(trend) for trend in self._trends.values())

    def __repr__(self) -> str:
        return f"TrendGroup({', '.join(self._trends) or 'empty'})"


def _total(terms: Iterable[float]) -> float:
    """Return the exactly rounded sum; nan where it leaves the range of a float."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return math.nan


def _mean(values: list[float]) -> float:
    return _total(values) / len(values) if values else math.nan


def _slope(points: list[tuple[int, float]]) -> float:
    count = len(points)
    if count < 2:
        return math.nan
    # Positions counted from the first point, and weights kept whole numbers, make a straight line
    # of representable values come out exactly, however long the history before the window.
    origin, base = points[0]
    sum_x = sum(index - origin for index, _ in points)
    sum_xx = sum((index - origin) ** 2 for index, _ in points)
    above = _total((count * (index - origin) - sum_x) * (value - base) for index, value in points)
    return above / (count * sum_xx - sum_x * sum_x)


def _variance(points: list[tuple[int, float]]) -> float:
    mean = _mean([value for _, value in points])
    return _total((value - mean) * (value - mean) for _, value in points) / len(points)


def _deviation(points: list[tuple[int, float]]) -> float:
    return math.sqrt(_variance(points))


Grade = Literal["good", "warn", "bad"]

# In percent of the training loss: where dashboards of this kind turn amber, and red.
WARNS_ABOVE, ALARMS_ABOVE = 10.0, 25.0


def gap_percent(evaluated: float, train: float) -> float | None:
    """By how many percent of the training loss an evaluation's is above it; None if unknown.

    Nothing can be said of a training loss of 0, or of losses that are not finite.
    """
    if train == 0 or not math.isfinite(train) or not math.isfinite(evaluated):
        return None
    percent = 100 * (evaluated - train) / abs(train)
    return percent if math.isfinite(percent) else None


def gap_grade(percent: float) -> Grade:
    """How a gap is to be taken: good, warn above 10 %, bad above 25 %."""
    return "bad" if percent > ALARMS_ABOVE else "warn" if percent > WARNS_ABOVE else "good"
