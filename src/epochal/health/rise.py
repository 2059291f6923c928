"""How far a curve is above its best level, and the largest rise from which it recovered."""

from __future__ import annotations

from epochal.health.curve import Curve
from epochal.health.line_fit import fit_line
from epochal.health.rate import LearningRate, RateJump
from epochal.health.thresholds import RuleThresholds

_SURE = 2.5  # standard errors: once in 160 by chance


class Rise:
    """Follows one curve: its best two blocks, the level now, and the worst rise that was undone.

    The newest two blocks cannot be the best: they are what is judged. After a shift that was to be
    expected only what came after it counts, unless it is of the ``whole_run``.
    """

    def __init__(self, *, points: int, whole_run: bool = False) -> None:
        self.best: float | None = None
        self.best_at = 0
        self.level = 0.0
        self.worst = 0.0
        self._points = points
        self._whole_run = whole_run
        self._highest = 0.0
        self._num_blocks = 0
        self._in_row = 0
        self._curve: Curve | None = None

    @property
    def height(self) -> float:
        """How far the level is above the best; 0 while there is no best."""
        return 0.0 if self.best is None else self.level - self.best

    def follow(self, curve: Curve) -> bool:
        """Process the newest point; False while there are too few."""
        if curve is not self._curve:
            self._curve = curve
            self.worst = 0.0
            self.forget()
        is_shifting = curve.is_shifting and not self._whole_run
        if is_shifting:
            self.forget()
        self._look_for_best(curve)
        if self.best is None or is_shifting:
            return False
        self.level = curve.recent_level(self._points)
        # A rise undone by more than half is one that this run recovers from.
        self._highest = max(self._highest, self.height)
        if self.height < self._highest / 2:
            self.worst = max(self.worst, self._highest)
            self._highest = max(self.height, 0.0)
        return True

    def lasts(self, is_high: bool) -> int:
        """How many points in a row it has been high, as the caller sees it, this one included."""
        self._in_row = self._in_row + 1 if is_high else 0
        return self._in_row

    def forget(self) -> None:
        """Search the best again; the worst is kept."""
        self.best, self._num_blocks, self._highest, self._in_row = None, 0, 0.0, 0

    def is_falling(self, curve: Curve) -> bool:
        """Whether the newest points lie along a line that goes down, beyond doubt."""
        window = curve.window(2 * self._points)
        if len(window) < 2 * self._points:
            return False
        fit = fit_line(window)
        return fit.slope < -_SURE * fit.slope_error

    def _look_for_best(self, curve: Curve) -> None:
        count = len(curve.blocks)
        if count == self._num_blocks:
            return
        since = None if self._whole_run else curve.shifted_at
        # Blocks are joined when they are too many, and then looked at again from the first.
        begin = max(0, self._num_blocks - 2) if self.best is not None else 0
        self._num_blocks = count
        for index in range(min(begin, max(0, count - 2)), count - 2):
            # The best of single blocks is half good luck; that of two neighbours less so.
            first, block = curve.blocks[max(0, index - 1)], curve.blocks[index]
            level = (first.level + block.level) / 2
            fits = since is None or first.first > since
            if fits and (self.best is None or level < self.best):
                self.best, self.best_at = level, block.last


# What a jump of the learning rate did to the loss: gains of the whole run that are gone since.

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
