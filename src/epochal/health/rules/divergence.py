"""The loss rises, and does not come back."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.course import Course, evaluation_is_fine, evaluation_suffers
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rate import RateJump
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict
from epochal.health.text import rate_rose, steps_of

_ALL = 0.9  # of the gain: what is left of it is noise
_EARLY = 50  # points, before which there is rarely a checkpoint to resume from
_ROSE = "The loss rose from {best} to {level} between {since} and {place}, and has not recovered."


class Divergence(CurveRule):
    """The loss has risen and does not recover.

    The level of the loss is far above the best of the run, and does not fall.

    Far is relative to the loss, its gain, its noise, and the rises from which this run has
    recovered: the losses of adversarial networks oscillate normally. After a jump of the learning
    rate it is measured from the best level since. If the rate was never as high, a loss that has
    not come back to the level before the jump is lost too.

    A loss also rises by design: its terms get weight, its data gets harder, its opponent learns.
    So a second signal is needed: noise and gradients that grow, or evaluations that suffer.
    """

    name = "divergence"
    group = "loss"
    healthy = "The loss returns to its best level soon after a rise."
    reports = {
        "warning": (
            "For {wait} points the loss does not fall and is far above its best level. The rise "
            "is at least {share:percent}, {of_gain:percent} of its gain, {widths:plain} widths and "
            "{over_worst:plain} times any rise it recovered from. In a game, with rewards or two "
            "players, it is {times_game:plain} times the best level. The loss is noisier than at "
            "its best and gradients are larger, or evaluations have lost half of their gain. "
            "{lost_points} points are enough if the loss has doubled and all gain is lost; "
            "{wait_balance} are needed if it never fell."
        ),
        "error": (
            "The same, and the loss is above its start. Not in a game. Or {of_gain_jump:percent} "
            "of the gain is lost since a jump to a new, higher learning rate."
        ),
    }
    messages = {
        "never_fell": Message(
            _ROSE,
            "The loss has never fallen. Check its sign first: a negated loss rises from the first "
            "step on. Check that optimizer.zero_grad() is called in each step. If both are right, "
            "start again with a lower learning rate.",
            "error",
        ),
        "early": Message(
            _ROSE,
            "All that was gained at first is lost. Check that optimizer.zero_grad() is called in "
            "each step; then start again with half the learning rate, or less.",
            "error",
        ),
        "rose": Message(
            _ROSE,
            "Stop, and resume from a checkpoint before the rise with half the learning rate or "
            "stronger gradient clipping.",
        ),
        "jump": Message(
            "{jump}; the loss has not recovered since: it was {best} and is {level} at {place}.",
            "Stop, resume from a checkpoint before the jump, and keep the learning rate that "
            "worked, or raise it slowly and by less.",
            "error",
        ),
    }
    causes = frozenset({"divergence"})
    symptom_of = frozenset({"lost values", "instability"})
    release = 20

    class Thresholds(RuleThresholds):
        least: int = 80
        # A fifth above the best level is beyond what batches and schedules do to it, as is a
        # quarter of all that was gained, or 80 % of a level that is far below the start.
        share: float = 0.2
        of_gain: float = 0.25
        most: float = 0.8
        # Of the gain before a jump to a new, higher learning rate.
        of_gain_jump: float = 0.35
        widths: float = 5.0
        over_worst: float = 1.5
        # The losses of a game rise as both sides learn.
        times_game: float = 10.0
        # Points in a row: time for a harder stage of the data to show that it is learned, unless
        # the rise is more than was ever gained and doubles the loss.
        wait: int = 60
        lost_points: int = 10
        # A loss that has never fallen may find the balance of its terms first.
        wait_balance: int = 250
        # Points within which a run that is evaluated is evaluated twice.
        wait_evals: int = 150

    thresholds: Thresholds

    def reset(self) -> None:
        """Count again."""
        self._in_row = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the level of the loss with its best level."""
        curve, course = context.updated_curves.get("loss"), context.course
        if curve is None or course is None or observation.is_extreme or not course.is_known:
            return ()
        if curve.count < self.thresholds.least:
            return ()
        jump = self._jump_that_lost(course, context)
        if jump is not None:
            return (self._describe(course, context, jump),)
        is_far = self._is_far(course, context)
        self._in_row = self._in_row + 1 if is_far else 0
        lasted = min(self._in_row, len(curve.points))
        risen_at = curve.points[-max(1, lasted)][0]
        is_far = is_far and not evaluation_is_fine(context, risen_at)
        # What is open closes when the loss is back, not when it falls for a moment.
        is_open = context.is_open(self.name, curve.name)
        if not is_far or not (is_open or self._begins(course, context, lasted, risen_at)):
            return (Verdict(curve.name, False),)
        return (self._describe(course, context),)

    def _jump_that_lost(self, course: Course, context: Context) -> RateJump | None:
        """Return the jump to a rate never tried before since which the loss has not come back."""
        limits, curve, jump = self.thresholds, course.curve, context.rate.jump
        best = course.before
        if best is None or jump is None or not jump.is_new or context.is_game:
            return None
        gained, width = curve.gained(best), curve.width_at(best)
        is_lost = gained > limits.widths * width and course.level - best > max(
            limits.of_gain_jump * gained,
            limits.share * course.size,
            limits.widths / 2 * width,
            limits.over_worst * course.worst,
        )
        is_open = context.is_open(self.name, curve.name)
        if not is_lost or not (is_open or not course.is_falling()):
            return None
        return None if evaluation_is_fine(context, jump.position) else jump

    def _is_far(self, course: Course, context: Context) -> bool:
        limits, curve, best = self.thresholds, course.curve, course.best or 0.0
        share = limits.times_game if context.is_game else limits.share
        return course.height > max(
            share * course.size,
            curve.share_of_gain(limits.of_gain, best, most=limits.most),
            limits.widths * curve.width_at(best),
            limits.over_worst * course.worst,
        )

    def _begins(self, course: Course, context: Context, lasted: int, risen_at: int) -> bool:
        """Whether the loss has been far up for long enough, with a second signal."""
        limits, norm = self.thresholds, context.curves.get("norm")
        is_doubled = course.height > max(abs(course.best or 0.0), course.gained)
        enough = limits.lost_points if is_doubled else limits.wait
        if self._may_find_balance(course, norm):
            enough = limits.wait_balance
        if lasted < enough or course.is_falling():
            return False
        # A harder stage of a curriculum does not hurt evaluations: a run that has them gets time.
        evaluation = context.curves.get("eval_loss")
        if evaluation is not None and evaluation.count > 1 and lasted < limits.wait_evals:
            since = sum(position > risen_at for position, _ in evaluation.points)
            if since < 2:
                return False
        suffers = evaluation_suffers(context, course.best_at)
        if self._is_lost(course):
            return suffers or any(course.is_rougher(norm, course.best_at))
        if norm is None and suffers:
            return True
        return all(course.is_rougher(norm, course.best_at, by_level=True))

    def _may_find_balance(self, course: Course, norm: Curve | None) -> bool:
        """Whether a loss that never fell rises as one term of several does."""
        curve, best = course.curve, course.best or 0.0
        if curve.lowest <= 0 or course.level > self.thresholds.times_game * best:
            return False
        has_fallen = course.gained > curve.least_change(best)
        return not has_fallen and not course.is_outgrown(norm, course.best_at)

    def _is_lost(self, course: Course) -> bool:
        """Whether nothing is left of what was gained."""
        best = course.best or 0.0
        start = best if course.curve.start is None else course.curve.start
        return course.height > _ALL * (start - best)

    def _describe(self, course: Course, context: Context, jump: RateJump | None = None) -> Verdict:
        curve, best, since = course.curve, course.best or 0.0, course.best_at
        position, words = curve.points[-1][0], {}
        is_lost = jump is not None or self._is_lost(course)
        if jump is not None:
            message, words = "jump", {"jump": rate_rose(curve, jump)}
            best, since = course.before or 0.0, jump.position
        elif curve.start is not None and course.gained < curve.least_change(curve.start) / 2:
            message = "never_fell"
        elif is_lost and course.best_at < curve.blocks[0].first + _EARLY:
            message = "early"
        else:
            message = "rose"
        return self.found(
            message,
            curve.name,
            steps=steps_of(curve, since, position),
            severity="error" if is_lost and not context.is_game else "warning",
            words={"since": curve.at(since), "place": curve.at(position), **words},
            best=best,
            level=course.level,
            width=curve.width or 0.0,
        )
