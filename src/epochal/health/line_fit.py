"""A straight line through evenly spaced values, with how sure its slope is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

_LARGE = 1e100  # beyond it squares and their sums leave what a float holds


class LineFit(NamedTuple):
    """The least-squares slope per point and its standard error, for independent noise."""

    slope: float
    slope_error: float


def fit_line(values: Sequence[float]) -> LineFit:
    """Fit a line through at least three values."""
    size = max(map(abs, values))
    if size > _LARGE:
        slope, error = fit_line([value / size for value in values])
        return LineFit(slope * size, error * size)
    count = len(values)
    middle = (count - 1) / 2
    mean = math.fsum(values) / count
    across = count * (count * count - 1) / 12  # the sum of squared distances from the middle
    places = [i - middle for i in range(count)]
    slope = math.fsum(map(mul, places, values)) / across
    left = math.fsum([(v - mean - slope * at) ** 2 for at, v in zip(places, values, strict=True)])
    return LineFit(slope, math.sqrt(left / (count - 2) / across))
