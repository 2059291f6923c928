"""The learning rate so far: where it began, its peak, and whether it just jumped."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_JUMP = 1.5
# Rises of the rate so few points apart are one: a warm-up, or a jump taken in steps.
_ONE_JUMP = 20


@dataclass(frozen=True, slots=True)
class RateJump:
    """A rise of the rate within a few points: where it began, from what, to what.

    ``is_new``: the run had never trained with such a rate before, as it has after a warm restart.
    """

    position: int
    before: float
    after: float
    is_new: bool

    @property
    def factor(self) -> float:
        """How many times the rate rose."""
        return self.after / self.before


class LearningRate:
    """Follows the learning rate point by point; None before the first."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.latest: float | None = None
        self.peak: float | None = None
        self.peak_since: int | None = None  # the position at which the peak was reached
        self.count = 0
        self.jump: RateJump | None = None  # the newest
        self.points_since_jump = 0

    def push(self, position: int, rate: float, *, is_point: bool = True) -> bool:
        """Take in the newest rate; True when it jumped upwards.

        One that is no point, but an extreme of skipped records, is not counted.
        """
        before, former_peak = self.latest, self.peak
        self.count += is_point
        self.latest = rate
        if self.first is None:
            self.first = rate
        if self.peak is None or rate > self.peak:
            self.peak, self.peak_since = rate, position
        self.points_since_jump += is_point
        if before is None or before <= 0 or rate <= _LEAST_JUMP * before:
            return False
        self._note_jump(position, before, rate, former_peak or before)
        return True

    def is_near_peak(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak, a peak above zero."""
        if self.peak is None or self.latest is None or self.peak <= 0:
            return False
        return self.latest >= share * self.peak

    def began_at_peak(self, share: float) -> bool:
        """Whether the first rate was at least this share of the peak: there was no warm-up."""
        return self.first is not None and self.peak is not None and self.first >= share * self.peak

    def _note_jump(self, position: int, before: float, rate: float, former_peak: float) -> None:
        is_new = rate > _LEAST_JUMP * former_peak
        last = self.jump
        if last is not None and last.after == before and self.points_since_jump <= _ONE_JUMP:
            # Steps of one climb: what counts is where it began.
            position, before, is_new = last.position, last.before, last.is_new or is_new
        self.jump = RateJump(position, before, rate, is_new)
        self.points_since_jump = 0
