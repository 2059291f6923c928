"""The newest values in order of size, kept up to date one by one in bounded memory."""

from __future__ import annotations

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
