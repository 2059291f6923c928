"""Gradients of earlier steps are still in those of later ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.health.words import CURVE_KINDS, steps_of, times

_NEWEST = 10  # norms whose changes are looked at
_LEVEL = 3
_AT_ONCE = 8


class GradientsAddUp(Rule):
    """From the first step on, the norm grows by about one gradient a step, and smoothly.

    A sum of k gradients is up to k times as long as one, and the next gradient changes it by a
    k-th. Norms of single batches differ by far more than that, whatever their level does.
    """

    name = "gradients-add-up"
    group = "gradients"
    meaning = "Gradients are not reset between steps, so that each step repeats all before it."
    healthy = "The norm of one batch has nothing in common with that of the batch before."
    reports = {
        "warning": (
            "Over the first 20 to 100 steps the norm grows by a fifth of its first value per step "
            "or more. From one step to the next it changes as little as a sum would. Or it "
            "triples within 8 steps that all rise by at most one gradient."
        ),
    }
    what_to_try = "Call `optimizer.zero_grad()` in each step. Check what the optimizer holds."
    needs = "The gradient norm, from the first step on."
    silenced_by = ("nonfinite",)
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Steps from the first: earlier every norm may grow so, later a sum turns round.
        first: int = 20
        last: int = 100
        # Growth per step, as a share of the first norm: gradients of the first steps agree.
        growth: float = 0.2
        # The usual change from one step to the next, times the steps so far.
        change: float = 2.2
        # So many times the first norm within eight steps that all rise: a sum that turns soon.
        at_once: float = 3.0
        # Checks in favour, one every five points, and their share of all.
        checks: int = 5
        share: float = 0.7

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._begin(None)

    def _begin(self, curve: Curve | None) -> None:
        self._curve = curve
        self._hits = self._checks = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the first norms of a run, every few points."""
        curve = context.updated_curves.get("norm")
        if curve is None or curve.axis != "step" or context.is_resumed or context.is_game:
            return ()
        if curve is not self._curve:
            self._begin(curve)
        first, position = curve.points[0][0], curve.points[-1][0]
        count = position - first + 1
        limits = self.thresholds
        if curve.count == count == _AT_ONCE and self._piles_up(curve.window(count)):
            return (self._verdict(curve, curve.points[0][1], curve.points[-1][1]),)
        if curve.count > len(curve.points) or not limits.first <= count <= limits.last:
            return ()
        if curve.count % 5 or curve.count < _NEWEST + _LEVEL:
            return ()
        values = curve.window(curve.count)
        self._checks += 1
        self._hits += self._adds_up(values, count)
        if self._hits < max(limits.checks, limits.share * self._checks):
            return ()
        return (self._verdict(curve, values[0], median(values[-_LEVEL:])),)

    def _piles_up(self, values: Sequence[float]) -> bool:
        """Whether each of the first norms is larger than the last, by no more than one gradient."""
        rises = [b - a for a, b in pairwise(values)]
        most = 1.1 * values[0]
        is_steady = min(rises) > 0 and max(rises) < most
        return is_steady and values[-1] > self.thresholds.at_once * values[0]

    def _adds_up(self, values: Sequence[float], count: int) -> bool:
        limits, start = self.thresholds, median(values[:_LEVEL])
        newest = values[-_NEWEST:]
        if start <= 0 or min(newest) <= 0:
            return False
        gap = count / len(values)
        growth = median(newest[-_LEVEL:]) / start / count
        change = median(abs(math.log(b) - math.log(a)) for a, b in pairwise(newest)) * len(values)
        return growth > limits.growth and change < limits.change * max(1.0, gap)

    def _verdict(self, curve: Curve, first: float, now: float) -> Verdict:
        begin, position = curve.points[0][0], curve.points[-1][0]
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The gradient norm grows with every step, from {format_number(first)} at "
            f"{curve.at(begin)} to {format_number(now)} at {curve.at(position)} "
            f"({times(now / first)} times), and as smoothly as a sum: gradients add up.",
            steps=steps_of(curve, begin, position),
            evidence={"first": first, "now": now},
            advice=(
                "Call optimizer.zero_grad() in each step. If it is called, some parameters that "
                "get gradients are not in the optimizer, and are neither trained nor reset: "
                "compare its parameters with the model's."
            ),
        )
