"""Advice: the rate had to be cut while many experts were idle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.signals import AdviceThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "lr"  # the series it is shown at
_UTILIZATION = "moe/expert_utilization"


class AdviceGuard(Rule):
    """A guard cut the rate and few experts were used just then: routing, not the rate, is at fault.

    Over when some time has passed without another cut.
    """

    name = "advice-guard"
    group = "advice"
    meaning = "The routing, not the learning rate, may have caused the jump of the loss."
    healthy = "A `LossGuard` cuts the rate only while the experts are in use."
    reports = {"info": "A `LossGuard` cut the learning rate within ten steps of idle experts."}
    what_to_try = "Check the routing before you lower the learning rate."
    silenced_by = ("nonfinite", "divergence")
    kinds = frozenset({"event", "moe", "step"})
    every_rank = False

    class Thresholds(AdviceThresholds):
        utilization: float = 0.8
        steps: int = 10

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._cut_at: int | None = None
        self._use: tuple[int, float] | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check when a cut and a figure of the experts are close together."""
        limits = self.thresholds
        step, subject = observation.step, context.role_names.get(_ROLE, _ROLE)
        if observation.kind == "event":
            if observation.record.get("name") != "lr-cut":
                return ()
            at = observation.record.get("at_step", step)
            self._cut_at = at if isinstance(at, int) else context.step
        else:
            use = observation.values.get(_UTILIZATION)
            if use is not None and step is not None and math.isfinite(use):
                self._use = (step, use)
        if self._cut_at is None:
            return ()
        if self._use is not None and self._use[1] < limits.utilization:
            apart = abs(self._use[0] - self._cut_at)
            if apart <= limits.steps:
                return (self._described(subject, self._cut_at, self._use[1]),)
        if step is not None and step > self._cut_at + limits.cooldown:
            self._cut_at = None
            return (Verdict(subject, active=False),)
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """Forget a cut that is void."""
        self._cut_at = self._use = None

    @staticmethod
    def _described(subject: str, at: int, use: float) -> Verdict:
        return Verdict(
            subject,
            active=True,
            severity="info",
            sentence=f"The rate was cut at step {at:,} while only {100 * use:.0f} % of the experts "
            "were in use: the routing may have caused the jump.",
            steps=(at, at),
            evidence={"utilization": use, "step": at},
            advice="Improve the balance of the experts (balancing loss, router noise) rather than "
            "lowering the rate for all.",
        )
