"""The learning rate starts at its peak, and the loss shoots up at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, steps_of
from epochal.health.thresholds import RuleThresholds

# Points: the very start, a level that one batch cannot make, and one that a handful cannot.
_FIRST, _NEWEST = 3, (5, 15)
_LOST = 10.0  # times the first loss: more than a shock
_ADVICE = (
    "Let the rate rise linearly over the first 1 to 5 % of the steps, or start with a tenth of it."
)
_ADVICE_LOST = (
    "Start again with a rate 10 times lower that warms up over the first 1 to 5 % of the steps. "
    "If the loss explodes again, check that optimizer.zero_grad() is called in each step, and the "
    "sign of the loss."
)
_APART = 10  # points between two values, to see noise that changes slowly


class NoWarmup(Rule):
    """No warm-up and a loss that soon rises above its start.

    A rate that starts at its peak is no fault by itself: only the shock it gives is.
    """

    name = "no-warmup"
    group = "learning rate"
    meaning = "The optimizer took full steps before it knew the scale of the gradients."
    healthy = (
        "The rate rises over 1 to 5 % of the steps. Or there is no warm-up and the loss falls."
    )
    reports = {
        "warning": (
            "The rate starts at its peak. Within 120 points the loss is a tenth and 3 to 4 widths "
            "above its start. The gradient norm, if it is known, has doubled and grew 1.6 times as "
            "much as the loss, or 4 times. 2.2 to 3 widths are enough if the norm grew 2.5 times. "
            "Or within the first 15 points loss and gradient norm are 6 times as high as in the "
            "first, and never again by half."
        )
    }
    needs = "The learning rate: the field `lr` of a step, or a metric `lr` or `learning_rate`."
    symptom_of = frozenset({"lost values", "instability"})
    kinds = CURVE_KINDS
    every_rank = False
    patience = 2
    release = 10

    class Thresholds(RuleThresholds):
        # A first rate this close to the highest one was not warmed up.
        share: float = 0.9
        # The shock of cold moments comes at once: within so many points.
        points: int = 120
        # A tenth above where it started, and beyond the noise: over five points and over fifteen.
        # Noise without a shock gets there once in five hundred runs that do not fall at all,
        # mostly because the three first points happen to be low.
        rise: float = 0.1
        widths: tuple[float, float] = (4.0, 3.0)
        # Norms fall at a healthy start; one that multiplies is a second witness.
        leap: float = 2.5
        leap_widths: tuple[float, float] = (3.0, 2.2)
        # The very first steps: within so many points, of the first loss and of what comes later.
        # Two times is the most in health.
        blow_points: int = 15
        blow_known: int = 40
        blow: float = 6.0

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the first points of a run."""
        curve = context.updated_curves.get("loss")
        thresholds = self.thresholds
        if curve is None or curve.count > thresholds.points or curve.lowest <= 0:
            return ()
        if curve.count < _FIRST + _NEWEST[0] or context.is_resumed:
            return ()
        rate = context.rate
        if not rate.began_at_peak(thresholds.share) or rate.count < curve.count // 2:
            return ()
        if curve.count >= thresholds.blow_known:
            blow = self._blow(curve, context.curves.get("norm"))
            if blow is not None:
                return (self._blown(curve, context, blow),)
        if context.is_game:
            return ()
        values = curve.window(curve.count)
        shock = self._shock(values, context.curves.get("norm"))
        if shock is None:
            return (Verdict(curve.name, False),)
        # Models with several terms find their balance in the first steps, and fall from there; a
        # queue that fills lifts a loss as well. Their gradients do not double meanwhile. Codes that
        # follow an encoder lift both alike: steps that are too large show in gradients more.
        (first, now), norm = shock, context.curves.get("norm")
        if norm is not None and not _has_leapt(norm, _NEWEST[0], _least_norm_growth(now / first)):
            return ()
        return (self._verdict(curve, context, first, now),)

    def _blow(self, curve: Curve, norm: Curve | None) -> int | None:
        """The place of the loss to which the first steps threw it, if they did."""
        limits = self.thresholds
        values = curve.window(curve.count)[: limits.blow_known]
        place = max(range(1, limits.blow_points), key=values.__getitem__)
        later = values[limits.blow_points + 5 :]
        # What comes back is the noise of rare batches, or no matter of the first steps.
        if values[place] < limits.blow * max(values[0], median(later)):
            return None
        if 2 * max(later) > values[place]:
            return None
        if norm is None or norm.count < limits.blow_known:
            return None
        norms = norm.window(norm.count)[: limits.blow_points]
        return place if max(norms[1:]) > limits.blow * norms[0] > 0 else None

    def _blown(self, curve: Curve, context: Context, place: int) -> Verdict:
        (begin, first), (position, high) = curve.points[0], curve.points[place]
        rate = context.rate.first or 0.0
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The first steps threw the loss from {format_number(first)} to {format_number(high)} "
            f"at {curve.at(position)}: the learning rate of {format_number(rate)} is too high for "
            "the initial weights.",
            steps=steps_of(curve, begin, position),
            evidence={"rate": rate, "first": first, "high": high},
            advice=_ADVICE_LOST,
        )

    def _shock(self, values: list[float], norm: Curve | None) -> tuple[float, float] | None:
        """The start and the newest level, when the latter lies far beyond the noise.

        Ratios are compared, as noise grows with the level it is noise of. Where the gradient norm
        leapt as well, less of a rise is enough.
        """
        thresholds = self.thresholds
        first = median(values[:_FIRST])
        usual, witnessed = thresholds.widths, thresholds.leap_widths
        for points, widths, fewer in zip(_NEWEST, usual, witnessed, strict=True):
            now = median(values[-points:])
            if len(values) < _FIRST + points or now <= (1 + thresholds.rise) * first:
                continue
            noise = max(_roughness(values, apart) for apart in (1, min(_APART, points)))
            if norm is not None and _has_leapt(norm, points, thresholds.leap):
                widths = fewer
            if math.log(now) - math.log(first) > widths * noise:
                return first, now
        return None

    def _verdict(self, curve: Curve, context: Context, first: float, now: float) -> Verdict:
        begin, position = curve.points[0][0], curve.points[-1][0]
        rate = context.rate.first or 0.0
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The learning rate started at its peak of {format_number(rate)} without a warm-up, "
            f"and the loss rose from {format_number(first)} to {format_number(now)} by "
            f"{curve.at(position)}.",
            steps=steps_of(curve, begin, position),
            evidence={"rate": rate, "first": first, "now": now},
            advice=_ADVICE_LOST if now > _LOST * first else _ADVICE,
        )


def _roughness(values: list[float], apart: int) -> float:
    """How much the ratios of values so many points apart differ, as logarithms.

    A steady rise makes them all alike, and is no noise.
    """
    logs = [math.log(value) for value in values]
    ratios = [b - a for a, b in zip(logs, logs[apart:], strict=False)]
    usual = median(ratios)
    return median(abs(ratio - usual) for ratio in ratios)


def _least_norm_growth(loss_growth: float) -> float:
    """What a shock does to the gradient norm; a loss that is being lost soon outgrows it."""
    return min(4.0, max(2.0, 1.6 * loss_growth))


def _has_leapt(norm: Curve, points: int, times: float) -> bool:
    values = norm.window(norm.count)
    if len(values) < _FIRST + points:
        return False
    return median(values[-points:]) > times * median(values[:_FIRST])
