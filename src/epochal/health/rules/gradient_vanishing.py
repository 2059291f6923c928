"""The gradient norm falls away while the loss does not."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.learning import has_fallen_since, has_learned
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, times
from epochal.health.thresholds import RuleThresholds

_LEAST_BLOCKS = 5
_BLOCKS_AGO, _SUDDEN = 5, 0.1  # a fall to a tenth within so many blocks has another reason


class GradientVanishing(Rule):
    """A norm a small share of what it used to be, and a loss that did not fall with it."""

    name = "gradient-vanishing"
    group = "gradients"
    meaning = "The gradient is almost zero although the loss is not low."
    healthy = "Above 3 % of the usual norm, or reduced as much as the loss."
    reports = {
        "warning": (
            "The norm is below 3 % of the usual norm, times the remaining share of the loss."
        )
    }
    needs = "The gradient norm."
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = CURVE_KINDS
    every_rank = False
    patience = 5
    release = 20

    class Thresholds(RuleThresholds):
        # Norms fall two- or threefold as a run settles, not thirtyfold; or as the loss does,
        # since a model that is right has no gradient.
        share: float = 0.03

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._usual = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest level of the norm."""
        curve = context.updated_curves.get("norm")
        if curve is None or len(curve.blocks) < _LEAST_BLOCKS or context.is_game:
            return ()  # the loss of a game does not say how much there is left to learn
        # While it lasts the usual is what it was before, or a long fault would become it.
        if not context.is_open(self.name, curve.name):
            self._usual = curve.blocks.former_median()
        usual = self._usual
        now = curve.recent_level(10)
        learned = self._learned(context.curves.get("loss"))
        is_small = now <= self.thresholds.share * usual * learned
        # Gradients of a whole dataset go to nothing where its loss is lowest, step by step.
        is_sudden = now < _SUDDEN * curve.blocks[-_BLOCKS_AGO].level
        # A loss that falls meanwhile has been learned: a margin that is met has no gradient.
        fell = has_fallen_since(
            context.curves.get("loss"), curve.blocks[-_BLOCKS_AGO].first, share=0.1
        )
        lasts = context.is_open(self.name, curve.name) or (is_sudden and not fell)
        if not is_small or (not lasts and has_learned(context.curves.get("loss"))):
            return (Verdict(curve.name, False),)
        position = curve.points[-1][0]
        ratio = usual / now if now > 0 else math.inf
        return (
            Verdict(
                curve.name,
                True,
                "warning",
                f"The gradient norm fell to {format_number(now)} at {curve.at(position)}, "
                f"{_share(ratio)} the usual {format_number(usual)}; the loss did not fall "
                "by nearly as much.",
                evidence={"norm": now, "usual": usual},
                advice=(
                    "Look for saturated activations, a detached graph or a loss scale that "
                    "underflows; try bfloat16, normalisation or residual connections."
                ),
            ),
        )

    def _learned(self, loss: Curve | None) -> float:
        """The share of the loss that is left: a model that is right has no gradient to give."""
        if loss is None or len(loss.blocks) < _LEAST_BLOCKS or loss.lowest <= 0:
            return 1.0
        former = loss.blocks.former_median()
        return min(1.0, loss.recent_level(10) / former) if former > 0 else 1.0


def _share(ratio: float) -> str:
    return "nothing of" if math.isinf(ratio) else f"{times(ratio)} times less than"
