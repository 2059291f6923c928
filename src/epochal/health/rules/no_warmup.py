"""The learning rate starts at its peak, and the loss shoots up at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.words import CURVE_KINDS, place, steps_of

_FIRST, _NEWEST = 3, 5  # points: the very start, and a level that one batch cannot make


class NoWarmup(Rule):
    """No warm-up and a loss that soon stands above its start.

    A rate that starts at its peak is no fault by itself: only the shock it gives is.
    """

    name = "no-warmup"
    kinds = CURVE_KINDS
    every_rank = False
    patience = 2
    release = 10

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge the first points of a run."""
        curve = context.fresh.get("loss")
        thresholds = self.thresholds.curves
        if curve is None or curve.count > thresholds.warmup_points or curve.lowest <= 0:
            return ()
        if curve.count < _FIRST + _NEWEST or context.is_resumed:
            return ()
        rate = context.rate
        if not rate.began_at_peak(thresholds.warmup_share) or rate.count < curve.count // 2:
            return ()
        values = curve.window(curve.count)
        first, now = median(values[:_FIRST]), median(values[-_NEWEST:])
        noise = median(abs(b - a) for a, b in pairwise(values))
        bar = max(thresholds.warmup_rise * first, thresholds.warmup_widths * noise)
        if now - first <= bar:
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, context, first, now),)

    def _verdict(self, curve: Curve, context: Context, first: float, now: float) -> Verdict:
        begin, position = curve.points[0][0], curve.points[-1][0]
        rate = context.rate.first or 0.0
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The learning rate started at its peak of {format_number(rate)} without a warm-up, "
            f"and the loss rose from {format_number(first)} to {format_number(now)} by "
            f"{place(curve, position)}.",
            steps=steps_of(curve, begin, position),
            evidence={"rate": rate, "first": first, "now": now},
            advice=(
                "Let the rate rise linearly over the first 1 to 5 % of the steps, or start with a "
                "tenth of it."
            ),
        )
