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
from epochal.health.text import CLIPPED, CURVE_KINDS, steps_of, times
from epochal.health.thresholds import RuleThresholds

_NEWEST = 10  # norms whose changes are looked at
_LEVEL = 3
_AT_ONCE = 8
_SOONEST = 6  # norms that all rise: later ones of a large rate may turn round
_SURE = 12  # norms after which it is clear that it was no chance
_WIDEST = 3  # steps from one logged norm to the next
_WIDEST_SUM = 5  # the same for the smoothness of a long sum
_WINDOW, _EVERY = 40, 20  # points of a look at the smoothness of a long sum
_KEPT = "gradients-kept"  # an event of a watched model
_RESET = (
    "Call optimizer.zero_grad() in each step. If it is called, some parameters that get gradients "
    "are not in the optimizer, and are neither trained nor reset: compare its parameters with the "
    "model's."
)


class GradientsAddUp(Rule):
    """A watched model tells that gradients are kept; without one, the norm is judged.

    From the first step on, it grows by about one gradient a step, and smoothly.
    A sum of k gradients is up to k times as long as one, and the next gradient changes it by a
    k-th. Norms of single batches differ by far more than that, whatever their level does.
    """

    name = "gradients-add-up"
    group = "gradients"
    meaning = "Gradients are not reset between steps, so that each step repeats all before it."
    healthy = "The norm of one batch has nothing in common with that of the batch before."
    reports = {
        "warning": (
            "With `epochal.watch(model)`: five steps in a row begin with the gradients of the "
            "step before. By the norm alone: over the first 20 to 100 steps it grows by a fifth "
            "to 5 times its first value per step. From one step to the next it changes as little "
            "as a sum would. Or it triples within 6 to 8 steps that all rise by at most one "
            "gradient, and stays smooth or high until the twelfth. Or for 8 steps it is the first "
            "gradient on top of the clipped sum. Or at any time it is 5 times its first value, "
            "and 25 times smoother than the loss of the same batches."
        )
    }
    needs = "`epochal.watch(model)`, or the gradient norm from the first step on."
    causes = frozenset({"instability", "standstill"})
    symptom_of = frozenset({"lost values"})
    kinds = CURVE_KINDS | {"event"}
    every_rank = False

    class Thresholds(RuleThresholds):
        # Steps from the first: earlier every norm may grow so, later a sum turns round.
        first: int = 20
        last: int = 100
        # Growth per step, as a share of the first norm: gradients of the first steps agree.
        growth: float = 0.2
        # More than gradients like the first can add: they grow themselves.
        most_growth: float = 5.0
        # The usual change from one step to the next, times the steps so far.
        change: float = 2.2
        # So many times the first norm within eight steps that all rise: a sum that turns soon.
        at_once: float = 3.0
        # The usual change between the norms after that, or how many first norms they have at least.
        smooth: float = 0.2
        higher: float = 4.0
        # Of a sum that is clipped in each step: how far a norm may be from the limit and the first
        # norm together, and how much more than the first norm that must be.
        capped: float = 0.1
        above: float = 1.3
        # Checks in favour, one every five points, and their share of all.
        checks: int = 5
        share: float = 0.7
        # Of a long sum: over its first value, its usual bend as a share of it, and that of the loss
        # over it. Of single batches the norm is at most seven times smoother than the loss.
        long: float = 5.0
        bend: float = 0.01
        smoother: float = 25.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._is_known = False  # by the event: nothing is left to be judged
        self._begin(None)

    def _begin(self, curve: Curve | None) -> None:
        self._curve = curve
        self._limit = 0.0  # the largest norm after clipping
        self._hits = self._checks = 0
        self._pile: tuple[int, float] | None = None  # where the first norms had piled up

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Take the word of a watched model, or check the first norms of a run, every few points."""
        if observation.kind == "event":
            return self._judge_event(observation, context)
        curve = context.updated_curves.get("norm")
        if self._is_known or curve is None or curve.axis != "step" or context.is_resumed:
            return ()
        if curve.count % _EVERY == 0 and self._is_long_sum(curve, context.curves.get("loss")):
            return (self._verdict(curve, self._start(curve), curve.recent_level(_LEVEL)),)
        if context.is_game:
            return ()
        if curve is not self._curve:
            self._begin(curve)
        first, position = curve.points[0][0], curve.points[-1][0]
        count = position - first + 1
        limits = self.thresholds
        self._limit = max(self._limit, observation.values.get(CLIPPED, 0.0))
        if _SOONEST <= curve.count <= _AT_ONCE and not self._pile and self._piles_up(curve):
            self._pile = curve.points[-1]
        if self._pile and curve.count == _SURE and self._goes_on(curve.window(_SURE)):
            position, now = self._pile
            return (self._verdict(curve, curve.points[0][1], now, position),)
        if curve.count == count == _AT_ONCE and self._is_capped_sum(curve.window(count)):
            return (self._capped_verdict(curve),)
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

    def forget_from(self, step: int, context: Context) -> None:
        """A new attempt may be of another script."""
        self._is_known = False

    def _judge_event(self, event: Observation, context: Context) -> Iterable[Verdict]:
        if event.record.get("name") != _KEPT:
            return
        self._is_known = True
        steps, position = event.count_of("steps"), event.count_of("at_step")
        yield Verdict(
            context.role_names.get("norm", "grads"),
            True,
            "warning",
            f"Gradients add up: {steps:,} steps in a row, up to step {position:,}, began with the "
            "gradients of the step before. Nothing resets them.",
            steps=(max(0, position - steps), position),
            evidence={"steps": steps, "parameter": str(event.record.get("parameter"))},
            advice="Call optimizer.zero_grad() in each step, on every optimizer.",
        )

    @staticmethod
    def _start(curve: Curve) -> float:
        return curve.first if curve.first is not None else curve.points[0][1]

    def _is_long_sum(self, curve: Curve, loss: Curve | None) -> bool:
        """Whether the norm has grown, and bends far less than the loss of the same batches."""
        limits = self.thresholds
        if loss is None or min(curve.count, loss.count) < _WINDOW:
            return False
        norms, losses = curve.window(_WINDOW), loss.window(_WINDOW)
        if curve.points[-1][0] - curve.points[-_WINDOW][0] > _WIDEST_SUM * (_WINDOW - 1):
            return False  # too many steps in between are not logged
        if min(norms) < limits.long * self._start(curve) or self._start(curve) <= 0:
            return False
        bend = _bend(norms)
        return 0 < bend < limits.bend and _bend(losses) > limits.smoother * bend

    def _piles_up(self, curve: Curve) -> bool:
        """Whether each of the first norms is larger than the last, by no more than one gradient."""
        values = curve.window(curve.count)
        gaps = {b - a for (a, _), (b, _) in pairwise(curve.points)}
        gap = max(gaps)
        if len(gaps) > 1 or gap > _WIDEST:
            return False
        rises = [b - a for a, b in pairwise(values)]
        # The second gradient is like the first; norms that explode hardly rise at first.
        is_steady = min(rises) > 0 and max(rises) < 1.1 * gap * values[0] < 3.5 * rises[0]
        return is_steady and values[-1] > self.thresholds.at_once * gap * values[0]

    def _goes_on(self, values: Sequence[float]) -> bool:
        """Whether the norms after a rise are still those of a sum: smooth, or far higher yet."""
        newest, limits = values[-_AT_ONCE + 2 :], self.thresholds
        changes = [abs(math.log(b) - math.log(a)) for a, b in pairwise(newest) if min(a, b) > 0]
        is_smooth = bool(changes) and median(changes) < limits.smooth
        return is_smooth or min(values[-_LEVEL:]) > limits.higher * values[0]

    def _is_capped_sum(self, values: Sequence[float]) -> bool:
        """Whether each norm is that of the first gradient on top of the clipped sum so far.

        Clipping shortens the sum in each step, so that it does not grow.
        """
        limits, first, cap = self.thresholds, values[0], self._limit
        if first <= 0 or cap <= 0 or min(values[2:]) <= cap:
            return False
        for before, norm in pairwise(values):
            expected = first + min(before, cap)
            if expected < limits.above * first or abs(norm / expected - 1) > limits.capped:
                return False
        return True

    def _adds_up(self, values: Sequence[float], count: int) -> bool:
        limits, start = self.thresholds, median(values[:_LEVEL])
        newest = values[-_NEWEST:]
        if start <= 0 or min(newest) <= 0:
            return False
        gap = count / len(values)
        growth = median(newest[-_LEVEL:]) / start / count
        change = median(abs(math.log(b) - math.log(a)) for a, b in pairwise(newest)) * len(values)
        is_sum = limits.growth < growth < limits.most_growth
        return is_sum and change < limits.change * max(1.0, gap)

    def _verdict(
        self, curve: Curve, first: float, now: float, position: int | None = None
    ) -> Verdict:
        begin = curve.points[0][0]
        position = curve.points[-1][0] if position is None else position
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The gradient norm grows with every step, from {format_number(first)} at "
            f"{curve.at(begin)} to {format_number(now)} at {curve.at(position)} "
            f"({times(now / first)} times), and as smoothly as a sum: gradients add up.",
            steps=steps_of(curve, begin, position),
            evidence={"first": first, "now": now},
            advice=_RESET,
        )

    def _capped_verdict(self, curve: Curve) -> Verdict:
        (begin, first), (position, now) = curve.points[0], curve.points[-1]
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The gradient norm rises from {format_number(first)} at {curve.at(begin)} to "
            f"{format_number(now)} at {curve.at(position)}: a new gradient on top of what was "
            f"clipped to {format_number(self._limit)} before. Gradients add up.",
            steps=steps_of(curve, begin, position),
            evidence={"first": first, "now": now, "limit": self._limit},
            advice=_RESET,
        )


def _bend(values: Sequence[float]) -> float:
    """How far a point usually lies from the line between its neighbours, as a share of it."""
    threes = zip(values, values[1:], values[2:], strict=False)
    level = abs(median(values))
    return median(abs(a - 2 * b + c) for a, b, c in threes) / level if level > 0 else 0.0
