"""The recent past of a figure at several paces: every point, every eighth, every sixty-fourth."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

Point = tuple[int, float]  # step, value
PACES = (1, 8, 64)


class StridedPast:
    """The last ``length`` points at each pace, in little memory however long the run is."""

    __slots__ = ("_count", "_length", "_pasts")

    def __init__(self, length: int) -> None:
        self._length = length
        self._count = 0
        self._pasts: tuple[deque[Point], ...] = tuple(deque(maxlen=length) for _ in PACES)

    def push(self, step: int, value: float) -> Iterator[tuple[int, Sequence[Point]]]:
        """Take in a point; gives each pace whose past it ends and completes."""
        for pace, past in zip(PACES, self._pasts, strict=True):
            if self._count % pace == 0:
                past.append((step, value))
                if len(past) == self._length:
                    yield pace, past
        self._count += 1

    def forget_from(self, step: int) -> None:
        """Forget the points from ``step`` on."""
        for past in self._pasts:
            while past and past[-1][0] >= step:
                past.pop()
