"""Rewards are far larger than what networks are made for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_WORDS = ("return", "reward")


class LargeReturns(Rule):
    """The loss of a reinforcement learning is that of values in the hundreds or more.

    A network starts with outputs of about 1 and changes them by a few per cent a step. The root of
    a squared error says how far its targets are.
    """

    name = "large-returns"
    group = "loss"
    meaning = "The targets of the value network are far from the range of its outputs."
    healthy = "Returns between about -10 and 10, by scaling or normalising rewards."
    reports = {
        "warning": (
            "The loss of the first 20 points is above 10,000 in a run with rewards or returns. "
            "So is the loss of the last 20 after 200 points."
        )
    }
    needs = "A series whose name contains `reward` or `return`."
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        loss: float = 1e4
        points: int = 200

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._has_rewards = False
        self._first: list[float] = []

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the first losses and those after some time."""
        if not self._has_rewards:
            names = " ".join(observation.values).lower()
            self._has_rewards = any(word in names for word in _WORDS)
        loss = observation.roles.get("loss")
        if loss is None or not math.isfinite(loss) or observation.step is None:
            return ()
        if len(self._first) < 20:
            self._first.append(loss)
        curve, limits = context.curves.get("loss"), self.thresholds
        if curve is None or not self._has_rewards or curve.count < limits.points:
            return ()
        if curve.count % 50:
            return ()
        first, now = median(self._first), curve.recent_level(20)
        if min(first, now) < limits.loss:
            return (Verdict(curve.name, False),)
        size = math.sqrt(now)
        return (
            Verdict(
                curve.name,
                True,
                "warning",
                f"The loss started at {format_number(first)} and is {format_number(now)}: values "
                f"miss their targets by about {format_number(size)}. Rewards of this scale are too "
                "large for the network.",
                steps=(curve.points[0][0], observation.step),
                evidence={"first": first, "now": now},
                advice=(
                    "Scale the rewards so that returns lie between about -10 and 10, or normalise "
                    "them by a running deviation; a Huber loss and clipped gradients help too."
                ),
            ),
        )
