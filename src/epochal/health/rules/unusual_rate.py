"""The learning rate is far above what the optimizer is used with, and the loss gains little."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.health.usual_rates import UsualRates, usual_rates
from epochal.health.words import CURVE_KINDS, steps_of

_EVERY = 50  # points between two looks


class UnusualRate(Rule):
    """A peak rate beyond the usual range of the optimizer, under which the loss soon stands.

    A high rate alone is no fault: tables of vectors are trained so, and their loss falls all the
    while. With steps too large, a loss falls at first and then hardly, or stands above its start.
    The loss of a game measures nothing.
    """

    name = "unusual-rate"
    group = "learning rate"
    meaning = "The learning rate is far from what the optimizer is used with."
    healthy = "A peak within the usual range of the optimizer, or a loss that keeps falling."
    reports = {
        "info": (
            "The peak rate is 2.5 times the highest usual one of the optimizer or more. After 300 "
            "points, less than a quarter of the loss's gain came after the first quarter of them, "
            "or the loss is above its start."
        ),
    }
    what_to_try = "Compare with a learning rate within the usual range."
    needs = (
        "The learning rate, logged as for `no-warmup`, and the name of the optimizer in the "
        "configuration."
    )
    silenced_by = ("nonfinite",)
    kinds = CURVE_KINDS
    every_rank = False
    patience = 2

    class Thresholds(RuleThresholds):
        points: int = 300
        # Of the highest usual rate.
        times: float = 2.5
        # Of all gain so far: what came from the second quarter of the points to the last.
        gain: float = 0.25

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the rate with the usual ones, and two quarters of the loss, every few points."""
        curve, peak = context.updated_curves.get("loss"), context.rate.peak
        if curve is None or curve.count % _EVERY or curve.count < self.thresholds.points:
            return ()
        usual = usual_rates(context.config)
        if usual is None or peak is None or peak < self.thresholds.times * usual.highest:
            return ()
        if context.is_resumed or context.is_game or curve.start is None:
            return ()
        early, late = _quarters(curve)
        gained = curve.gained(late)
        if gained > 0 and early - late > self.thresholds.gain * gained:
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, peak, usual, early, late),)

    @staticmethod
    def _verdict(
        curve: Curve, peak: float, usual: UsualRates, early: float, late: float
    ) -> Verdict:
        first, last = curve.blocks[0].first, curve.points[-1][0]
        if curve.gained(late) > 0:
            how = f"has gained little since its first points: {format_number(early)}, then"
        else:
            how = f"is above its start: {format_number(curve.start or 0.0)} at first,"
        return Verdict(
            curve.name,
            True,
            "info",
            f"The learning rate reached {peak:g}, and {usual.optimizer} is used with "
            f"{usual.lowest:g} to {usual.highest:g}. The loss {how} {format_number(late)}. The "
            "rate may be too high.",
            steps=steps_of(curve, first, last),
            evidence={"rate": peak, "usual": usual.highest, "early": early, "late": late},
            advice=(
                "Compare with a learning rate 10 times lower, warmed up over the first 1 to 5 % of "
                "the steps."
            ),
        )


def _quarters(curve: Curve) -> tuple[float, float]:
    """The loss in the second quarter of the run and in the last one."""
    levels = [block.level for block in curve.blocks.all()]
    quarter = max(1, len(levels) // 4)
    return median(levels[quarter : 2 * quarter]), median(levels[-quarter:])
