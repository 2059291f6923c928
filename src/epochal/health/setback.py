"""What a jump of the learning rate did to the loss: gains of the whole run that are gone since."""

from __future__ import annotations

from epochal.health.curve import Curve
from epochal.health.rate import LearningRate, RateJump
from epochal.health.rise import Rise
from epochal.health.thresholds import RuleThresholds

_HALFWAY = 0.5  # of the bar: what has come back so far is on its way


class SetbackThresholds(RuleThresholds):
    """When a loss counts as lost, and as lost by a jump of the rate; windows are in points."""

    # The level now, against the best block of the run so far.
    points: int = 20
    # A fifth above the best level is beyond what batches and schedules do to it...
    share: float = 0.2
    over_worst: float = 1.5
    # After a jump to a rate never tried before: what a run in order shows of such a rate within so
    # many points is a loss on its way back; a third of all gain lost, and not falling, is not that.
    jump_new_points: int = 60
    jump_new_of_gain: float = 0.35
    # A warm restart goes back to a rate that the run has learned with, and stands high until the
    # rate falls again; but it does not go back to where training began.
    jump_known_points: int = 160
    jump_known_of_gain: float = 0.8
    # What was gained must be beyond doubt, and so must what was lost.
    jump_gain_widths: float = 5.0
    jump_lost_widths: float = 2.5


class Setback:
    """Follows a loss against its best level of the whole run, which a jump does not make forget.

    ``rise`` has that best level and the one now. A restart to a rate the run has learned with is
    given longer than a jump to a new one, and may lose more.
    """

    def __init__(self, thresholds: SetbackThresholds) -> None:
        self.rise = Rise(points=thresholds.points, whole_run=True)
        self._thresholds = thresholds
        self._bar: float | None = None
        self._points_far = 0
        self._since: int | None = None
        self._worst_before = 0.0

    def follow(self, curve: Curve, rate: LearningRate, *, recovered: float) -> None:
        """Take in the newest point of the loss; before any jump there is nothing to follow.

        ``recovered`` is the worst rise so far that the run came back from.
        """
        if rate.jump is None:
            return
        if rate.jump.position != self._since:
            # What the jump itself does at first, and half undoes, is no proof of health.
            self._since = rate.jump.position
            self._worst_before = max(recovered, self.rise.worst)
        knows = self.rise.follow(curve)
        self._bar = self._height_of_bar(curve, rate.jump) if knows else None
        self._points_far = self.rise.lasts(self._bar is not None and self.rise.height > self._bar)

    def forget(self) -> None:
        """A new attempt starts: search the best again in the remaining points."""
        self.rise.forget()
        self._bar = None

    @property
    def goes_on(self) -> bool:
        """Whether the loss, once lost, is still far from its best level before the jump."""
        return self._bar is not None and self.rise.height > _HALFWAY * self._bar

    def begins(self, curve: Curve, rate: LearningRate) -> bool:
        """Whether it has been far up for long enough, and is not on its way back."""
        if not self._points_far or rate.jump is None:
            return False
        thresholds = self._thresholds
        needed = thresholds.jump_new_points if rate.jump.is_new else thresholds.jump_known_points
        has_lasted = rate.points_since_jump >= needed and 2 * self._points_far >= needed
        return has_lasted and not self.rise.is_falling(curve)

    def _height_of_bar(self, curve: Curve, jump: RateJump | None) -> float | None:
        """How far above its best the loss has lost too much; None where it was better since."""
        best = self.rise.best
        if best is None or curve.start is None or jump is None:
            return None
        if self.rise.best_at >= jump.position:
            return None
        thresholds, width = self._thresholds, curve.width_at(best)
        gained = curve.start - best
        if gained <= thresholds.jump_gain_widths * width:
            return None
        share = thresholds.jump_new_of_gain if jump.is_new else thresholds.jump_known_of_gain
        return max(
            share * gained,
            thresholds.share * abs(best) if curve.lowest > 0 else 0.0,
            thresholds.jump_lost_widths * width,
            thresholds.over_worst * self._worst_before,
        )
