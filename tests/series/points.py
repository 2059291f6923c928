"""Series of points along steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from epochal.series.downsample import Buckets
from epochal.series.series import Series

Points = list[tuple[int, float]]


def points(steps: ArrayLike, values: ArrayLike) -> Series:
    at = np.asarray(steps, dtype=np.int64)
    return Series("loss", "step", 0, at, at.astype(np.float64), np.asarray(values, dtype=float))


def assert_exact(result: Buckets, series: Points) -> None:
    """Each slice has the first, last, smallest and largest of its finite points, and their mean."""
    stop = 0
    for index, count in enumerate(result.count):
        piece, stop = series[stop : stop + count], stop + count
        finite = [point for point in piece if math.isfinite(point[1])]
        assert result.raw or result.finite[index] == len(finite)
        if result.raw or not finite:
            continue
        chosen = [
            (result.first_step[index], result.first[index]),
            (result.last_step[index], result.last[index]),
            (result.min_step[index], result.min[index]),
            (result.max_step[index], result.max[index]),
        ]
        lowest, highest = min(finite, key=lambda p: p[1]), max(finite, key=lambda p: p[1])
        assert chosen == [finite[0], finite[-1], lowest, highest]
        mean = math.fsum(value / len(finite) for _, value in finite)
        assert result.mean[index] == pytest.approx(mean, rel=1e-9, abs=1e-9 * abs(highest[1]))
        assert lowest[1] <= result.mean[index] <= highest[1]
