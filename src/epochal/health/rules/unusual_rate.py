"""The learning rate is far from what the optimizer is used with, and the loss agrees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, stdev
from typing import Any

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import configured
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, steps_of
from epochal.health.thresholds import RuleThresholds

# Learning rates that optimizers are used with, by the name of the optimizer.


@dataclass(frozen=True, slots=True)
class UsualRates:
    """An optimizer as people call it, and the range of its usual peak rates.

    Steps of an adaptive one do not depend on the scale of the loss.
    """

    optimizer: str
    lowest: float
    highest: float
    is_adaptive: bool = True


# From what papers and libraries train networks with from scratch; fine-tuning goes lower. Plain SGD
# is not here: its rate depends on the scale of the loss. Nor are optimizers that find their rate.
_ADAM = UsualRates("Adam", 1e-4, 0.01)
_MOMENTUM = UsualRates("SGD with momentum", 0.01, 0.3, is_adaptive=False)
_USUAL: dict[str, UsualRates] = {
    **dict.fromkeys(("adam", "adamw", "nadam", "radam", "adamax", "fusedadam", "cpuadam"), _ADAM),
    "rmsprop": UsualRates("RMSprop", 1e-4, 0.01),
    "lion": UsualRates("Lion", 3e-5, 0.003),
    "adagrad": UsualRates("Adagrad", 0.01, 0.3),
    "adafactor": UsualRates("Adafactor", 0.001, 0.03),
    "momentum": _MOMENTUM,
    "nesterov": _MOMENTUM,
}


def usual_rates(config: Mapping[str, Any]) -> UsualRates | None:
    """The usual rates of the configured optimizer; None if there is none that is known."""
    names = (value for value in configured(config, part="optim") if isinstance(value, str))
    words = re.findall("[a-z]+", next(names, "").lower())
    found = next((_USUAL[word] for word in words if word in _USUAL), None)
    if found is None and "sgd" in words:
        momenta = configured(config, ("momentum",))
        has_momentum = any(isinstance(one, (int, float)) and one > 0 for one in momenta)
        return _MOMENTUM if has_momentum else None
    return found


_EVERY = 50  # points between two looks
_ROUNDING = 1.01  # a tenth of a rate is not always a tenth to the last digit
_LOWER = (
    "Compare with a learning rate 10 times lower, warmed up over the first 1 to 5 % of the steps."
)
_RAISE = (
    "If the model is trained from scratch, raise the learning rate 10 times and compare. To "
    "fine-tune a pretrained model, a low rate may be right."
)


@dataclass(frozen=True, slots=True)
class _Course:
    """The loss at first, in the second quarter of the points and in the last quarter.

    ``highest`` is the highest level within the first quarter, ``error`` the standard error of the
    difference of the other two.
    """

    first: float
    highest: float
    start: float
    early: float
    late: float
    error: float

    @property
    def gained(self) -> float:
        return max(0.0, self.start - self.late)


class UnusualRate(Rule):
    """A peak rate outside the usual range of the optimizer, and a loss that shows it.

    A high rate alone is no fault: tables of vectors are trained so, and small networks, up to ten
    times beyond the range. With steps too large, a loss falls at first and then stands, or stands
    above its start. With steps too small it still falls, slowly, or has not begun to. The loss of a
    game measures nothing: there only the rate counts.
    """

    name = "unusual-rate"
    group = "learning rate"
    meaning = "The learning rate is far from what the optimizer is used with."
    healthy = "A peak within the usual range of the optimizer, or a loss that keeps falling."
    reports = {
        "info": (
            "The peak rate is more than 12 times the highest usual one of the optimizer. Or it is "
            "more than twice that, and after 300 steps and 100 points the loss is above its start. "
            "Or it is so, and after 300 points less than 2 % of the loss's gain came after the "
            "first quarter of them. Or it is so, and within that quarter the loss rose to 1.25 "
            "times its first. Or the peak is a tenth of the lowest usual rate or less, and "
            "the loss still falls or has not fallen by 5 %. That is not said of SGD with a loss "
            "that starts above 100."
        )
    }
    needs = (
        "The learning rate, logged as for `no-warmup`, and the name of the optimizer in the "
        "configuration."
    )
    symptom_of = frozenset({"lost values", "standstill"})
    kinds = CURVE_KINDS
    every_rank = False
    patience = 2

    class Thresholds(RuleThresholds):
        points: int = 300
        # Where not every step is logged, fewer points tell that a loss is above its start.
        few: int = 100
        # Of the highest usual rate: high, and beyond what any healthy training needs. The best
        # rates of 107 kinds of training are up to 9 times the highest usual one.
        high: float = 2.0
        far: float = 12.0
        # Of all gain so far: what came after the first quarter of the points, at high rates. In
        # health 3 % and more.
        gain: float = 0.02
        # Of the very first loss: the level that it rose to within the first quarter of the points.
        # In health at high rates at most 1.01.
        rise: float = 1.25
        # Of the lowest usual rate.
        low: float = 0.1
        # Of the peak: the rate has not been lowered by plan.
        share: float = 0.4
        # A loss that still falls does so by this share of its gain and so many errors; one that
        # has not begun to has fallen by less than this share of its start.
        falls: float = 0.05
        errors: float = 4.0
        begun: float = 0.05
        # Where targets have large units, gradients are as large, and the usual rates of optimizers
        # that follow them are too high.
        large_loss: float = 100.0

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the rate with the usual ones, and two quarters of the loss, every few points."""
        curve, peak, limits = context.updated_curves.get("loss"), context.rate.peak, self.thresholds
        if curve is None or curve.count % _EVERY or curve.count < limits.few:
            return ()
        usual = usual_rates(context.config)
        if usual is None or not peak or context.is_resumed:
            return ()
        course, times = _course(curve), peak / usual.highest
        if times > limits.far:
            return (self._high(curve, peak, usual, course),)
        is_early = curve.count < limits.points
        passed = curve.points[-1][0] - (context.first_step or 0)
        if is_early and passed < limits.points:
            return ()
        shows = self._is_stuck(course, is_early) or self._has_risen(course)
        if times > limits.high and not context.is_game and shows:
            return (self._high(curve, peak, usual, course),)
        is_low = peak <= _ROUNDING * limits.low * usual.lowest and not (
            course.start > limits.large_loss and not usual.is_adaptive
        )
        is_slow = context.is_game or self._is_slow(course)
        if is_low and is_slow and context.rate.is_near_peak(limits.share):
            return (self._low(curve, peak, usual, course),)
        return (Verdict(curve.name, False),)

    def _is_stuck(self, course: _Course, is_early: bool) -> bool:
        if is_early:
            return not course.gained
        return course.early - course.late <= self.thresholds.gain * course.gained

    def _has_risen(self, course: _Course) -> bool:
        return course.first > 0 and course.highest > self.thresholds.rise * course.first

    def _is_slow(self, course: _Course) -> bool:
        limits, fall = self.thresholds, course.early - course.late
        falls = fall > max(limits.falls * course.gained, limits.errors * course.error)
        return falls or course.gained < limits.begun * abs(course.start)

    def _high(self, curve: Curve, peak: float, usual: UsualRates, course: _Course) -> Verdict:
        start, early, late = map(format_number, (course.start, course.early, course.late))
        if not course.gained:
            how = f"is above its start: {start} at first, {late} now"
        elif self._has_risen(course):
            first, highest = format_number(course.first), format_number(course.highest)
            how = f"rose from {first} to {highest} at first, and is {late}"
        else:
            how = f"was {start} at first, then {early}, and is {late}"
        return _verdict(curve, peak, usual, f"The loss {how}. The rate may be too high.", _LOWER)

    @staticmethod
    def _low(curve: Curve, peak: float, usual: UsualRates, course: _Course) -> Verdict:
        start, late = format_number(course.start), format_number(course.late)
        how = f"The loss was {start} at first and is {late} after {curve.count:,} points."
        return _verdict(curve, peak, usual, f"{how} The rate may be too small.", _RAISE)


def _verdict(curve: Curve, peak: float, usual: UsualRates, what: str, advice: str) -> Verdict:
    return Verdict(
        curve.name,
        True,
        "info",
        f"The learning rate reached {peak:.3g}, and {usual.optimizer} is used with "
        f"{usual.lowest:g} to {usual.highest:g}. {what}",
        steps=steps_of(curve, curve.blocks[0].first, curve.points[-1][0]),
        evidence={"rate": peak, "lowest": usual.lowest, "highest": usual.highest},
        advice=advice,
    )


def _course(curve: Curve) -> _Course:
    levels = [block.level for block in curve.blocks.all()]
    quarter = max(2, len(levels) // 4)
    early, late = levels[quarter : 2 * quarter], levels[-quarter:]
    start = levels[0] if curve.start is None else curve.start
    first, highest = levels[0] if curve.first is None else curve.first, max(levels[:quarter])
    return _Course(first, highest, start, median(early), median(late), _error(early, late))


def _error(*parts: Sequence[float]) -> float:
    return math.hypot(*(stdev(part) / math.sqrt(len(part)) for part in parts))
