"""A series in one line: how many points, first and last, extremes and mean."""

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.series.trend import Goal


class Summary(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a series amounts to.

    `first` and `last` are the points as they are, nan and infinity included; `min`, `max` and
    `mean` are over the finite ones. What there is nothing to say about is None.
    """

    count: int
    nonfinite: int
    first: float | None
    last: float | None
    last_step: int | float | None
    min: float | None
    min_step: int | float | None
    max: float | None
    max_step: int | float | None
    mean: float | None

    def best(self, goal: Goal) -> tuple[float | None, float] | None:
        """Return step and value of the best finite point, the first of equals; None without one.

        A value that was set and not logged has no step.
        """
        if goal not in ("min", "max"):
            raise ValueError(f"goal must be 'min' or 'max', got {goal!r}")
        step, value = (self.min_step, self.min) if goal == "min" else (self.max_step, self.max)
        return None if value is None else (step, value)


def set_summary(value: float) -> Summary:
    """Summarise one value that a program set itself; no point of it was logged."""
    known = value if math.isfinite(value) else None
    return Summary(0, 0, None, value, None, known, None, known, None, known)


def summarise(steps: ArrayLike, values: ArrayLike) -> Summary:
    """Summarise one series given in the order of its points; steps keep their own number type."""
    points, at = np.asarray(values, dtype=np.float64), np.asarray(steps)
    assert points.ndim == 1
    assert at.shape == points.shape
    finite = np.isfinite(points)
    known, known_at = points[finite], at[finite]
    _, first = _point(at, points, 0)
    last_step, last = _point(at, points, -1)
    min_step, lowest = _point(known_at, known, int(known.argmin()) if known.size else 0)
    max_step, highest = _point(known_at, known, int(known.argmax()) if known.size else 0)
    return Summary(
        count=points.size,
        nonfinite=points.size - known.size,
        first=first,
        last=last,
        last_step=last_step,
        min=lowest,
        min_step=min_step,
        max=highest,
        max_step=max_step,
        mean=_mean(known),
    )


def summarise_rows(steps: ArrayLike, rows: NDArray[np.float64]) -> list[Summary]:
    """Summarise many series over the same steps, each a row of values; as ``summarise`` does."""
    at = np.asarray(steps)
    if not rows.shape[1] or not np.isfinite(rows).all():
        return [summarise(at, row) for row in rows]
    lowest, highest = rows.argmin(axis=1), rows.argmax(axis=1)
    which = np.arange(len(rows))
    with np.errstate(over="ignore"):
        means = rows.mean(axis=1)
    if not np.isfinite(means).all():
        return [summarise(at, row) for row in rows]
    count, last_step = rows.shape[1], at[-1].item()
    columns = (
        rows[:, 0].tolist(),
        rows[:, -1].tolist(),
        rows[which, lowest].tolist(),
        at[lowest].tolist(),
        rows[which, highest].tolist(),
        at[highest].tolist(),
        means.tolist(),
    )
    return [
        Summary(count, 0, first, last, last_step, low, low_at, high, high_at, mean)
        for first, last, low, low_at, high, high_at, mean in zip(*columns, strict=True)
    ]


def _point(
    steps: NDArray[Any], values: NDArray[np.float64], index: int
) -> tuple[float | None, float | None]:
    if values.size == 0:
        return None, None
    return steps[index].item(), values[index].item()


def _mean(values: NDArray[np.float64]) -> float | None:
    if values.size == 0:
        return None
    with np.errstate(over="ignore"):
        mean = float(values.mean())
    # Dividing first cannot overflow, but rounds every term.
    return mean if np.isfinite(mean) else float((values / values.size).sum())
