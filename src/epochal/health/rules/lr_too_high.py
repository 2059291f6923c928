"""The loss rises while the learning rate is at its peak."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.learning import (
    evaluation_gains,
    evaluation_stands,
    evaluation_suffers,
    is_rougher,
)
from epochal.health.observation import Observation
from epochal.health.rise import Rise
from epochal.health.rule import Rule, Verdict
from epochal.health.rules.divergence import RATE_AFTER
from epochal.health.text import CURVE_KINDS, percent, steps_of
from epochal.health.thresholds import RuleThresholds

_ALL = 0.9  # of the gain: what is left of it is noise


class LearningRateTooHigh(Rule):
    """The rate has reached its peak, and the loss climbs from its best level under it.

    It needs the learning rate in the record, and one that rose to its peak: a constant rate may or
    may not be the reason. A rise smaller than what the run recovered from before is its nature.
    """

    name = "lr-too-high"
    group = "learning rate"
    meaning = "The loss rises while the learning rate is at its peak."
    healthy = "The loss also falls at the peak."
    reports = {
        "warning": (
            "At 90 % of the peak rate or more, the loss stays above its best level for 30 "
            "points. It is higher by all of these: 15 %, a tenth of its gain, 1.6 widths, and "
            "1.5 times any rise it recovered from. It is three times as noisy as at its best, or "
            "gradients are 1.6 times as large, and evaluations are worse. Or all gain is lost, in "
            "evaluations too."
        )
    }
    needs = "A learning rate that rose to its peak, logged as for `no-warmup`."
    symptom_of = frozenset({"lost values", "instability"})
    kinds = CURVE_KINDS
    every_rank = False
    release = 20

    class Thresholds(RuleThresholds):
        # The rate counts as at its peak above this share of it.
        share: float = 0.9
        points: int = 30
        # A rise of 15 % of the level, a tenth of what was gained, and 1.6 widths, which the
        # median of thirty points never strays by; for so many points in a row.
        rise: float = 0.15
        of_gain: float = 0.1
        most: float = 0.2
        widths: float = 1.6
        wait: int = 30
        # A first rate this close to the highest one was not warmed up.
        start_share: float = 0.9
        over_worst: float = 1.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._rise = Rise(points=thresholds.points)

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest level of the loss."""
        curve = context.updated_curves.get("loss")
        if curve is None or not self._rise.follow(curve):
            return ()
        thresholds, rate = self.thresholds, context.rate
        # A loss that was lost by a jump of the rate is told of as such.
        lost = context.open.get(("divergence", curve.name))
        is_reported = lost is not None and RATE_AFTER in lost.evidence
        if is_reported or rate.began_at_peak(thresholds.start_share):
            return ()
        is_high = rate.is_near_peak(thresholds.share) and self._is_high(curve)
        is_high = is_high and not evaluation_gains(context, self._rise.best_at)
        is_high = is_high and not evaluation_stands(context, self._rise.best_at)
        begins = self._rise.lasts(is_high) >= thresholds.wait
        begins = begins and not self._rise.is_falling(curve)
        begins = begins and self._is_witnessed(curve, context)
        if not (is_high if context.is_open(self.name, curve.name) else begins):
            return (Verdict(curve.name, False),)
        rise, position = self._rise, curve.points[-1][0]
        best = rise.best or 0.0
        return (
            Verdict(
                curve.name,
                True,
                "warning",
                f"The loss rises while the learning rate is at its peak of "
                f"{format_number(rate.latest or 0.0)}: from {format_number(best)} at "
                f"{curve.at(rise.best_at)} to {format_number(rise.level)} at "
                f"{curve.at(position)}{_share(rise.height, best)}.",
                steps=steps_of(curve, rise.best_at, position),
                evidence={"best": best, "level": rise.level, "rate": rate.latest or 0.0},
                advice="Halve the peak learning rate, or let it warm up for longer.",
            ),
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Search the best level again in the remaining points."""
        self._rise.forget()

    def _is_witnessed(self, curve: Curve, context: Context) -> bool:
        """Whether noise or gradients grew, or all gain is lost in evaluations as well."""
        since = self._rise.best_at
        if any(is_rougher(curve, context.curves.get("norm"), since)):
            return True
        gained = curve.gained(self._rise.best or 0.0)
        return self._rise.height > _ALL * gained and evaluation_suffers(context, since)

    def _is_high(self, curve: Curve) -> bool:
        thresholds = self.thresholds
        best = self._rise.best or 0.0
        size = abs(best) if curve.lowest > 0 else curve.highest - curve.lowest
        return self._rise.height > max(
            thresholds.rise * size,
            curve.share_of_gain(thresholds.of_gain, best, most=thresholds.most),
            thresholds.widths * curve.width_at(best),
            thresholds.over_worst * self._rise.worst,
        )


def _share(height: float, best: float) -> str:
    return f" (+{percent(height / best)})" if best > 0 else ""
