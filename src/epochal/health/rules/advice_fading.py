"""Advice: the loss stalls because the gradients have faded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.health.causes import OF_STANDSTILL
from epochal.health.learning import has_learned
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.signals import AdviceThresholds, Signals

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "norm"  # the series it is shown at


class AdviceFading(Rule):
    """A loss that has stopped falling, with gradients half as large as shortly before it did.

    Gradients also shrink while a loss falls fast in health, so the loss must have stopped, and the
    rate must not be the reason for it.
    """

    name = "advice-fading"
    group = "advice"
    meaning = "The gradients become too small to learn: saturation, decay, or memorised data."
    healthy = "Gradients stay in a range while the loss falls."
    reports = {
        "info": (
            "The loss stopped falling less than a fifth below its start. Gradients are half as "
            "large as before that, and the learning rate is high."
        )
    }
    what_to_try = (
        "Check for saturated outputs, strong weight decay and a scaled-down loss. Add data, or "
        "stop."
    )
    silenced_by = ("nonfinite", "divergence")
    explained_by = OF_STANDSTILL
    kinds = frozenset({"step", "metrics"})
    every_rank = False

    class Thresholds(AdviceThresholds):
        # Of its peak: below it the schedule is at work already.
        lr_share: float = 0.3
        points: int = 60
        # A plateau is known for one some hundred points after it began.
        apart: int = 120
        # Gradients at less than half of what they were, while the loss has all but stopped.
        share: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.cooldown_steps = thresholds.cooldown
        limits = thresholds
        points = 2 * limits.points + limits.apart
        self._signals = Signals(points=points)
        # The phase may waver for a while where a plateau begins.
        self.release = limits.points

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one point."""
        limits, signals = self.thresholds, self._signals
        if not signals.observe(observation, context) or observation.step is None:
            return
        subject = context.role_names.get(_ROLE, _ROLE)
        faded = self._fresh() or self._lasting(observation, context)
        if faded is None:
            # Later on both halves of the norms lie on the plateau: what was said stays said.
            if signals.phase != "plateau":
                yield Verdict(subject, active=False)
            return
        since, left = faded
        bar = limits.share * self._learned(context)
        if left > bar or context.is_game or not signals.rate_is_high(limits.lr_share):
            return
        loss = context.curves.get("loss")
        if loss is not None and (loss.lowest < 0 or has_learned(loss)):
            # Of a loss without an end nobody knows how much there is left to learn; one that has
            # fallen far has come to its end.
            return
        yield Verdict(
            subject,
            active=True,
            severity="info",
            sentence=f"The loss stopped falling at step {since:,} while the gradients "
            f"shrank to {100 * left:.0f} % of their size: the gradients become too small to learn.",
            steps=(since, observation.step),
            evidence={"norm_change": left, "points": signals.phase_points},
            advice="Look for saturated outputs, too strong weight decay or a loss scaled down; if "
            "the model has memorised the training data, stop or add data.",
        )

    @staticmethod
    def _learned(context: Context) -> float:
        """How much smaller gradients are by right: as the root of the loss that is left."""
        curve = context.curves.get("loss")
        if curve is None or curve.start is None or curve.lowest <= 0:
            return 1.0
        return min(1.0, math.sqrt(curve.recent_level(50) / curve.start))

    def _fresh(self) -> tuple[int, float] | None:
        """Where a plateau has just begun, and the remaining share of the norms before it."""
        limits, signals = self.thresholds, self._signals
        # Sooner it may be a bend.
        points = limits.points
        is_fresh = points // 2 <= signals.phase_points < 2 * points
        if signals.phase != "plateau" or not is_fresh or not signals.has_converged:
            return None
        left = signals.norm_change(points, apart=limits.apart)
        return None if left is None else (signals.phase_step, left)

    def _lasting(self, observation: Observation, context: Context) -> tuple[int, float] | None:
        """Where a known plateau began, and the remaining share of the norms before it."""
        plateau = context.open.get(("plateau", context.role_names.get("loss", "loss")))
        if plateau is None or plateau.steps is None or not self._signals.has_converged:
            return None
        points = self.thresholds.points
        left = self._signals.norm_since(plateau.steps[0], points)
        return None if left is None else (plateau.steps[0], left)

    def forget_from(self, step: int, context: Context) -> None:
        """Start again."""
        self._signals.forget()
