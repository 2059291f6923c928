"""The gradient norm grows by the same factor again and again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.learning import has_fallen_since, has_risen
from epochal.health.line_fit import fit_line
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, times
from epochal.health.thresholds import RuleThresholds

_LEAST_LOG = math.log(1e-300)
_JUMP = 0.7  # of the growth, from one quarter of the window to the next
_EVERY = 4  # points between two fits: a slope over forty hardly changes with one


class GradientAcceleration(Rule):
    """The log of the norm climbs along a line: exponential growth, before it explodes.

    Logs make the slope a growth factor, and one high norm an outlier of one point.
    """

    name = "gradient-acceleration"
    group = "gradients"
    meaning = "The gradient norm grows steadily. It often explodes later."
    healthy = "No lasting slope."
    reports = {
        "warning": (
            "The norm grows 2.5 times within 60 points, along a line, while the loss stands above "
            "its best level. On a plateau it takes 4 times the lowest norm, and 8 times while the "
            "loss falls. It is then above the norm of the first steps."
        )
    }
    needs = "The gradient norm."
    symptom_of = frozenset({"lost values", "instability"})
    kinds = CURVE_KINDS
    every_rank = False
    patience = 3
    release = 5
    cooldown_steps = 100

    class Thresholds(RuleThresholds):
        # The slope of the log of the norm over so many points...
        window: int = 60
        # ...must multiply it by 2.5 within them...
        growth: float = 2.5
        # While the loss falls, gradients of a language model triple now and then in good runs.
        grave: float = 8.0
        # On a plateau norms of small runs double and treble as the model grows sure of itself.
        on_plateau: float = 4.0
        # ...and be so many of its standard errors.
        errors: float = 6.0
        # The first norms of a run rise and fall as it finds its way.
        skip: int = 100

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._lowest: float | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the slope of the newest norms."""
        thresholds = self.thresholds
        curve = context.updated_curves.get("norm")
        if curve is None or curve.count % _EVERY or curve.is_shifting:
            return ()
        if curve.count < thresholds.skip or context.is_game:
            return ()
        window = curve.window(thresholds.window)
        if len(window) < thresholds.window:
            return ()
        grown = self._grown(window)
        fit = fit_line([math.log(value) if value > 1e-300 else _LEAST_LOG for value in window])
        growth = fit.slope * (len(window) - 1)
        is_sure = fit.slope > thresholds.errors * fit.slope_error
        if not is_sure or growth < math.log(thresholds.growth) or not _is_steady(window):
            return (Verdict(curve.name, False),)
        # Gradients grow where a loss leaves a standstill, and as a model becomes sure of itself.
        if not has_risen(context.curves.get("loss")):
            return (Verdict(curve.name, False),)
        # While the loss falls, or stands, gradients that grow a little are no fault. A loss that
        # leaves a standstill falls so fast that its phase is unstable.
        first = curve.points[-len(window)][0]
        falls = context.phase == "converging" or has_fallen_since(context.curves.get("loss"), first)
        if falls:
            grave = thresholds.grave
        else:
            grave = thresholds.on_plateau if context.phase == "plateau" else 0.0
        # Norms that fell far at first may come back to where they began.
        is_new = curve.start is None or median(window[-_EVERY:]) > curve.start
        if grown < grave or not is_new:
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, window, math.exp(growth)),)

    def _grown(self, window: list[float]) -> float:
        """The newest norms over the lowest level there was."""
        level = median(window)
        self._lowest = level if self._lowest is None else min(self._lowest, level)
        return median(window[-len(window) // 4 :]) / max(self._lowest, 1e-300)

    def _verdict(self, curve: Curve, window: list[float], factor: float) -> Verdict:
        first, last = curve.points[-len(window)][0], curve.points[-1][0]
        doubling = (last - first) * math.log(2) / math.log(factor)
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The gradient norm keeps growing: {times(factor)} times from {curve.at(first)} to "
            f"{curve.at(last)}, doubling about every {doubling:,.0f} {curve.axis}s, now "
            f"{format_number(window[-1])}.",
            evidence={"factor": factor, "norm": window[-1], "doubling": doubling},
            advice=(
                "Lower the learning rate or clip gradients before it explodes; weight decay or "
                "normalisation keeps weights from feeding the growth."
            ),
        )


def _is_steady(window: list[float]) -> bool:
    """Whether the norm grows in every quarter, and in none by most of it: other data is a jump."""
    size = len(window) // 4
    levels = [median(window[n * size : (n + 1) * size]) for n in range(4)]
    if levels[0] <= 0:
        return False
    rises = [math.log(max(after, 1e-300) / before) for before, after in pairwise(levels)]
    return min(rises) > 0 and max(rises) < _JUMP * sum(rises)
