"""The loss is where it started."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.thresholds import Thresholds
from epochal.health.words import CURVE_KINDS, place, steps_of

_EVERY = 10


class NeverFell(Rule):
    """After hundreds of points the loss has not come below its first level.

    A warning once it has gone on for twice as long, and only where the loss is quiet enough to
    show a fall: rewards and games have losses that need not fall.
    """

    name = "never-fell"
    kinds = CURVE_KINDS
    every_rank = False

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._first: float | None = None
        self._first_at = 0
        self._fell = False
        self._curve: Curve | None = None

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Compare the newest points with the first ones, every so many points."""
        curve = context.fresh.get("loss")
        if curve is None:
            return ()
        if curve is not self._curve:
            self._curve, self._first, self._fell = curve, None, False
        if self._fell or curve.count % _EVERY:
            return ()
        sample = self.thresholds.curves.never_fell_sample
        if curve.count == sample:
            self._first, self._first_at = curve.recent_level(sample), curve.points[0][0]
        if self._first is None or curve.count < self.thresholds.curves.never_fell_points:
            return ()
        now = curve.recent_level(sample)
        if self._is_lower(curve, now) or context.is_resumed:
            self._fell = True
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, now),)

    def _is_lower(self, curve: Curve, now: float) -> bool:
        thresholds = self.thresholds.curves
        first, width = self._first or 0.0, curve.width or 0.0
        start = max(first, curve.start if curve.start is not None else first)
        size = abs(first) if curve.lowest > 0 else 0.0
        fall = start - now
        return fall > max(thresholds.never_fell_widths * width, thresholds.never_fell_share * size)

    def _verdict(self, curve: Curve, now: float) -> Verdict:
        thresholds = self.thresholds.curves
        first = self._first or 0.0
        position = curve.points[-1][0]
        is_quiet = curve.lowest > 0 and (curve.width or 0.0) < thresholds.never_fell_noise * now
        is_long = curve.count >= thresholds.never_fell_grave
        return Verdict(
            curve.name,
            True,
            "warning" if is_long and is_quiet else "info",
            f"The loss has not fallen from where it started: {format_number(first)} at first, "
            f"{format_number(now)} at {place(curve, position)}.",
            steps=steps_of(curve, self._first_at, position),
            evidence={"first": first, "now": now, "points": curve.count},
            advice=(
                "Check that gradients reach the weights (optimizer.step, requires_grad, the right "
                "parameters), that labels match inputs, and that the rate is neither 0 nor tiny; "
                "a model should first learn one batch by heart."
            ),
        )
