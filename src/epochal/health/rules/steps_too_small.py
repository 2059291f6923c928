"""The loss falls in a straight line, and hardly: the steps are too small."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median, stdev

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, percent, steps_of
from epochal.health.thresholds import RuleThresholds

_EVERY = 50  # points between two looks
_RAISE = (
    "Raise the learning rate 3 to 10 times, and again while the loss still falls in a straight "
    "line. Check that neither clipping nor a scaled loss makes steps small."
)


class StepsTooSmall(Rule):
    """A loss that has fallen by a few per cent, as fast in the end as in the beginning.

    Training bends its loss: it falls fast and then slowly. A straight line means that the steps
    have not left the place where the training started. Evaluations of the same samples say it
    without noise: each is lower than the one before, by as much as the rate accounts for.
    """

    name = "steps-too-small"
    group = "learning rate"
    meaning = "The steps are far too small for the way the training has to go."
    healthy = "The loss falls fast at first, and then ever more slowly."
    reports = {
        "info": (
            "Each of 11 evaluations or more, over 200 steps, is below the one before. Per step and "
            "rate the loss falls evenly, and by less than 37 % in all."
        ),
        "warning": (
            "After 450 points the loss has fallen by less than 5 %, beyond doubt. From the second "
            "third to the last it falls by half of what it fell before or more. A warm-up has "
            "ended within the first third. Or evaluations fall evenly, by less than 5 %."
        ),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
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
        # Evaluations that tell, the most that they fall, and the last fall over the first: what
        # falls faster and faster leaves a standstill.
        evals: int = 11
        eval_steps: int = 200
        last_evals: int = 40
        most_evals: float = 0.37
        bent: float = 0.25
        speeding: float = 1.1
        # How much one fall differs from the next: steps of a usual size scatter twice as much.
        even: float = 0.17

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._way = 0.0  # the sum of the rates so far
        self._position: int | None = None
        self._evals: list[tuple[int, float, float]] = []  # step, way and loss

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the three thirds of the run so far, and the falls between evaluations."""
        curve, evaluation = (context.updated_curves.get(name) for name in ("loss", "eval_loss"))
        if context.is_resumed or context.is_game:
            return
        if curve is not None:
            self._go_on(curve, context)
            yield from self._judge_losses(curve, context)
        if evaluation is not None and evaluation.axis == "step":
            yield from self._judge_evaluations(evaluation, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._way, self._position = 0.0, None
        self._evals.clear()

    def _go_on(self, curve: Curve, context: Context) -> None:
        position = curve.points[-1][0]
        passed = 1 if self._position is None else position - self._position
        rate = context.rate.latest
        self._way += passed * (1.0 if rate is None else rate)
        self._position = position

    def _judge_evaluations(self, evaluation: Curve, context: Context) -> Iterable[Verdict]:
        train, limits = context.curves.get("loss"), self.thresholds
        position, loss = evaluation.points[-1]
        self._evals.append((position, self._way, loss))
        count = len(self._evals)
        if train is None or not limits.evals <= count <= limits.last_evals:
            return
        if position - self._evals[0][0] < limits.eval_steps:
            return
        if not train.start or min(train.lowest, evaluation.lowest) <= 0:
            return
        first = self._evals[0][2]
        share = max(1 - loss / first, 1 - loss / train.start)
        if share < limits.most_evals and self._is_even():
            yield self._describe_evaluations(evaluation, context, 1 - loss / first)
        else:
            yield Verdict(evaluation.name, False)

    def _is_even(self) -> bool:
        """Whether each evaluation is below the one before, by as much as the rates account for."""
        falls = []
        for (_, way, loss), (_, later, lower) in pairwise(self._evals):
            if later <= way or lower >= loss:
                return False
            falls.append((loss - lower) / (later - way))
        limits, third = self.thresholds, len(falls) // 3
        change = median(abs(b - a) for a, b in pairwise(falls)) / median(falls)
        bend = fmean(falls[-third:]) / fmean(falls[:third])
        return change < limits.even and limits.bent < bend < limits.speeding

    def _judge_losses(self, curve: Curve, context: Context) -> Iterable[Verdict]:
        limits = self.thresholds
        if curve.count % _EVERY:
            return ()
        if not limits.points <= curve.count <= limits.last or curve.lowest <= 0:
            return ()
        rate = context.rate
        if rate.peak is not None and not rate.is_near_peak(limits.rate):
            return ()
        first_at, position = curve.points[0][0], curve.points[-1][0]
        if rate.peak_since is not None and 3 * (rate.peak_since - first_at) > position - first_at:
            return ()  # steps of a warm-up are small on purpose
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

    def _describe_evaluations(self, evaluation: Curve, context: Context, share: float) -> Verdict:
        (begin, _, first), (position, _, now) = self._evals[0], self._evals[-1]
        rate = context.rate.peak
        told = f" at a peak rate of {format_number(rate)}" if rate else ""
        evidence: dict[str, float | int | str] = {"first": first, "now": now}
        if rate is not None:
            evidence["rate"] = rate
        return Verdict(
            evaluation.name,
            True,
            "warning" if share < self.thresholds.most else "info",
            f"The evaluation loss falls evenly and slowly{told}, from {format_number(first)} to "
            f"{format_number(now)} in {len(self._evals)} evaluations: the steps may be too small.",
            steps=(begin, position),
            evidence=evidence,
            advice=_RAISE,
        )

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
            advice=_RAISE,
        )
