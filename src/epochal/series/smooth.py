"""Smoothed copies of a series, for charts: each is computed over every point.

Points that are not finite keep their place and value, and count for nothing elsewhere.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.errors import UsageError

Values = NDArray[np.float64]
SmoothingKind = Literal["ema", "time-ema", "gaussian", "mean"]

_RADIUS_SIGMAS = 4
# Longer kernels are applied by a Fourier transform; shorter ones directly, which is more exact.
_MAX_KERNEL = 4096
# exp of more than this overflows; a block of an average stays well below it.
_MAX_EXPONENT = 300.0


class Smoothing(msgspec.Struct, frozen=True):
    """How a series is smoothed: a weight below 1 for ``ema`` and ``time-ema``, else points.

    In an ``ema`` a point counts ``amount`` times the one after it, as with TensorBoard's slider; in
    a ``time-ema``, ``amount`` times one that lies the median distance after it, so that a gap
    forgets what lies before it. A Gaussian is cut at four sigma. A ``mean`` is of that many points
    around each point, fewer at the ends; an even number is one more.
    """

    kind: SmoothingKind
    amount: float

    def __str__(self) -> str:
        return f"{self.kind}:{self.amount:g}"

    def apply(self, values: ArrayLike, at: ArrayLike) -> Values:
        """Smooth a whole series; ``at`` are the positions of its points, ascending."""
        smoothed = np.array(values, dtype=np.float64)
        known = np.isfinite(smoothed)
        if not known.any() or self.amount == 0:
            return smoothed
        if self.kind in ("ema", "time-ema"):
            places = np.asarray(at, dtype=np.float64)[known]
            sums, weights = _decayed(smoothed[known], self._decays(places, self._spacing(places)))
        else:
            kernel = self._kernel(smoothed.size - 1)
            filled = np.where(known, smoothed, 0.0)
            summed = _moving_sums if self.kind == "mean" else _convolved
            sums, weights = (summed(one, kernel)[known] for one in (filled, known.astype(float)))
        smoothed[known] = sums / weights
        return smoothed

    def state(self, values: ArrayLike, at: ArrayLike) -> list[float] | None:
        """What continues an average after its last point; None for kinds that look ahead.

        Sum and weight of the points so far, position of the last one, and the distance over which
        the weight counts once (0: every point counts once).
        """
        if self.kind not in ("ema", "time-ema"):
            return None
        points, places = (np.asarray(one, dtype=np.float64) for one in (values, at))
        known = np.isfinite(points)
        if not known.any():
            return [0.0, 0.0, 0.0, 0.0]
        spacing = self._spacing(places[known])
        sums, weights = _decayed(points[known], self._decays(places[known], spacing))
        return [float(sums[-1]), float(weights[-1]), float(places[known][-1]), spacing]

    def _spacing(self, at: Values) -> float:
        """The median distance between neighbours; 0 where distances do not count."""
        distances = np.diff(at)
        distances = distances[distances > 0]
        is_by_time = self.kind == "time-ema" and distances.size
        return float(np.median(distances)) if is_by_time else 0.0

    def _decays(self, at: Values, spacing: float) -> Values:
        """The logarithm of what remains of the points before each point; 0 for the first."""
        decays = np.full(at.size, math.log(self.amount))
        if spacing > 0:
            decays[1:] *= np.diff(at) / spacing
        decays[0] = 0.0
        return decays

    def _kernel(self, widest: int) -> Values:
        if self.kind == "mean":
            return np.ones(2 * min(int(self.amount) // 2, widest) + 1)
        radius = min(int(_RADIUS_SIGMAS * self.amount), widest)
        kernel: Values = np.exp(-0.5 * (np.arange(-radius, radius + 1) / self.amount) ** 2)
        return kernel


def parse_smoothing(given: str | float) -> Smoothing | None:
    """Read ``"ema:0.9"``, ``"gaussian:12"`` and so on; a number is the weight of an ``ema``.

    Returns None where it changes nothing. Raises ``UsageError``.
    """
    kind, _, text = (given if isinstance(given, str) else f"ema:{given}").partition(":")
    kinds: tuple[SmoothingKind, ...] = get_args(SmoothingKind)
    found = next((one for one in kinds if one == kind), None)
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    shown = f"smooth={str(given)[:40]!r}"
    if found is None:
        raise UsageError(f"{shown} is not known: use one of {', '.join(kinds)}, a colon, a number.")
    if found in ("ema", "time-ema") and not 0 <= amount < 1:
        raise UsageError(f"{shown}: the weight must be at least 0 and below 1.")
    if not 0 <= amount < math.inf:
        raise UsageError(f"{shown}: the number of points must be 0 or more.")
    return None if amount == 0 or (found == "mean" and amount < 2) else Smoothing(found, amount)


def _moving_sums(values: Values, window: Values) -> Values:
    """The sums in a window of ones around each point; the time does not grow with the window.

    A window ends in the block after the one that it starts in, so it is the sum of the end of one
    and the start of the other. Nothing is subtracted, so a large value stays within its windows.
    """
    size, radius = window.size, window.size // 2
    blocks = np.zeros((-(-(values.size + 2 * radius) // size), size))
    blocks.reshape(-1)[radius : radius + values.size] = values
    starts = np.cumsum(blocks, axis=1).reshape(-1)[size - 1 : size - 1 + values.size]
    ends = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1)[: values.size]
    is_block = np.arange(values.size) % size == 0
    return np.where(is_block, ends, ends + starts)


def _convolved(values: Values, kernel: Values) -> Values:
    """The sums under a symmetric kernel; points outside of the series have no weight."""
    radius, size = kernel.size // 2, values.size + kernel.size - 1
    if kernel.size <= _MAX_KERNEL:
        full = np.convolve(values, kernel)
    else:
        full = np.fft.irfft(np.fft.rfft(values, size) * np.fft.rfft(kernel, size), size)
    return full[radius : radius + values.size]


def _decayed(values: Values, decays: Values) -> tuple[Values, Values]:
    """Solve s[n] = exp(decays[n]) * s[n - 1] + values[n], and the same for ones."""
    sums, weights = np.empty(values.size), np.empty(values.size)
    bounded = np.maximum(decays, -2 * _MAX_EXPONENT)
    block = (np.cumsum(bounded) // -_MAX_EXPONENT).astype(np.int64)
    starts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), values.size]
    last_sum = last_weight = 0.0
    for start, stop in itertools.pairwise(starts):
        kept = np.exp(np.cumsum(bounded[start:stop]) - bounded[start])
        carried = kept * math.exp(bounded[start])
        sums[start:stop] = kept * np.cumsum(values[start:stop] / kept) + carried * last_sum
        weights[start:stop] = kept * np.cumsum(1 / kept) + carried * last_weight
        last_sum, last_weight = float(sums[stop - 1]), float(weights[stop - 1])
    return sums, weights
