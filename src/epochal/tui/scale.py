"""Axes: where a value lies on a number of dots, and which round values are written beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochal.format import format_count, format_number

_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_FEW_DECADES = 2.0
_SMALLEST_FIXED, _SMALLEST_STEP = 1e-3, 1e-6
_COUNTED_TICKS_FROM, _LARGEST_COUNTED = 1e4, 1e15
_COUNTED_FROM = 1e5
_TRIES = 4  # finer steps until two values fit


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of values from ``low`` to ``high``, which is above it; on a log scale both are
    positive."""

    low: float
    high: float
    is_log: bool = False

    def shares(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far along the range values are, from 0 to 1; beyond it they lie outside."""
        # A range as small as the smallest floats, or a value far outside, may give no number.
        with np.errstate(all="ignore"):
            if self.is_log:
                logs: NDArray[np.float64] = np.log(values)
                low, high = math.log(self.low), math.log(self.high)
                return (logs - low) / (high - low)
            # Halved before they are subtracted, so that no range is too large for a float.
            span = np.float64(self.high / 2 - self.low / 2)
            shares: NDArray[np.float64] = (values / 2 - self.low / 2) / span
            return shares

    def dots(self, values: NDArray[np.float64], size: int) -> NDArray[np.int64]:
        """The dots of values on an axis of ``size`` of them; what lies outside is on its end."""
        shares = np.nan_to_num(self.shares(values), nan=0.0, posinf=1.0, neginf=0.0)
        placed: NDArray[np.int64] = np.rint(np.clip(shares, 0, 1) * (size - 1)).astype(np.int64)
        return placed


def scale_of(low: float, high: float, *, is_log: bool = False) -> Scale:
    """The scale of values from low to high: equal ones get room around them."""
    if is_log and low > 0:
        return Scale(low / 2, high * 2, True) if low == high else Scale(low, high, True)
    if low == high:
        room = abs(low) / 10 or 1.0
        return Scale(low - room, high + room)
    return Scale(low, high)


def ticks(scale: Scale, count: int) -> list[float]:
    """About ``count`` round values inside a scale, ascending, and at least two."""
    if scale.is_log:
        decades = math.log10(scale.high) - math.log10(scale.low)
        if decades >= _FEW_DECADES:
            return _powers(scale, max(1, math.ceil(decades / max(count, 1))))
    found: list[float] = []
    for wanted in range(max(count, 1), max(count, 1) + _TRIES):
        step = _round_step((scale.high / wanted) - (scale.low / wanted))
        first = math.ceil(scale.low / step - 1e-9)
        last = math.floor(scale.high / step + 1e-9)
        found = [number * step for number in range(first, last + 1)]
        if len(found) > 1:
            break
    return found


def tick_labels(values: list[float]) -> list[str]:
    """Values of one axis in the same few characters each, exact enough to tell them apart."""
    if not values:
        return []
    largest = max(abs(value) for value in values)
    step = min((b - a for a, b in pairwise(values)), default=largest)
    if largest == 0:
        return ["0"] * len(values)
    if not _SMALLEST_FIXED <= largest < _LARGEST_COUNTED or step < _SMALLEST_STEP:
        return [_scientific(value) for value in values]
    if largest >= _COUNTED_TICKS_FROM:
        return [_counted(value, step) for value in values]
    decimals = max(0, _decimals(step))
    return [f"{value:.{decimals}f}" for value in values]


def short_number(value: float) -> str:
    """A value in few characters, whatever its size; large ones in thousands and millions."""
    is_large = math.isfinite(value) and abs(value) >= _COUNTED_FROM
    return format_count(value) if is_large else format_number(value)


def _powers(scale: Scale, every: int) -> list[float]:
    first = math.ceil(math.log10(scale.low) - 1e-9)
    last = math.floor(math.log10(scale.high) + 1e-9)
    return [10.0**power for power in range(first, last + 1, every)]


def _round_step(about: float) -> float:
    power = 10.0 ** math.floor(math.log10(about)) if about > 0 else 1.0
    return next(step * power for step in _ROUND if step * power >= about * (1 - 1e-9))


def _decimals(step: float) -> int:
    """How many decimals tell multiples of a step apart."""
    decimals = -math.floor(math.log10(step) + 1e-9)
    return decimals + (abs(round(step * 10.0**decimals) - step * 10.0**decimals) > 1e-6)


def _counted(value: float, step: float) -> str:
    """Thousands and millions with as many decimals as the step needs."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            decimals = max(0, _decimals(step / size))
            return f"{value / size:.{decimals}f}{unit}"
    return format_count(value)


def _scientific(value: float) -> str:
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
