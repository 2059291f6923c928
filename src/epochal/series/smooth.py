"""Smoothed copies of a series, for charts.

Points that are not finite keep their place and value, and count for nothing elsewhere.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

_BLOCK = 64


def ema(values: ArrayLike, weight: float) -> Values:
    """Return the debiased moving average in which a point counts `weight` times the one after it.

    `weight` is that of TensorBoard's slider: 0 leaves the series as it is, values towards 1 smooth
    more. It must be at least 0 and below 1.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"weight must be at least 0 and below 1, got {weight!r}")
    smoothed = _series(values)
    if weight == 0:
        return smoothed
    finite = np.isfinite(smoothed)
    sums = _recurrence(smoothed[finite] * (1 - weight), keep=weight)
    # expm1 keeps the digits of 1 - weight**n where the weight is close to 1.
    gathered = -np.expm1(np.arange(1, sums.size + 1) * math.log(weight))
    smoothed[finite] = sums / gathered
    return smoothed


def _series(values: ArrayLike) -> Values:
    series = np.array(values, dtype=np.float64)
    if series.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got {series.ndim} dimensions")
    return series


def _recurrence(terms: Values, *, keep: float) -> Values:
    """Solve y[n] = keep * y[n - 1] + terms[n], block by block.

    Within a block the solution is a matrix product; what the blocks hand on to each other follows
    the same recurrence, 64 times shorter.
    """
    powers: Values = keep ** np.arange(_BLOCK + 1, dtype=np.float64)
    distance = np.subtract.outer(np.arange(_BLOCK), np.arange(_BLOCK))
    within = np.where(distance >= 0, powers[np.maximum(distance, 0)], 0.0)
    num_blocks = -(-terms.size // _BLOCK)
    blocks = np.zeros((num_blocks, _BLOCK))
    blocks.reshape(-1)[: terms.size] = terms
    solved: Values = blocks @ within.T
    if num_blocks > 1:
        handed_on = _recurrence(solved[:, -1], keep=float(powers[-1]))
        solved[1:] += np.outer(handed_on[:-1], powers[1:])
    return solved.reshape(-1)[: terms.size]
