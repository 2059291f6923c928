"""What `plateau` looks at besides the loss: gradient norms, the learning rate and its peak."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from epochal.health.blocks import Blocks
from epochal.health.observation import Observation

_BLOCK = 20  # norms of which the whole run keeps the median
_NUM_BLOCKS = 5  # in one stretch


class Signals:
    """The last ``points`` gradient norms and the learning rate."""

    def __init__(self, *, points: int) -> None:
        self.lr: float | None = None
        self.peak_lr = 0.0
        self._norms: deque[float] = deque(maxlen=points)
        self._blocks = Blocks(size=_BLOCK, limit=128)

    def observe(self, observation: Observation) -> None:
        """Process a record."""
        norm, lr = observation.roles.get("norm"), observation.roles.get("lr")
        if norm is not None and math.isfinite(norm) and norm > 0:
            self._norms.append(norm)
            if observation.step is not None:
                self._blocks.push(observation.step, norm)
        if lr is not None and math.isfinite(lr):
            self.lr = lr
            self.peak_lr = max(self.peak_lr, lr)

    def norm_change(self, points: int) -> float | None:
        """The last ``points`` norms over as many before them, by their medians."""
        if 2 * points > len(self._norms):
            return None
        norms = list(self._norms)[-2 * points :]
        return median(norms[-points:]) / median(norms[:points])

    def norm_since(self, step: int, points: int) -> float | None:
        """The last ``points`` norms over those just before a step, by their medians.

        Those before are two stretches, of which the larger counts: they may have begun to fade.
        """
        before = [block.level for block in self._blocks.all() if block.last < step]
        stretches = before[-2 * _NUM_BLOCKS : -_NUM_BLOCKS], before[-_NUM_BLOCKS:]
        medians = [median(stretch) for stretch in stretches if stretch]
        if not medians or points > len(self._norms):
            return None
        return median(list(self._norms)[-points:]) / max(medians)

    def rate_is_high(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak; true where no rate is logged."""
        return self.lr is None or self.lr >= share * self.peak_lr

    def forget(self) -> None:
        """Start again, except for the peak of the rate, which belongs to the schedule."""
        self._norms.clear()
        self._blocks = Blocks(size=_BLOCK, limit=128)
