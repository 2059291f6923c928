"""The gradient norm leaves its range upwards."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.finding import Severity
from epochal.health.learning import has_lost_all, has_risen, is_hurt
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, rate_rose, times
from epochal.health.thresholds import RuleThresholds

_LEAST_BLOCKS = 20  # fewer have not shown what is usual: some models start with tiny gradients


class GradientExplosion(Rule):
    """Norms many times the usual one, lasting; or a level far above that of the run.

    The norm is that before clipping where both are logged. A single high norm is only a note.
    """

    name = "gradient-explosion"
    group = "gradients"
    meaning = "The gradient is many times larger than usual. One step can destroy much progress."
    healthy = "Within 8 times the usual norm."
    reports = {
        "info": (
            "A point is beyond 8 times the usual norm, and above that of the first steps. Or the "
            "level is 30 times the usual level of the run, and 100 times if the loss has fallen "
            "and is as low as ever."
        ),
        "warning": (
            "Three of five points are, or the level is, and the loss stands above its best level."
        ),
        "error": "The same at 100 times the usual norm or more, and a loss above its first one.",
    }
    needs = (
        "The gradient norm before clipping. Language models have 0.2 to 1. A stable range "
        "matters more than the value."
    )
    symptom_of = frozenset({"lost values", "instability"})
    kinds = CURVE_KINDS
    every_rank = False
    wants_extremes = True
    release = 20

    class Thresholds(RuleThresholds):
        # A tenfold norm is beyond the spread of healthy batches, which is two or three to both
        # sides.
        ratio: float = 8.0
        # A hundredfold one leaves nothing of the weights, clipped or not.
        grave: float = 100.0
        # A growth too slow for a jump is an explosion when it is so many times the usual of the
        # run.
        over_run: float = 30.0
        # A lone point is a batch; three of five are the model.
        lasting: int = 3
        lasting_of: int = 5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._usual = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest norm against the values before it."""
        curve = context.updated_curves.get("norm")
        if curve is None or curve.level is None or curve.distance is None:
            return ()
        if observation.is_extreme and not curve.stands_out:
            return ()
        thresholds, loss = self.thresholds, context.curves.get("loss")
        now = curve.recent_level(thresholds.lasting_of)
        if self._lasts(curve, context):
            if now < thresholds.ratio / 2 * self._usual:
                return (Verdict(curve.name, False),)
            return (self._verdict(curve, self._usual, now, context, is_lasting=True),)
        usual, newest = math.exp(curve.level), curve.newest[1]
        # What the first steps had, the model has taken before: norms that fell far vary far.
        is_new = curve.start is None or max(newest, now) > curve.start
        if not is_new:
            return (Verdict(curve.name, False),)
        if curve.stands_out and newest >= thresholds.ratio * usual > 0:
            is_lasting = sum(curve.outliers) >= thresholds.lasting
            return (self._verdict(curve, usual, newest, context, is_lasting=is_lasting),)
        if len(curve.blocks) >= _LEAST_BLOCKS:
            usual = curve.blocks.former_median()
            # Densities and the like have norms that grow while the loss is as low as ever.
            least = thresholds.over_run if is_hurt(loss) else thresholds.grave
            if now > least * usual > 0:
                return (self._verdict(curve, usual, now, context, is_lasting=True),)
        return (Verdict(curve.name, False),)

    def _lasts(self, curve: Curve, context: Context) -> bool:
        """Whether an explosion is open: the usual norm is then the one before it."""
        finding = context.open.get((self.name, curve.name))
        return finding is not None and finding.severity != "info"

    def _verdict(
        self, curve: Curve, usual: float, value: float, context: Context, *, is_lasting: bool
    ) -> Verdict:
        self._usual = usual
        position, ratio, loss = curve.newest[0], value / usual, context.curves.get("loss")
        # Gradients grow where a loss begins to fall, too. What rises with them is harmed.
        does_harm = is_lasting and has_risen(loss)
        is_grave = ratio >= self.thresholds.grave and has_lost_all(loss)
        severity: Severity = "info" if not does_harm else "error" if is_grave else "warning"
        if not is_lasting:
            what = "The gradient norm jumped"
        else:
            what = "The gradient norm exploded" if does_harm else "The gradient norm has grown far"
        return Verdict(
            curve.name,
            True,
            severity,
            f"{what}: {format_number(value)} at {curve.at(position)}, {times(ratio)} times the "
            f"usual {format_number(usual)}.",
            evidence={"norm": value, "usual": usual, "ratio": ratio},
            advice=_advice(curve, context, is_lasting=is_lasting),
        )


def _advice(curve: Curve, context: Context, *, is_lasting: bool) -> str:
    if curve.is_shifting and context.rate.jump is not None:
        return f"{rate_rose(curve, context.rate.jump)}. Raise it by less, or slowly."
    if is_lasting:
        return (
            "Clip gradients to about the usual norm, lower the learning rate, and look at the "
            "batches of these steps."
        )
    return "One unusual batch does this; gradient clipping makes it harmless."
