"""The learning rate is next to nothing while the training goes on."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS
from epochal.health.thresholds import RuleThresholds


class RateEnded(Rule):
    """The rate was at work for a while, and has been next to nothing for longer than that.

    A schedule that ends at the end of its run is never below its limit for that long.
    """

    name = "rate-ended"
    group = "learning rate"
    meaning = "The schedule ended long before the training. Later steps change nothing."
    healthy = "The rate is above a thousandth of its peak for most of the run."
    reports = {
        "warning": (
            "The rate is 0 for the first 30 points. Or it has been below a thousandth of its peak "
            "for 50 points, and for longer than it was above."
        )
    }
    needs = "The learning rate, logged as for `no-warmup`."
    causes = frozenset({"standstill"})
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Of its peak. A cosine is below this for the last two hundredths of a run only.
        share: float = 0.001
        # Points: fewer are the end of a run, or the beginning of a warm-up.
        points: int = 50
        zero_points: int = 30

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._begin()

    def _begin(self) -> None:
        self._peak = 0.0
        self._above = 0
        self._below = 0
        self._since = 0
        self._began = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Count the points above and below the limit."""
        rate = observation.roles.get("lr")
        if rate is None or observation.step is None or not math.isfinite(rate):
            return ()
        if not self._above and not self._below:
            self._began = observation.step
        self._peak = max(self._peak, rate)
        name = context.role_names["lr"]
        if rate > self.thresholds.share * self._peak:
            self._above += 1
            self._below = 0
            return (Verdict(name, False),)
        if not self._below:
            self._since = observation.step
        self._below += 1
        limits = self.thresholds
        least = max(limits.points, self._above) if self._above else limits.zero_points
        if self._below < least:
            return ()
        return (self._verdict(name, rate, observation.step),)

    def forget_from(self, step: int, context: Context) -> None:
        """A resumed run may have another schedule."""
        self._begin()

    def _verdict(self, name: str, rate: float, step: int) -> Verdict:
        evidence = {"rate": rate, "peak": self._peak, "since_step": self._since}
        if rate == 0:
            before = f", after {format_number(self._peak)} before" if self._peak > 0 else ""
            sentence = (
                f"The learning rate is 0 since step {self._since:,}{before}: "
                "the weights no longer change."
            )
        else:
            sentence = (
                f"The learning rate fell from {format_number(self._peak)} to less than a "
                f"thousandth of it within {self._since - self._began:,} steps, and stays there: "
                f"{format_number(rate)} now. Later steps change next to nothing."
            )
        return Verdict(
            name,
            True,
            "warning",
            sentence,
            steps=(self._since, step),
            evidence=evidence,
            advice=(
                "Check the schedule: its number of steps, and its unit. A schedule in epochs that "
                "takes a step per batch, or one made for fewer steps, ends this early."
            ),
        )
