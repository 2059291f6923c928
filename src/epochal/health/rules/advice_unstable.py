"""Advice: a training that diverges together with its routing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.health.causes import OF_INSTABILITY
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.signals import AdviceThresholds, Signals

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "loss"  # the series it is shown at
_ROUTING_RULES = ("moe-imbalance", "moe-collapse")


class AdviceUnstable(Rule):
    """Loss and gradients rise while the routing is unhealthy: the router is the first to mend."""

    name = "advice-unstable"
    group = "advice"
    meaning = "The routing is the likely cause of a rising loss."
    healthy = "A balanced load while the loss falls."
    reports = {"warning": "Loss and gradients rise while the experts are badly balanced."}
    what_to_try = "Fix the balance of the routers first."
    silenced_by = ("nonfinite", "divergence")
    explained_by = OF_INSTABILITY
    kinds = frozenset({"step", "metrics"})
    every_rank = False

    class Thresholds(AdviceThresholds):
        # Points of the gradient norm: medians of fifty stray by a few percent of it, so that flat
        # is a change of less than a sixth.
        flat_points: int = 50
        # And rising is more than noise makes of it.
        rise_factor: float = 1.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.cooldown_steps = thresholds.cooldown
        self._signals = Signals(points=2 * thresholds.flat_points)

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check one point."""
        limits, signals = self.thresholds, self._signals
        if not signals.observe(observation, context) or observation.step is None:
            return
        subject = context.role_names.get(_ROLE, _ROLE)
        routing = [rule for rule in _ROUTING_RULES if context.has_open(rule)]
        if signals.phase not in ("diverging", "unstable") or not routing:
            yield Verdict(subject, active=False)
            return
        change = signals.norm_change(limits.flat_points)
        if change is None or change < limits.rise_factor:
            return
        yield Verdict(
            subject,
            active=True,
            sentence=f"The training has been {signals.phase} since step {signals.phase_step:,}, "
            f"gradients have grown {change:.1f} times, and its experts are badly balanced: the "
            "routing is the likely cause.",
            steps=(signals.phase_step, observation.step),
            evidence={"norm_change": change, "phase": signals.phase, "routing": routing[0]},
            advice="Resume from the last good checkpoint with half the rate for the routers and a "
            "larger z loss; clip gradients.",
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Start again."""
        self._signals.forget()
