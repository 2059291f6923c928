"""The loss has stopped falling."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.causes import OF_STANDSTILL
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.health.words import CURVE_KINDS, steps_of

_PARTS = 4  # of a window


class Plateau(Rule):
    """Two windows in a row with no measurable fall between them, several times over.

    A note, not a warning: every training ends on one. Only a loss that has fallen before is on a
    plateau; one that never did is another rule's.
    """

    name = "plateau"
    group = "loss"
    meaning = "The loss no longer falls by more than its noise."
    healthy = "Still falling over 800 points, or the schedule is at its end."
    reports = {
        "info": (
            "The loss does not fall by more than noise over 800 points, in three checks in a row. "
            "Nor can its noise hide a fall of 5 % of what it had fallen before."
        ),
    }
    what_to_try = "Lower the learning rate 3 to 10 times. If it is already low, stop."
    silenced_by = ("nonfinite", "divergence")
    explained_by = OF_STANDSTILL
    kinds = CURVE_KINDS
    every_rank = False
    release = 4

    class Thresholds(RuleThresholds):
        # Two windows of four hundred points, compared; three comparisons in a row, fifty points
        # apart.
        window: int = 400
        every: int = 50
        checks: int = 3
        # A fall below a thousandth of the level (or of the range covered) per window is none.
        share: float = 0.001
        # What noise may hide must be little of what was gained, or nobody knows whether it fell.
        hidden: float = 0.05
        cooldown: int = 1000

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.patience = thresholds.checks
        self.cooldown_steps = thresholds.cooldown

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest window with the one before it, every so many points."""
        thresholds = self.thresholds
        curve = context.updated_curves.get("loss")
        if curve is None or curve.count % thresholds.every:
            return ()
        window = thresholds.window
        if curve.count < 2 * window or curve.start is None or not curve.width:
            return ()
        values = curve.window(2 * window)
        if len(values) < 2 * window:
            return ()
        older, newer = _mean(values[:window]), _mean(values[window:])
        if not self._has_fallen(curve, newer) or older - newer > self._least_fall(curve, window):
            return (Verdict(curve.name, False),)
        # It stood still from its first points on, not only on average.
        first = window // _PARTS
        if _mean(values[:first]) - newer > self._least_fall(curve, first):
            return (Verdict(curve.name, False),)
        if not self._is_known(curve, older, newer) and not context.is_open(self.name, curve.name):
            return (Verdict(curve.name, False),)
        first, last = curve.points[-2 * window][0], curve.points[-1][0]
        return (
            Verdict(
                curve.name,
                True,
                "info",
                f"The loss has not measurably fallen from {curve.at(first)} to "
                f"{curve.at(last)}: {format_number(older)}, then {format_number(newer)}.",
                steps=steps_of(curve, first, last),
                evidence={"older": older, "newer": newer, "width": curve.width},
                advice=_advice(context),
            ),
        )

    def _has_fallen(self, curve: Curve, newer: float) -> bool:
        start, width = curve.start, curve.width
        return start is not None and width is not None and start - newer > width

    def _is_known(self, curve: Curve, older: float, newer: float) -> bool:
        """Whether a fall that noise could hide would be small beside what was gained."""
        noise = 2 * (curve.width or 0.0) * math.sqrt(2 / self.thresholds.window)
        return older - newer + noise <= self.thresholds.hidden * curve.gained(newer)

    def _least_fall(self, curve: Curve, points: int) -> float:
        """The change that noise alone does not cause, but at least a thousandth of the level.

        ``points`` are those of the older level; the newer one has a whole window.
        """
        size = abs(curve.level or 0.0) if curve.lowest > 0 else curve.highest - curve.lowest
        by_noise = 2 * (curve.width or 0.0) * math.sqrt(1 / points + 1 / self.thresholds.window)
        return max(by_noise, self.thresholds.share * size)


def _advice(context: Context) -> str:
    if context.rate.is_near_peak(0.3):
        return "Lower the learning rate (a factor of 3 to 10) and see whether the loss falls again."
    return "The rate is low already: stop here, or train on with more data or a larger model."


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
