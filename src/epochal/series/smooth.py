"""Smoothed copies of a series, for charts: each is computed over every point.

Points that are not finite keep their place and value, and count for nothing elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.errors import UsageError

Values = NDArray[np.float64]
SmoothingKind = Literal["ema", "time-ema", "gaussian", "mean"]

_BLOCK = 64
_RADIUS_SIGMAS = 4
# Longer kernels are applied by a Fourier transform; shorter ones directly, which is more exact.
_MAX_KERNEL = 4096
# exp of more than this overflows; a block of a time-weighted average stays well below it.
_MAX_EXPONENT = 300.0


class Smoothing(msgspec.Struct, frozen=True):
    """How a series is smoothed: a weight below 1 for ``ema`` and ``time-ema``, else points."""

    kind: SmoothingKind
    amount: float

    def __str__(self) -> str:
        return f"{self.kind}:{self.amount:g}"

    def apply(self, values: ArrayLike, at: ArrayLike) -> Values:
        """Smooth a whole series; ``at`` are the positions of its points, ascending."""
        if self.kind == "ema":
            return ema(values, self.amount)
        if self.kind == "time-ema":
            return time_ema(values, at, self.amount)
        if self.kind == "gaussian":
            return gaussian(values, self.amount)
        return mean(values, int(self.amount))

    def state(self, values: ArrayLike, at: ArrayLike) -> list[float] | None:
        """What continues an average after its last point; None for kinds that look ahead.

        Sum and weight of the points so far, position of the last one, and the distance over which
        the weight counts once (0: every point counts once).
        """
        if self.kind not in ("ema", "time-ema"):
            return None
        points, places = _series(values), np.asarray(at, dtype=np.float64)
        finite = np.isfinite(points)
        known, known_at = points[finite], places[finite]
        spacing = _spacing(known_at) if self.kind == "time-ema" else 0.0
        decays = _decays(known_at, spacing, self.amount)
        sums, weights = _decayed(known, decays)
        if not known.size:
            return [0.0, 0.0, 0.0, spacing]
        return [float(sums[-1]), float(weights[-1]), float(known_at[-1]), spacing]


def parse_smoothing(given: str | float) -> Smoothing | None:
    """Read ``"ema:0.9"``, ``"gaussian:12"`` and so on; a number is the weight of an ``ema``.

    Returns None where it changes nothing. Raises ``UsageError``.
    """
    kind, _, text = str(given).partition(":") if isinstance(given, str) else ("ema", "", str(given))
    kinds: tuple[SmoothingKind, ...] = get_args(SmoothingKind)
    found = next((one for one in kinds if one == kind), None)
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if found is None:
        raise UsageError(
            f"smooth={str(given)[:40]!r} is not known: use one of {', '.join(kinds)},"
            " a colon and a number."
        )
    if found in ("ema", "time-ema") and not 0 <= amount < 1:
        raise UsageError(f"smooth={str(given)[:40]!r}: the weight must be at least 0 and below 1.")
    if not (math.isfinite(amount) and amount >= 0):
        raise UsageError(f"smooth={str(given)[:40]!r}: the number of points must be 0 or more.")
    if amount == 0 or (found == "mean" and amount < 2):
        return None
    return Smoothing(found, amount)


def ema(values: ArrayLike, weight: float) -> Values:
    """Return the debiased moving average in which a point counts `weight` times the one after it.

    `weight` is that of TensorBoard's slider: 0 leaves the series as it is, values towards 1 smooth
    more. It must be at least 0 and below 1.
    """
    _check_weight(weight)
    smoothed = _series(values)
    if weight == 0:
        return smoothed
    finite = np.isfinite(smoothed)
    sums = _recurrence(smoothed[finite] * (1 - weight), keep=weight)
    # expm1 keeps the digits of 1 - weight**n where the weight is close to 1.
    gathered = -np.expm1(np.arange(1, sums.size + 1) * math.log(weight))
    smoothed[finite] = sums / gathered
    return smoothed


def time_ema(values: ArrayLike, at: ArrayLike, weight: float) -> Values:
    """Return the moving average whose weight decays with the distance between points.

    A point counts `weight` times one that lies the median distance after it. Where points are
    equally far apart this is `ema`; a gap forgets what lies before it.
    """
    _check_weight(weight)
    smoothed, places = _series(values), np.asarray(at, dtype=np.float64)
    if weight == 0:
        return smoothed
    finite = np.isfinite(smoothed)
    known_at = places[finite]
    sums, weights = _decayed(smoothed[finite], _decays(known_at, _spacing(known_at), weight))
    smoothed[finite] = sums / weights
    return smoothed


def gaussian(values: ArrayLike, sigma: float) -> Values:
    """Return the average under a Gaussian of `sigma` points, cut at four sigma."""
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ValueError(f"sigma must be finite and at least 0, got {sigma!r}")
    smoothed = _series(values)
    radius = min(int(_RADIUS_SIGMAS * sigma), max(smoothed.size - 1, 0))
    if radius == 0:
        return smoothed
    return _weighted(smoothed, np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2))


def mean(values: ArrayLike, window: int) -> Values:
    """Return the average of the `window` points around each point, fewer at the ends.

    An even window is one wider, so that the point is in its middle.
    """
    if window < 0:
        raise ValueError(f"window must be at least 0, got {window!r}")
    smoothed = _series(values)
    radius = min(window // 2, max(smoothed.size - 1, 0))
    return _weighted(smoothed, np.ones(2 * radius + 1)) if radius else smoothed


def _check_weight(weight: float) -> None:
    if not 0 <= weight < 1:
        raise ValueError(f"weight must be at least 0 and below 1, got {weight!r}")


def _series(values: ArrayLike) -> Values:
    series = np.array(values, dtype=np.float64)
    if series.ndim != 1:
        raise ValueError(f"values must be one-dimensional, got {series.ndim} dimensions")
    return series


def _weighted(values: Values, kernel: Values) -> Values:
    """Average under a symmetric kernel; points outside the series have no weight."""
    finite = np.isfinite(values)
    sums = _convolved(np.where(finite, values, 0.0), kernel)
    weights = _convolved(finite.astype(np.float64), kernel)
    smoothed = values.copy()
    smoothed[finite] = sums[finite] / weights[finite]
    return smoothed


def _convolved(values: Values, kernel: Values) -> Values:
    radius = kernel.size // 2
    if kernel.size <= _MAX_KERNEL:
        return np.convolve(values, kernel)[radius : radius + values.size]
    size = values.size + kernel.size - 1
    spectrum = np.fft.rfft(values, size) * np.fft.rfft(kernel, size)
    whole: Values = np.fft.irfft(spectrum, size)
    return whole[radius : radius + values.size]


def _spacing(at: Values) -> float:
    """The median distance between neighbours; 0 where all are at one place."""
    distances = np.diff(at)
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 0.0


def _decays(at: Values, spacing: float, weight: float) -> Values:
    """The logarithm of what remains of the points before each point; 0 for the first."""
    decays = np.full(at.size, math.log(weight))
    if spacing > 0:
        decays[1:] *= np.diff(at) / spacing
    decays[:1] = 0.0
    return decays


def _decayed(values: Values, decays: Values) -> tuple[Values, Values]:
    """Solve s[n] = exp(decays[n]) * s[n - 1] + values[n], and the same for ones."""
    sums, weights = np.empty(values.size), np.empty(values.size)
    bounded = np.maximum(decays, -2 * _MAX_EXPONENT)
    block = (np.cumsum(bounded) // -_MAX_EXPONENT).astype(np.int64)
    starts: Sequence[int] = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), values.size]
    last_sum = last_weight = 0.0
    for start, stop in itertools.pairwise(starts):
        if start == stop:
            continue
        reach = np.cumsum(bounded[start:stop]) - bounded[start]
        kept = np.exp(reach)
        carried = kept * math.exp(bounded[start])
        sums[start:stop] = kept * np.cumsum(values[start:stop] / kept) + carried * last_sum
        weights[start:stop] = kept * np.cumsum(1 / kept) + carried * last_weight
        last_sum, last_weight = float(sums[stop - 1]), float(weights[stop - 1])
    return sums, weights


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
