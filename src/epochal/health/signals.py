"""What advice is built on: gradient norms, the rate and its peak, how long the phase has lasted."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

from epochal.health.seen import Seen

if TYPE_CHECKING:
    from epochal.health.context import Context


class Signals:
    """The last ``points`` gradient norms, the learning rate, and the phase with its age.

    Ages are in points: records that carry the loss.
    """

    def __init__(self, *, points: int) -> None:
        self.lr: float | None = None
        self.peak_lr = 0.0
        self.phase = ""
        self.phase_points = 0
        self.phase_step = 0
        self.has_converged = False
        self._norms: deque[float] = deque(maxlen=points)

    def observe(self, seen: Seen, context: Context) -> bool:
        """Take in a record; tells whether it is a point."""
        norm, lr = seen.roles.get("norm"), seen.roles.get("lr")
        if norm is not None and math.isfinite(norm) and norm > 0:
            self._norms.append(norm)
        if lr is not None and math.isfinite(lr):
            self.lr = lr
            self.peak_lr = max(self.peak_lr, lr)
        if "loss" not in seen.roles or seen.step is None:
            return False
        if context.phase != self.phase:
            self.phase, self.phase_points, self.phase_step = context.phase, 0, seen.step
        self.phase_points += 1
        self.has_converged = self.has_converged or self.phase == "converging"
        return True

    def norm_change(self, points: int, *, apart: int = 0) -> float | None:
        """The last ``points`` norms over as many that ended ``apart`` before, by their medians."""
        if 2 * points + apart > len(self._norms):
            return None
        norms = list(self._norms)[-2 * points - apart :]
        return median(norms[-points:]) / median(norms[:points])

    def rate_is_high(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak; true where no rate is logged."""
        return self.lr is None or self.lr >= share * self.peak_lr

    def forget(self) -> None:
        """Begin anew, save for the peak of the rate, which is the schedule's."""
        self._norms.clear()
        self.phase, self.phase_points = "", 0
