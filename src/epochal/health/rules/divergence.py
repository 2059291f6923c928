"""The loss rises, and does not come back."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.learning import (
    evaluation_gains,
    evaluation_stands,
    evaluation_suffers,
    has_lost_all,
    is_rougher,
    outgrows,
)
from epochal.health.observation import Observation
from epochal.health.rate import RateJump
from epochal.health.rise import Rise, Setback, SetbackThresholds
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, rate_rose, steps_of

_EVALS = 2
_ALL = 0.9  # of the gain: what is left of it is noise
_EARLY = 40  # steps after the first points, by which hardly a checkpoint is worth to resume from
RATE_AFTER = "rate_after"  # evidence of a loss that was lost to a jump of the rate


class Divergence(Rule):
    """The level of the loss is far above the best of the run, and does not fall.

    Far is relative to the loss, its gain, its noise, and the rises from which this run has
    recovered: the losses of adversarial networks oscillate normally. After a jump of the learning
    rate it is measured from the best level since. Once the loss has had time to return, it is
    measured from the best level of the whole run.

    A loss also rises by design: its terms get weight, its data gets harder, its opponent learns.
    So a rise needs witnesses: noise and gradients that grow, and evaluations that suffer.
    """

    name = "divergence"
    group = "loss"
    meaning = "The loss has risen and does not recover."
    healthy = "Returns to its best level soon after a rise."
    reports = {
        "warning": (
            "For 60 points the level does not fall and is far above the best one. Far is a "
            "fifth, a quarter of the gain (at most 80 % of the best level), 5 widths and 1.5 times "
            "any earlier rise. In a game, with rewards or two players, far is ten times the best "
            "level instead of a fifth. Noise, as a share of the loss, is also 1.8 times what it "
            "was at the best, and gradients are 1.6 times as large. If all gain is lost, one of "
            "the two is enough, or three times the noise, or evaluations that lost half of their "
            "gain. Evaluations, if there are any, are worse than before. Ten points are enough if "
            "the loss has doubled and all gain is lost. 250 are needed if it never fell, is below "
            "ten times its best, and gradients grew no more than it did. After a jump to a new, "
            "higher learning rate: a third of the gain is still lost after 60 points. After a "
            "restart to a known rate: four fifths after 160 points."
        ),
        "error": (
            "The same, and the loss is above its start. Not in a game. Or it came with a jump to "
            "a new, higher learning rate."
        ),
    }
    causes = frozenset({"divergence"})
    symptom_of = frozenset({"lost values", "instability"})
    kinds = CURVE_KINDS
    every_rank = False
    release = 20

    class Thresholds(SetbackThresholds):
        least: int = 80
        # ...as is a quarter of all that was gained: an error, or, where the loss fell so far that
        # 80 % of what is left is less than that, a warning...
        of_gain: float = 0.25
        most: float = 0.8
        # ...and five widths, and half as much again as any rise the run recovered from.
        widths: float = 5.0
        # The losses of a game rise as both sides learn: far is so many times the best level there.
        times_game: float = 10.0
        # So many points in a row, time for a harder stage of the data to show that it is learned...
        wait: int = 60
        # ...unless the rise is more than was ever gained and doubles the loss.
        lost_points: int = 10
        # A loss that has never fallen may find the balance of its terms first, if its gradients
        # grow no more than it does.
        wait_balance: int = 250
        balanced: float = 10.0  # times the best level: more is no balance
        # Points within which a run that is evaluated is evaluated twice.
        wait_evals: int = 150

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._rise = Rise(points=thresholds.points)
        self._setback = Setback(thresholds)

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest level of the loss."""
        curve = context.updated_curves.get("loss")
        if curve is None:
            return ()
        self._setback.follow(curve, context.rate, recovered=self._rise.worst)
        is_known = self._rise.follow(curve)
        if curve.count < self.thresholds.least:
            return ()
        is_open = context.is_open(self.name, curve.name)
        is_lost = self._setback.goes_on if is_open else self._setback.begins(curve, context.rate)
        if is_lost and context.rate.jump is not None:
            return (self._after_a_jump(curve, context.rate.jump),)
        if not is_known:
            return ()
        # Harder data and terms that grow lift the training loss while the model gets better.
        is_far = self._is_far(curve, context)
        lasted = min(self._rise.lasts(is_far), len(curve.points))
        risen_at = curve.points[-max(1, lasted)][0]
        is_far = is_far and not evaluation_gains(context, self._rise.best_at)
        is_far = is_far and not evaluation_stands(context, risen_at)
        # What is open closes when the loss is back, not when it falls for a moment.
        if not is_far or not (is_open or self._begins(curve, context, lasted, risen_at)):
            return (Verdict(curve.name, False),)
        return (self._rose(curve, context),)

    def forget_from(self, step: int, context: Context) -> None:
        """Search the best level again in the remaining points."""
        self._rise.forget()
        self._setback.forget()

    def _advice(self, curve: Curve, best: float, context: Context) -> str:
        if curve.start is not None and best > curve.start - curve.least_change(curve.start) / 2:
            return (
                "The loss has never fallen. Check its sign first: a negated loss rises from the "
                "first step on. Check that optimizer.zero_grad() is called in each step. If both "
                "are right, start again with a lower learning rate."
            )
        is_early = len(curve.blocks) > 0 and self._rise.best_at < curve.blocks[0].last + _EARLY
        if is_early and curve.start is not None and self._rise.level > curve.start:
            return (
                "All that was gained at first is lost. Check that optimizer.zero_grad() is called "
                "in each step; then start again with half the learning rate, or less."
            )
        return (
            "Stop, and resume from a checkpoint before the rise with half the learning rate or "
            "stronger gradient clipping."
        )

    def _rose(self, curve: Curve, context: Context) -> Verdict:
        rise, position = self._rise, curve.points[-1][0]
        best = rise.best or 0.0
        is_grave = self._is_lost(curve) and not context.is_game
        return Verdict(
            curve.name,
            True,
            "error" if is_grave else "warning",
            f"The loss rose from {format_number(best)} to {format_number(rise.level)} between "
            f"{curve.at(rise.best_at)} and {curve.at(position)}, and has not recovered.",
            steps=steps_of(curve, rise.best_at, position),
            evidence={"best": best, "level": rise.level, "width": curve.width or 0.0},
            advice=self._advice(curve, best, context),
        )

    def _after_a_jump(self, curve: Curve, jump: RateJump) -> Verdict:
        rise, position = self._setback.rise, curve.points[-1][0]
        best = rise.best or 0.0
        return Verdict(
            curve.name,
            True,
            "error" if jump.is_new or has_lost_all(curve) else "warning",
            f"{rate_rose(curve, jump)}; the loss has not returned to {format_number(best)} since: "
            f"it is {format_number(rise.level)} at {curve.at(position)}.",
            steps=steps_of(curve, jump.position, position),
            evidence={
                "best": best,
                "level": rise.level,
                "rate_before": jump.before,
                RATE_AFTER: jump.after,
            },
            advice=(
                "Stop, resume from a checkpoint before the jump, and keep the rate that worked, or "
                "raise it slowly and by less."
            ),
        )

    def _begins(self, curve: Curve, context: Context, lasted: int, risen_at: int) -> bool:
        """Far up and not falling: at once where all is lost, after a while where it may be data.

        A harder stage of a curriculum lifts the loss as well, but it falls again from there, and
        evaluations do not suffer: a run that has them is given time for two.
        """
        thresholds, best = self.thresholds, self._rise.best or 0.0
        is_lost = self._rise.height > max(abs(best), curve.gained(best))
        enough = thresholds.lost_points if is_lost else thresholds.wait
        if self._may_find_balance(curve, context):
            enough = thresholds.wait_balance
        if lasted < enough or self._rise.is_falling(curve):
            return False
        evaluation, norm = context.curves.get("eval_loss"), context.curves.get("norm")
        is_evaluated = evaluation is not None and evaluation.count >= _EVALS
        since = [] if evaluation is None else [at for at, _ in evaluation.points if at > risen_at]
        if is_evaluated and len(since) < _EVALS and lasted < thresholds.wait_evals:
            return False
        suffers = evaluation_suffers(context, self._rise.best_at)
        if self._is_lost(curve):
            return suffers or any(is_rougher(curve, norm, self._rise.best_at))
        if norm is None and suffers:
            return True
        return all(is_rougher(curve, norm, self._rise.best_at, by_level=True))

    def _may_find_balance(self, curve: Curve, context: Context) -> bool:
        """Whether a loss that never fell rises as one term of several does."""
        best = self._rise.best or 0.0
        if curve.lowest <= 0 or self._rise.level > self.thresholds.balanced * best:
            return False
        has_fallen = curve.gained(best) > curve.least_change(best)
        return not has_fallen and not outgrows(
            curve, context.curves.get("norm"), self._rise.best_at
        )

    def _is_lost(self, curve: Curve) -> bool:
        """Whether nothing is left of what was gained."""
        start = self._rise.best if curve.start is None else curve.start
        return start is not None and self._rise.height > _ALL * (start - (self._rise.best or 0.0))

    def _is_far(self, curve: Curve, context: Context) -> bool:
        thresholds = self.thresholds
        share = thresholds.times_game if context.is_game else thresholds.share
        best = self._rise.best or 0.0
        size = abs(best) if curve.lowest > 0 else curve.highest - curve.lowest
        return self._rise.height > max(
            share * size,
            curve.share_of_gain(thresholds.of_gain, best, most=thresholds.most),
            thresholds.widths * curve.width_at(best),
            thresholds.over_worst * self._rise.worst,
        )
