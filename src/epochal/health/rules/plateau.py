"""The loss has stopped falling, and what gradients and the rate do meanwhile."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

from epochal.format import format_number
from epochal.health.blocks import Blocks
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.finding import Finding
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, percent, steps_of
from epochal.health.thresholds import RuleThresholds

# What `plateau` looks at besides the loss: gradient norms, the learning rate and its peak.

_BLOCK = 20  # norms of which the whole run keeps the median
_NUM_BLOCKS = 5  # in one stretch


class Signals:
    """The last ``points`` gradient norms and the learning rate."""

    def __init__(self, *, points: int) -> None:
        self.lr: float | None = None
        self.peak_lr = 0.0
        self._norms: deque[float] = deque(maxlen=points)
        self._blocks = Blocks(size=_BLOCK, limit=128)

    def observe(self, observation: Observation) -> None:
        """Process a record."""
        norm, lr = observation.roles.get("norm"), observation.roles.get("lr")
        if norm is not None and math.isfinite(norm) and norm > 0:
            self._norms.append(norm)
            if observation.step is not None:
                self._blocks.push(observation.step, norm)
        if lr is not None and math.isfinite(lr):
            self.lr = lr
            self.peak_lr = max(self.peak_lr, lr)

    def norm_change(self, points: int) -> float | None:
        """The last ``points`` norms over as many before them, by their medians."""
        if 2 * points > len(self._norms):
            return None
        norms = list(self._norms)[-2 * points :]
        return median(norms[-points:]) / median(norms[:points])

    def norm_since(self, step: int, points: int) -> float | None:
        """The last ``points`` norms over those just before a step, by their medians.

        Those before are two stretches, of which the larger counts: they may have begun to fade.
        """
        before = [block.level for block in self._blocks.all() if block.last < step]
        stretches = before[-2 * _NUM_BLOCKS : -_NUM_BLOCKS], before[-_NUM_BLOCKS:]
        medians = [median(stretch) for stretch in stretches if stretch]
        if not medians or points > len(self._norms):
            return None
        return median(list(self._norms)[-points:]) / max(medians)

    def rate_is_high(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak; true where no rate is logged."""
        return self.lr is None or self.lr >= share * self.peak_lr

    def forget(self) -> None:
        """Start again, except for the peak of the rate, which belongs to the schedule."""
        self._norms.clear()
        self._blocks = Blocks(size=_BLOCK, limit=128)


_PARTS = 4  # of a window
_SPREAD = 3.0  # times the change of a part's level that noise alone does not cause


class Plateau(Rule):
    """Two windows in a row with no measurable fall between them, several times over.

    A note, not a warning: every training ends on one. Only a loss that has fallen before is on a
    plateau; one that never did is another rule's. A plateau that lasts under a high rate, with
    gradients as large as before, is one of steps that jump to and fro, and the finding says so. A
    rate that moves does already what the advice would be. The loss of a game measures nothing.
    """

    name = "plateau"
    group = "loss"
    meaning = "The loss no longer falls by more than its noise."
    healthy = "Still falling over 600 points, or the schedule is at its end."
    reports = {
        "info": (
            "The loss does not fall by more than noise over 600 points, in three checks in a row. "
            "Nor can its noise hide a fall of 5 % of what it had fallen before. After 200 more "
            "points it adds whether gradients are as large as before, under a rate that stays high."
        )
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = CURVE_KINDS
    every_rank = False
    release = 4
    replaces_text = True

    class Thresholds(RuleThresholds):
        # Two windows of three hundred points, compared; three comparisons in a row, fifty points
        # apart.
        window: int = 300
        every: int = 50
        checks: int = 3
        # A fall below a thousandth of the level (or of the range covered) per window is none.
        share: float = 0.001
        # What noise may hide must be little of what was gained, or nobody knows whether it fell.
        hidden: float = 0.05
        cooldown: int = 1000
        # Stuck: so many checks after it was found, at a rate that did not move by more than this...
        stuck_checks: int = 4
        lr_moved: float = 0.03
        # ...and is at least this share of its peak: below it the schedule is at work already.
        lr_share: float = 0.3
        # Medians of fifty norms stray by a few per cent: flat is a change of less than a sixth.
        flat_points: int = 50
        flat_share: float = 0.15
        # Gradients below this share have faded, and a lower rate would not help.
        faded_share: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.patience = thresholds.checks
        self.cooldown_steps = thresholds.cooldown
        self._signals = Signals(points=2 * thresholds.flat_points)
        self._lr = 0.0
        self._checks = 0  # since the plateau was found, at this rate

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest window with the one before it, every so many points."""
        thresholds = self.thresholds
        self._signals.observe(observation)
        curve = context.updated_curves.get("loss")
        if curve is None or curve.count % thresholds.every or context.is_game:
            return ()
        window = thresholds.window
        if curve.count < 2 * window or curve.start is None or not curve.width:
            return ()
        values = curve.window(2 * window)
        if len(values) < 2 * window:
            return ()
        older, newer = _mean(values[:window]), _mean(values[window:])
        if not self._has_fallen(curve, newer) or older - newer > self._least_fall(curve, window):
            return (Verdict(curve.name, False),)
        # Levels that move to and fro, or up, are of other data or another objective.
        quarter = window // _PARTS
        parts = [_mean(values[n : n + quarter]) for n in range(0, 2 * window, quarter)]
        if max(parts) - min(parts) > _SPREAD * self._least_fall(curve, quarter):
            return (Verdict(curve.name, False),)
        # It stood still from its first points on, not only on average.
        first = window // _PARTS
        if _mean(values[:first]) - newer > self._least_fall(curve, first):
            return (Verdict(curve.name, False),)
        if not self._is_known(curve, older, newer) and not context.is_open(self.name, curve.name):
            return (Verdict(curve.name, False),)
        first, last = curve.points[-2 * window][0], curve.points[-1][0]
        evidence: dict[str, float | int | str] = {
            "older": older,
            "newer": newer,
            "width": curve.width,
        }
        stuck = self._stuck(context.open.get((self.name, curve.name)), evidence)
        return (
            Verdict(
                curve.name,
                True,
                "info",
                f"The loss has not measurably fallen from {curve.at(first)} to "
                f"{curve.at(last)}: {format_number(older)}, then {format_number(newer)}{stuck}.",
                steps=steps_of(curve, first, last),
                evidence=evidence,
                advice=_advice(context),
            ),
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Follow gradients and the rate again."""
        self._signals.forget()
        self._checks = 0

    def _stuck(self, plateau: Finding | None, evidence: dict[str, float | int | str]) -> str:
        """What gradients and the rate do on a plateau that lasts; empty if not known or flat."""
        limits, signals, lr = self.thresholds, self._signals, self._signals.lr
        if plateau is None or plateau.steps is None or lr is None:
            self._checks = 0
            return ""
        if abs(lr - self._lr) > limits.lr_moved * self._lr:
            self._checks, self._lr = 0, lr
        self._checks += 1
        lasts = self._checks >= limits.stuck_checks and signals.rate_is_high(limits.lr_share)
        change = signals.norm_change(limits.flat_points) if lasts else None
        if change is None or abs(change - 1) > limits.flat_share:
            return ""
        left = signals.norm_since(plateau.steps[0], limits.flat_points)
        size = change if left is None else left
        if size <= limits.faded_share:
            return ""
        evidence |= {"lr": lr, "norm_change": size}
        is_less = size < 1 - limits.flat_share
        much = f"still {percent(size)} of what they were" if is_less else "as large as before"
        return f". Gradients are {much}, and the learning rate stays at {format_number(lr)}"

    def _has_fallen(self, curve: Curve, newer: float) -> bool:
        start, width = curve.start, curve.width
        return start is not None and width is not None and start - newer > width

    def _is_known(self, curve: Curve, older: float, newer: float) -> bool:
        """Whether a fall that noise could hide would be small beside what was gained."""
        noise = 2 * (curve.width or 0.0) * math.sqrt(2 / self.thresholds.window)
        return older - newer + noise <= self.thresholds.hidden * curve.gained(newer)

    def _least_fall(self, curve: Curve, points: int) -> float:
        """The change that noise alone does not cause, but at least a thousandth of the level.

        ``points`` are those of the older level; the newer one has a whole window.
        """
        size = abs(curve.level or 0.0) if curve.lowest > 0 else curve.highest - curve.lowest
        by_noise = 2 * (curve.width or 0.0) * math.sqrt(1 / points + 1 / self.thresholds.window)
        return max(by_noise, self.thresholds.share * size)


def _advice(context: Context) -> str:
    if context.rate.is_near_peak(0.3):
        return "Lower the learning rate (a factor of 3 to 10) and see whether the loss falls again."
    return "The rate is low already: stop here, or train on with more data or a larger model."


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
