"""Figures kept up to date value by value, in bounded memory, inside the training process."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque


class Recent:
    """The last ``size`` finite values; quantiles cost an index, a new value a binary search."""

    __slots__ = ("_by_age", "_by_value", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_age: deque[float] = deque()
        self._by_value: list[float] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def push(self, value: float) -> None:
        """Add the newest value; the oldest leaves when there are too many."""
        if len(self._by_age) == self._size:
            self._remove(self._by_age.popleft())
        self._by_age.append(value)
        insort(self._by_value, value)

    def drop_newest(self, count: int) -> None:
        """Forget the newest ``count`` values."""
        for _ in range(min(count, len(self._by_age))):
            self._remove(self._by_age.pop())

    def median(self) -> float:
        """The middle value; of an even number the mean of the two in the middle."""
        count = len(self._by_value)
        return (self._by_value[(count - 1) // 2] + self._by_value[count // 2]) / 2

    def quantile(self, share: float) -> float:
        """The value that ``share`` of the values do not exceed."""
        return self._by_value[min(int(share * len(self._by_value)), len(self._by_value) - 1)]

    def highest(self) -> float:
        """The largest value."""
        return self._by_value[-1]

    def newest(self, count: int) -> list[float]:
        """The newest ``count`` values, oldest first."""
        return list(self._by_age)[-count:]

    def _remove(self, value: float) -> None:
        del self._by_value[bisect_left(self._by_value, value)]


class SpikeBaseline:
    """Detects outliers among values such as gradient norms.

    The baseline is the mean of the first 100 values, then an average in which each new value
    weighs 0.1. It never contains the value that is compared with it. A spike enters it only at the
    height of the threshold, so that one outlier does not hide the next. A lasting change of level
    is still learned within some tens of values.
    """

    _MEAN_OF_FIRST = 100
    _WEIGHT = 0.1

    def __init__(self, factor: float = 5.0, min_samples: int = 10) -> None:
        if not factor > 1:
            raise ValueError(f"factor must be above 1, got {factor!r}")
        if min_samples < 1:
            raise ValueError(f"min_samples must be at least 1, got {min_samples}")
        self._factor = factor
        self._min_samples = min_samples
        self._count = 0
        self._baseline = 0.0

    def observe(self, value: float) -> bool:
        """Compare one value with the earlier ones, then learn it.

        A value that is not finite is always a spike and is never learned.
        """
        if not math.isfinite(value):
            return True
        threshold = self._factor * self._baseline
        # A baseline of zero has no scale to measure a spike by.
        spike = self._count >= self._min_samples and 0 < threshold < value
        self._learn(threshold if spike else value)
        return spike

    def _learn(self, value: float) -> None:
        self._count += 1
        weight = 1 / self._count if self._count <= self._MEAN_OF_FIRST else self._WEIGHT
        # Weighed apart rather than as a difference, which could overflow.
        self._baseline = self._baseline * (1 - weight) + value * weight


class LossTrend:
    r"""The mark of a step line: ``\`` falling, ``/`` rising, blank when flat or unknown.

    A fast moving average is compared with a slow one, both debiased. The mark appears when they
    differ by more than 0.01 % of the loss, and by more than twice the difference that noise alone
    causes. The noise comes from the distance between neighbouring losses, which a trend hardly
    changes. With the weights 0.05 and 0.01 the mark describes about the last hundred values. On
    noise without a trend about one mark in twenty is wrong. Two faster averages, with weights of
    0.5 and 0.2, remove the mark a few values after the loss has turned.
    """

    _FAST = 0.05
    _SLOW = 0.01
    _NEWEST = 0.5
    _RECENT = 0.2
    _RELATIVE_BAND = 1e-4
    _NOISE_BAND = 2.0
    # Mean distance of two draws from one normal distribution is 2/sqrt(pi) standard deviations.
    _DEVIATION_PER_DISTANCE = math.sqrt(math.pi) / 2

    def __init__(self) -> None:
        self._previous: float | None = None
        self._fast = _MovingAverage(self._FAST)
        self._slow = _MovingAverage(self._SLOW)
        self._newest = _MovingAverage(self._NEWEST)
        self._recent = _MovingAverage(self._RECENT)
        self._distance = _MovingAverage(self._SLOW)

    def observe(self, loss: float) -> str:
        """Take in one loss and return the mark; one that is not finite changes nothing."""
        distance = 0.0 if self._previous is None else abs(loss - self._previous)
        if math.isfinite(distance) and math.isfinite(loss):
            if self._previous is not None:
                self._distance.push(distance)
            for average in (self._fast, self._slow, self._newest, self._recent):
                average.push(loss)
            self._previous = loss
        return self._mark()

    def _mark(self) -> str:
        if self._distance.count == 0:
            return " "
        trend = self._direction(self._fast, self._slow)
        if trend == 0 or trend == -self._direction(self._newest, self._recent):
            return " "
        return "/" if trend > 0 else "\\"

    def _direction(self, newer: _MovingAverage, older: _MovingAverage) -> int:
        """1 where the newer average lies above the older one beyond noise, -1 below, else 0."""
        noise = self._distance.value() * self._DEVIATION_PER_DISTANCE * _noise_gain(newer, older)
        band = max(self._RELATIVE_BAND * abs(older.value()), self._NOISE_BAND * noise)
        change = newer.value() - older.value()
        return 0 if abs(change) <= band else 1 if change > 0 else -1


class _MovingAverage:
    """An exponential moving average divided by the weight gathered so far."""

    __slots__ = ("_keep", "_left", "_sum", "_weight", "count")

    def __init__(self, weight: float) -> None:
        self.count = 0
        self._weight = weight
        self._keep = 1 - weight
        self._sum = 0.0
        self._left = 1.0  # the weight not gathered yet

    def push(self, value: float) -> None:
        self.count += 1
        self._sum = self._sum * self._keep + value * self._weight
        self._left *= self._keep

    def value(self) -> float:
        return self._sum / (1 - self._left)

    def overlap(self, other: _MovingAverage) -> float:
        """Return the sum over all values of this average's weight times the other's.

        Both have seen the same values.
        """
        shared = (1 - self._left * other._left) / (1 - self._keep * other._keep)
        gathered = (1 - self._left) * (1 - other._left)
        return self._weight * other._weight * shared / gathered


def _noise_gain(one: _MovingAverage, other: _MovingAverage) -> float:
    # Standard deviation of the difference for unit white noise: each average is a weighted sum of
    # the same values, so its square is the sum of the squared differences of the weights.
    square = one.overlap(one) + other.overlap(other) - 2 * one.overlap(other)
    return math.sqrt(max(square, 0.0))
