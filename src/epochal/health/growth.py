"""Whether a value grows steadily, measured by its minimum between collections."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from epochal.health.thresholds import RuleThresholds


class GrowthThresholds(RuleThresholds):
    """What counts as steady growth of a memory."""

    blocks: int = 6
    # The floor must rise by several times what it swings within a block.
    swing: float = 2.0
    # Growth that comes in jumps gains little in some blocks.
    steady: float = 0.25
    # Caches that fill up do so ever more slowly.
    lasting: float = 0.6
    # Imports, first batches and compilation take memory that stays.
    skip_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A steady rise from the floor of one block to that of another, at their Unix seconds."""

    since: float
    until: float
    before: float
    after: float

    @property
    def rise(self) -> float:
        """How much the floor rose."""
        return self.after - self.before

    @property
    def per_second(self) -> float:
        """The rise in a second."""
        return self.rise / max(self.until - self.since, 1e-9)


class GrowthWatch:
    """The last samples of one figure, in blocks; growth is a floor that rises in every block.

    ``swing``: by how many times its swing within a block it must rise overall. ``steady``: the
    share of the mean rise that the least block must have. ``lasting``: how much of its first pace
    it must have at the end; what fills up has less.
    """

    def __init__(
        self, *, window: int, blocks: int, swing: float, steady: float, lasting: float
    ) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=window)
        self._blocks = blocks
        self._swing = swing
        self._steady = steady
        self._lasting = lasting

    def push(self, t: float, value: float) -> None:
        """Take in one sample."""
        self._samples.append((t, value))

    def clear(self) -> None:
        """Forget every sample."""
        self._samples.clear()

    @property
    def is_full(self) -> bool:
        """Whether a window's worth of samples is there."""
        return len(self._samples) == self._samples.maxlen

    def growth(self) -> Growth | None:
        """The steady rise over the window; None where there is none, or not yet samples enough."""
        if not self.is_full:
            return None
        samples = list(self._samples)
        size = len(samples) // self._blocks
        blocks = [
            [value for _, value in samples[start : start + size]]
            for start in range(0, size * self._blocks, size)
        ]
        floors = [min(block) for block in blocks]
        rise = floors[-1] - floors[0]
        if rise <= self._swing * _swing_within(blocks, floors) or not self._goes_on(floors):
            return None
        until = samples[size * (self._blocks - 1)][0]
        return Growth(samples[0][0], until, floors[0], floors[-1])

    def _goes_on(self, floors: Sequence[float]) -> bool:
        rises = [after - before for before, after in pairwise(floors)]
        half = len(rises) // 2
        least = self._steady * sum(rises) / len(rises)
        return min(rises) > least and sum(rises[-half:]) >= self._lasting * sum(rises[:half])


def _swing_within(blocks: Sequence[Sequence[float]], floors: Sequence[float]) -> float:
    """How far values are above the minimum of their block, corrected for the rise itself."""
    climb = (floors[-1] - floors[0]) / max(len(floors) - 1, 1)
    swings = [max(block) - low for block, low in zip(blocks, floors, strict=True)]
    return max(median(swings) - climb, 0.0)
