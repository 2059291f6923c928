"""Smoothed copies of a series, for charts.

Points that are not finite keep their place and value, and count for nothing elsewhere.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]

_BLOCK = 64
_RADIUS_SIGMAS = 4.0  # what is cut off weighs about 1e-4
# Beyond it the Fourier transform is cheaper, with an error of about 1e-16 of the largest value.
_LONGEST_DIRECT_KERNEL = 513


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


def gaussian(values: ArrayLike, sigma: float) -> Values:
    """Return the series averaged under a Gaussian of `sigma` points, cut at four sigma.

    The weights are divided by what they gather, so edges and gaps are not pulled towards zero.
    `sigma` must be finite and at least 0, which leaves the series as it is.
    """
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be a finite number of at least 0, got {sigma!r}")
    smoothed = _series(values)
    if sigma == 0 or smoothed.size == 0:
        return smoothed
    radius = min(int(_RADIUS_SIGMAS * sigma), smoothed.size - 1)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    finite = np.isfinite(smoothed)
    sums = _convolve(np.where(finite, smoothed, 0.0), kernel)
    gathered = _convolve(finite.astype(np.float64), kernel)
    smoothed[finite] = sums[finite] / gathered[finite]
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


def _convolve(values: Values, kernel: Values) -> Values:
    radius = kernel.size // 2
    if kernel.size <= _LONGEST_DIRECT_KERNEL:
        full = np.convolve(values, kernel)
    else:
        size = 1 << (values.size + kernel.size - 2).bit_length()
        full = np.fft.irfft(np.fft.rfft(values, size) * np.fft.rfft(kernel, size), size)
    return full[radius : radius + values.size]
