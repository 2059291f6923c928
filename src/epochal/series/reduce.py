"""A series in one line: how many points, first and last, extremes and mean."""

import math

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
    first: float | None = None
    last: float | None = None
    last_step: int | float | None = None
    min: float | None = None
    min_step: int | float | None = None
    max: float | None = None
    max_step: int | float | None = None
    mean: float | None = None

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
    return Summary(0, 0, last=value, min=known, max=known, mean=known)


def summarise(steps: ArrayLike, values: ArrayLike) -> Summary:
    """Summarise one series given in the order of its points; steps keep their own number type."""
    points, at = np.asarray(values, dtype=np.float64), np.asarray(steps)
    assert at.shape == points.shape
    if not points.size:
        return Summary(0, 0)
    finite = np.isfinite(points)
    known, known_at = points[finite], at[finite]
    ends = (points[0].item(), points[-1].item(), at[-1].item())
    if not known.size:
        return Summary(points.size, points.size, *ends)
    low, high = known.argmin(), known.argmax()
    lowest = (known[low].item(), known_at[low].item())
    highest = (known[high].item(), known_at[high].item())
    with np.errstate(over="ignore"):
        mean = float(known.mean())
    # Dividing first cannot overflow, but rounds every term.
    mean = mean if math.isfinite(mean) else float((known / known.size).sum())
    return Summary(points.size, points.size - known.size, *ends, *lowest, *highest, mean)


def summarise_rows(steps: ArrayLike, rows: NDArray[np.float64]) -> list[Summary]:
    """Summarise many series over the same steps, each a row of values; as ``summarise`` does."""
    at = np.asarray(steps)
    with np.errstate(over="ignore", invalid="ignore"):
        means = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), np.nan)
    # A value that is not finite makes the mean so; a sum that overflows does too.
    if not np.isfinite(means).all():
        return [summarise(at, row) for row in rows]
    low, high, which = rows.argmin(axis=1), rows.argmax(axis=1), np.arange(len(rows))
    columns = (rows[which, low], at[low], rows[which, high], at[high], means)
    count, last_step = rows.shape[1], at[-1].item()
    return [
        Summary(count, 0, first, last, last_step, *rest)
        for first, last, *rest in zip(
            rows[:, 0].tolist(), rows[:, -1].tolist(), *(c.tolist() for c in columns), strict=True
        )
    ]
