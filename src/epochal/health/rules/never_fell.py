"""The loss is where it started."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, INPUTS_REACH_THE_OUTPUT, steps_of
from epochal.health.thresholds import RuleThresholds

_VISIBLE = 0.02  # a share of the level that a reader sees in two figures
_EVERY = 50  # points between two looks at the whole run
_LEVEL = 20  # points of the newest level
_ABOVE = 1.02  # times the first level: what a rate too high does
_RISEN = 1.2  # times the first level: a loss that rises is no matter of this rule
_TOO_HIGH = (
    "The loss is above its first level, as with a rate too high: compare with one 3 to 10 times "
    "lower. "
)
_JUST_NOW = 0.04  # of the first level: what fell so far within the newest points


@dataclass(frozen=True, slots=True)
class _Fall:
    """From the first third of a run's blocks to the last third.

    ``first`` and ``now`` are medians; ``size`` is the fall of the means and ``error`` its standard
    error; ``order`` is how many of its deviations the order of the blocks lies from chance.
    """

    first: float
    now: float
    size: float
    error: float
    order: float


class NeverFell(Rule):
    """After hundreds of points the loss has not come below its first level.

    It is a warning if the points exclude even a small fall. It is an info if noise could hide one,
    as that of few samples. A loss that reaches zero, or that of a game, need not fall.
    """

    name = "never-fell"
    group = "loss"
    meaning = (
        "The model has not learned anything. Gradients may not reach the weights, or labels may "
        "not match inputs."
    )
    healthy = "Lower after a few hundred points."
    reports = {
        "info": (
            "No fall beyond noise in 450 points and 600 steps, and the points exclude a fall of "
            "10 %. The evaluation loss has not fallen by 2 % either."
        ),
        "warning": ("The points exclude a fall of 0.5 % in 600 points, or of 2 % in 2,000."),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Nothing learned in so many points is long past any warm-up.
        points: int = 450
        steps: int = 600
        # A fall that noise may hide, of the first level: where it is larger nobody knows.
        hidden_most: float = 0.1
        # A fall is real when it is three standard errors of the difference of two thirds...
        errors: float = 3.0
        # ...or when the blocks of the two thirds are so far from one order: ten of ten are 3.8...
        order: float = 3.3
        # ...and half a percent, below which nobody would call it one.
        share: float = 0.005
        # The level of the first eight points is known to a half or, with slow noise, a whole width.
        start_widths: float = 3.0
        # The first point alone: noise is not twice the level, six widths and beyond every later
        # tail.
        first_widths: float = 6.0
        # A warning needs points that leave no room for a fall: of half a percent in six hundred,
        # of two percent in two thousand. A fine-tuning may well take longer than that to show its
        # gain.
        grave: int = 600
        hidden: float = 0.005
        long: int = 2000
        hidden_long: float = 0.02

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._fell = False
        self._curve: Curve | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the last third of the run with its first, every so many points."""
        curve = context.updated_curves.get("loss")
        if curve is None:
            return ()
        if curve is not self._curve:
            self._curve, self._fell = curve, context.is_resumed
        if self._fell or curve.count % _EVERY or context.is_game or curve.lowest <= 0:
            return ()
        limits = self.thresholds
        if curve.count < limits.points or _span(curve) < limits.steps:
            return ()
        fall = _fall(curve)
        if self._is_real(fall, curve) or _falls_elsewhere(context):
            self._fell = True
            return (Verdict(curve.name, False),)
        # What falls just now, or may have fallen by more than that, is not known to stand.
        first, now = fall.first, curve.recent_level(_LEVEL)
        has_moved = first - now > _JUST_NOW * abs(first) or now > _RISEN * first
        if has_moved or self._hidden(fall) > limits.hidden_most:
            return (Verdict(curve.name, False),)
        return (self._verdict(fall, curve, now),)

    def _is_real(self, fall: _Fall, curve: Curve) -> bool:
        thresholds = self.thresholds
        least = thresholds.share * (abs(fall.first) if curve.lowest > 0 else 0.0)
        if fall.size > max(thresholds.errors * fall.error, least):
            return True
        # Where the first third falls, the fall itself makes the error large; its order stays clear.
        if fall.first - fall.now > least and fall.order > thresholds.order:
            return True
        # What fell within the first points is seen by the very first ones only. The noise is that
        # of the lower level: taken at the start it would hide a fall by orders of magnitude.
        start = curve.start if curve.start is not None else fall.first
        noise = curve.width_at(min(start, fall.now))
        bar = max(thresholds.start_widths * noise, least)
        return start - fall.now > bar or start - _best(curve) > bar or self._is_left(curve, fall)

    def _is_left(self, curve: Curve, fall: _Fall) -> bool:
        """Whether the very first point is so high that none since came near it."""
        if curve.first is None or curve.lowest <= 0:
            return False
        thresholds = self.thresholds
        fell = curve.first - fall.now
        far = fell > thresholds.first_widths * curve.width_at(fall.now)
        return far and fell > fall.now and fell > 1.5 * curve.tail_at(fall.now)

    def _severity(self, fall: _Fall, curve: Curve) -> Severity:
        thresholds = self.thresholds
        hidden = self._hidden(fall)
        is_sure = hidden < thresholds.hidden
        is_long = curve.count >= thresholds.long
        if is_sure and curve.count >= thresholds.grave:
            return "warning"
        return "warning" if is_long and hidden < thresholds.hidden_long else "info"

    def _hidden(self, fall: _Fall) -> float:
        """The largest fall that the points do not exclude, as a share of the first level."""
        return (fall.size + self.thresholds.errors * fall.error) / abs(fall.first)

    def _verdict(self, fall: _Fall, curve: Curve, now: float) -> Verdict:
        first_at, position = curve.blocks[0].first, curve.points[-1][0]
        return Verdict(
            curve.name,
            True,
            self._severity(fall, curve),
            f"The loss {_fell_words(fall.first, now)}: {format_number(fall.first)} at first, "
            f"{format_number(now)} at {curve.at(position)}.",
            steps=steps_of(curve, first_at, position),
            evidence={"first": fall.first, "now": now, "points": curve.count},
            advice=(_TOO_HIGH if now > _ABOVE * fall.first else "")
            + (
                "Check that gradients reach the weights (optimizer.step, requires_grad, the right "
                "parameters), that labels match inputs, that the rate is neither 0 nor tiny, and "
                f"{INPUTS_REACH_THE_OUTPUT} First overfit one batch as a test."
            ),
        )


def _span(curve: Curve) -> int:
    """From the first position of the run to the newest; epochs are longer than any limit."""
    if curve.axis != "step":
        return curve.count * 1000
    return curve.points[-1][0] - curve.blocks[0].first + 1


def _falls_elsewhere(context: Context) -> bool:
    """Whether the evaluation loss is clearly below its first: then the model learns.

    A loss of pairs, of an opponent or of a growing queue need not fall for that.
    """
    curve = context.curves.get("eval_loss")
    if curve is None or curve.first is None or len(curve.points) < 2:
        return False
    newest = max(value for _, value in list(curve.points)[-2:])
    return curve.first - newest > _VISIBLE * abs(curve.first)


def _fell_words(first: float, now: float) -> str:
    if first - now > _VISIBLE * abs(first):
        return "shows no fall beyond its noise"  # lower, but by chance
    return "has not fallen from where it started"


def _fall(curve: Curve) -> _Fall:
    levels = [block.level for block in curve.blocks.all()]
    third = max(1, len(levels) // 3)
    first, last = levels[:third], levels[-third:]
    first_mean, last_mean = math.fsum(first) / third, math.fsum(last) / third
    size = first_mean - last_mean
    squares = math.fsum((v - first_mean) ** 2 for v in first)
    squares += math.fsum((v - last_mean) ** 2 for v in last)
    # Blocks of ten points have little left of what one point has in common with the next.
    error = math.sqrt(squares / max(1, 2 * third - 2) * 2 / third)
    return _Fall(median(first), median(last), size, error, _order(first, last))


def _order(first: Sequence[float], last: Sequence[float]) -> float:
    """How far two samples are from one order, in deviations of chance (Mann and Whitney's U)."""
    above = sum((a > b) + (a == b) / 2 for a in first for b in last)
    count = len(first) * len(last)
    deviation = math.sqrt(count * (len(first) + len(last) + 1) / 12)
    return (above - count / 2) / deviation


def _best(curve: Curve) -> float:
    """The lowest level of two neighbouring blocks: what fell may have come back since."""
    levels = [curve.blocks[index].level for index in range(len(curve.blocks))]
    return min(((a + b) / 2 for a, b in pairwise(levels)), default=levels[0])
