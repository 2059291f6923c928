"""The learning rate so far: where it began, its peak, and whether it just jumped."""

from __future__ import annotations

from epochal.health.thresholds_curves import CurveThresholds


class LearningRate:
    """Follows the learning rate point by point; None before the first."""

    def __init__(self, thresholds: CurveThresholds) -> None:
        self.first: float | None = None
        self.latest: float | None = None
        self.peak: float | None = None
        self.peak_since: int | None = None  # the position at which the peak was reached
        self.count = 0
        self._jump = thresholds.rate_jump

    def push(self, position: int, rate: float) -> bool:
        """Take in the newest rate; True when it jumped upwards."""
        before = self.latest
        self.count += 1
        self.latest = rate
        if self.first is None:
            self.first = rate
        if self.peak is None or rate > self.peak:
            self.peak, self.peak_since = rate, position
        return before is not None and before > 0 and rate > self._jump * before

    def is_near_peak(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak, a peak above zero."""
        if self.peak is None or self.latest is None or self.peak <= 0:
            return False
        return self.latest >= share * self.peak

    def began_at_peak(self, share: float) -> bool:
        """Whether the first rate was at least this share of the peak: there was no warm-up."""
        return self.first is not None and self.peak is not None and self.first >= share * self.peak
