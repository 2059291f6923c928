"""What a series amounts to in one line."""

from __future__ import annotations

import math

import msgspec

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
