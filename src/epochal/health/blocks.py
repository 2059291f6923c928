"""A whole run's curve in bounded memory: medians of blocks of points, made coarser as it grows."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

_last = attrgetter("last")


class Block(NamedTuple):
    """Some points in a row: where they begin and end, their median and how many they are."""

    first: int
    last: int
    level: float
    size: int


class Blocks:
    """Blocks of the same number of points from the first to the last; at most ``limit`` of them.

    When there are too many, neighbours are joined two by two and later blocks are twice as long.
    A block's level is the median of its points, of joined ones the mean of the two.
    """

    def __init__(self, *, size: int, limit: int = 512) -> None:
        self.size = size
        self._limit = limit
        self._done: list[Block] = []
        self._open: list[tuple[int, float]] = []
        self._former: float | None = None  # the median, once asked for

    def __len__(self) -> int:
        return len(self._done)

    def __getitem__(self, index: int) -> Block:
        return self._done[index]

    def push(self, position: int, value: float) -> bool:
        """Add a point; True when it completed a block."""
        self._open.append((position, value))
        if len(self._open) < self.size:
            return False
        self._done.append(_block(self._open))
        self._open = []
        self._former = None
        if len(self._done) > self._limit:
            self._coarsen()
        return True

    def former_median(self) -> float:
        """The median level of all blocks except the newest two. Needs at least three blocks."""
        if self._former is None:
            levels = sorted(block.level for block in self._done[:-2])
            self._former = levels[len(levels) // 2]
        return self._former

    def all(self) -> list[Block]:
        """Every whole block, oldest first."""
        return list(self._done)

    def level_at(self, position: int) -> float | None:
        """Return the level of the first block that reaches a position; None beyond the last."""
        index = bisect_left(self._done, position, key=_last)
        return self._done[index].level if index < len(self._done) else None

    def forget_from(self, position: int) -> None:
        """Forget every block that reaches a position or beyond."""
        while self._done and self._done[-1].last >= position:
            self._done.pop()
        self._open = [point for point in self._open if point[0] < position]
        self._former = None

    def _coarsen(self) -> None:
        if len(self._done) % 2:
            # The odd one at the end goes back to the open points, as its level so many times.
            odd = self._done.pop()
            self._open = [(odd.first, odd.level)] * (odd.size - 1) + [(odd.last, odd.level)]
        pairs = zip(self._done[::2], self._done[1::2], strict=True)
        self._done = [
            Block(a.first, b.last, (a.level + b.level) / 2, a.size + b.size) for a, b in pairs
        ]
        self.size *= 2


def _block(points: list[tuple[int, float]]) -> Block:
    values = sorted(value for _, value in points)
    count = len(values)
    level = (values[(count - 1) // 2] + values[count // 2]) / 2
    return Block(points[0][0], points[-1][0], level, count)
