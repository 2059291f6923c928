"""The loss falls in a straight line, and hardly: the steps are too small."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, stdev

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.health.words import CURVE_KINDS, percent, steps_of

_EVERY = 50  # points between two looks


class StepsTooSmall(Rule):
    """A loss that has fallen by a few per cent, as fast in the end as in the beginning.

    Training bends its loss: it falls fast and then slowly. A straight line means that the steps
    have not left the place where the training started.
    """

    name = "steps-too-small"
    group = "learning rate"
    meaning = "The steps are far too small for the way the training has to go."
    healthy = "The loss falls fast at first, and then ever more slowly."
    reports = {
        "warning": (
            "After 450 points the loss has fallen by less than 5 %, beyond doubt. From the second "
            "third to the last it falls by half of what it fell before or more."
        ),
    }
    what_to_try = "Raise the learning rate 3 to 10 times. Check clipping and the loss's scale."
    silenced_by = ("nonfinite", "divergence")
    explained_by = ("rate-ended", "always-clipped", "gradients-add-up", "loss-summed", "init-scale")
    kinds = CURVE_KINDS
    every_rank = False
    patience = 2

    class Thresholds(RuleThresholds):
        points: int = 450
        # Later it is said no more: a training that crawls for thousands of steps may mean to.
        last: int = 2000
        # Of the start. A healthy training has fallen further by then.
        most: float = 0.05
        # The second fall over the first, and how many standard errors the whole is.
        straight: float = 0.5
        errors: float = 7.0
        # Of its peak: the rate must not be the reason by plan.
        rate: float = 0.5

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the three thirds of the run so far."""
        curve, limits = context.updated_curves.get("loss"), self.thresholds
        if curve is None or curve.count % _EVERY or context.is_resumed or context.is_game:
            return ()
        if not limits.points <= curve.count <= limits.last or curve.lowest <= 0:
            return ()
        rate = context.rate
        if rate.peak is not None and not rate.is_near_peak(limits.rate):
            return ()
        levels = [block.level for block in curve.blocks.all()]
        third = len(levels) // 3
        thirds = [levels[n * third : (n + 1) * third] for n in range(3)]
        first, middle, last = map(fmean, thirds)
        error = math.hypot(*(stdev(one) / math.sqrt(third) for one in (thirds[0], thirds[2])))
        fall = first - last
        # From the middle of the first third to that of the last is two thirds of the way.
        share = 1.5 * fall / (curve.start or first)
        is_straight = middle - last > limits.straight * (first - middle) > 0
        if not (is_straight and 0 < share < limits.most and fall > limits.errors * error):
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, context, share),)

    def _verdict(self, curve: Curve, context: Context, share: float) -> Verdict:
        first, position = curve.points[0][0], curve.points[-1][0]
        rate = context.rate.latest
        told = f" at a rate of {format_number(rate)}" if rate else ""
        evidence: dict[str, float | int | str] = {"share": share}
        if rate is not None:
            evidence["rate"] = rate
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The loss has fallen by {percent(share)} in {curve.count:,} points{told}, in a "
            "straight line: the steps are too small to get anywhere.",
            steps=steps_of(curve, first, position),
            evidence=evidence,
            advice=(
                "Raise the learning rate 3 to 10 times, and again while the loss still falls in a "
                "straight line. Check that neither clipping nor a scaled loss makes steps small."
            ),
        )
