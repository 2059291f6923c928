"""The loss jumps, stops falling, or never falls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict
from epochal.health.text import INPUTS_REACH_THE_OUTPUT, rate_rose, steps_of, times

_EPOCH = "train/epoch"
_AT_TURN = 3  # points after an epoch began
_SPIKE = "The loss jumped from {level} to {value} at {place}{noise}."


class LossSpike(CurveRule):
    """One batch, or too large a step, raised the loss suddenly.

    A loss far out of its own noise and beyond all that stood out of it before.

    It is a note, however large: a new task, harder data and a new opponent lift a loss as well as a
    step that was too large. A loss that does not come back is a divergence.
    """

    name = "loss-spike"
    group = "loss"
    healthy = (
        "The loss stays within 8 widths of its level, and 1.6 times its largest distance so far."
    )
    reports = {
        "info": (
            "One point is above both bounds, and a tenth above the level. The advice depends on "
            "whether {lasting} of five points are, and {large:percent} above the level."
        )
    }
    messages = {
        "batch": Message(
            _SPIKE, "One unusual batch does this. Look at its data if it repeats.", "info"
        ),
        "lasting": Message(
            _SPIKE,
            "Look at these batches. If spikes repeat, clip gradients or lower the learning rate.",
            "info",
        ),
        "epoch": Message(
            _SPIKE,
            "The loss has jumped at the beginning of {turns} epochs: the samples have an order, "
            "such as one class after the other. Shuffle them in each epoch.",
            "info",
        ),
        "unlearned": Message(
            _SPIKE,
            "The model has memorised the batches before, and is worse on these than at the start. "
            "If samples come one class after the other, shuffle them. Otherwise lower the "
            "learning rate, or clip gradients lower.",
            "info",
        ),
        "jump": Message(_SPIKE, "{jump}. Raise it by less, or slowly.", "info"),
    }
    symptom_of = frozenset({"lost values"})
    wants_extremes = True
    release = 10

    class Thresholds(RuleThresholds):
        # A lone point is a batch; three of five are the model.
        lasting: int = 3
        # A bump of less than a third of the level comes with new data as well as from trouble.
        large: float = 0.3

    thresholds: Thresholds

    def reset(self) -> None:
        """An epoch that is begun again counts again."""
        self._epoch = 0
        self._since_turn = _AT_TURN + 1  # points since an epoch began, after the first one
        self._turns: set[int] = set()  # epochs that began with a spike

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest loss with the values before it."""
        curve = context.updated_curves.get("loss")
        if curve is None:
            return ()
        if not observation.is_extreme:  # nobody knows how many points lie between it and the others
            self._since_turn += 1
            epoch = observation.values.get(_EPOCH)
            if epoch is not None and math.isfinite(epoch) and math.floor(epoch) > self._epoch:
                self._epoch, self._since_turn = math.floor(epoch), 0
        if curve.distance is None or not curve.stands_out:
            return () if curve.distance is None else (Verdict(curve.name, False),)
        if self._since_turn <= _AT_TURN and not observation.is_extreme:
            self._turns.add(self._epoch)
        return (self._describe(curve, context),)

    def _describe(self, curve: Curve, context: Context) -> Verdict:
        lasting = max(1, sum(curve.outliers))
        # The highest of those that stand out together.
        outliers = (curve.points[-1 - n] for n, out in enumerate(reversed(curve.outliers)) if out)
        position, value = max((curve.newest, *outliers), key=lambda point: point[1])
        level, width = curve.level or 0.0, curve.width or 0.0
        size = abs(level) if curve.lowest > 0 else curve.highest - curve.lowest
        is_lasting = lasting >= self.thresholds.lasting
        ratio = (value - level) / width if width > 0 else 0.0
        noise = f", {times(ratio)} times its usual noise" if width > 0 else ""
        words, jump = {"place": curve.at(position), "noise": noise}, context.rate.jump
        message = (
            "lasting" if is_lasting and value - level > self.thresholds.large * size else "batch"
        )
        if curve.is_shifting and jump is not None:
            message, words["jump"] = "jump", rate_rose(curve, jump)
        elif len(self._turns) > 1 and self._epoch in self._turns:
            message, words["turns"] = "epoch", str(len(self._turns))
        elif curve.start is not None and 0 <= level < 0.05 * curve.start < curve.start < value:
            message = "unlearned"
        evidence: dict[str, Any] = {"value": value, "level": level, "points": lasting}
        evidence |= {"ratio": ratio} if width > 0 else {}
        return self.found(message, curve.name, words=words, **evidence)


class Plateau(CurveRule):
    """The loss no longer falls by more than its noise.

    Two windows in a row with no measurable fall between them, several times over.

    A note, not a warning: every training ends on one. Only a loss that has fallen before is on a
    plateau. The loss of a game measures nothing.
    """

    name = "plateau"
    group = "loss"
    healthy = "The loss falls within 2 × {window} points, or the schedule is at its end."
    reports = {
        "info": (
            "The loss does not fall by more than its noise from {window} points to the next, in "
            "{checks} checks in a row, and its noise cannot hide {hidden:percent} of its gain."
        )
    }
    messages = {
        "high_rate": Message(
            "The loss has not measurably fallen from {since} to {place}: {older}, then {newer}. "
            "The learning rate is still {lr}.",
            "Lower the learning rate 3 to 10 times and see whether the loss falls again.",
            "info",
        ),
        "low_rate": Message(
            "The loss has not measurably fallen from {since} to {place}: {older}, then {newer}.",
            "Stop here, or use more data or a larger model. Lower the learning rate if it is high.",
            "info",
        ),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    release = 4
    replaces_text = True

    class Thresholds(RuleThresholds):
        # Two windows of three hundred points, compared; three comparisons, fifty points apart.
        window: int = 300
        every: int = 50
        checks: int = 3
        # A fall below a thousandth of the level (or of the range covered) per window is none.
        share: float = 0.001
        # What noise may hide must be little of what was gained, or nobody knows whether it fell.
        hidden: float = 0.05
        cooldown: int = 1000

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.patience = thresholds.checks
        self.cooldown_steps = thresholds.cooldown

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest window with the one before it, every so many points."""
        limits, curve = self.thresholds, context.updated_curves.get("loss")
        if curve is None or curve.count % limits.every or context.is_game:
            return ()
        window, values = limits.window, curve.window(2 * limits.window)
        if len(values) < 2 * window or curve.start is None or not curve.width:
            return ()
        older, newer = fmean(values[:window]), fmean(values[window:])
        quarter = window // 4
        parts = [fmean(values[n : n + quarter]) for n in range(0, 2 * window, quarter)]
        noise = 2 * curve.width * math.sqrt(2 / window)
        is_flat = (
            curve.start - newer > curve.width
            and older - newer <= self._least_fall(curve, window)
            # It did not fall from its first points on, nor does it move to and fro, or up.
            and parts[0] - newer <= self._least_fall(curve, quarter)
            and max(parts) - min(parts) <= 2.5 * self._least_fall(curve, quarter)
        )
        is_known = older - newer + noise <= limits.hidden * curve.gained(newer)
        if not is_flat or not (is_known or context.is_open(self.name, curve.name)):
            return (Verdict(curve.name, False),)
        first, last = curve.points[-2 * window][0], curve.points[-1][0]
        return (
            self.found(
                "high_rate" if context.rate.is_near_peak(0.3) else "low_rate",
                curve.name,
                steps=steps_of(curve, first, last),
                words={"since": curve.at(first), "place": curve.at(last)},
                older=older,
                newer=newer,
                width=curve.width,
                lr=context.rate.latest or 0.0,
            ),
        )

    def _least_fall(self, curve: Curve, points: int) -> float:
        """The change that noise alone does not cause, but at least a thousandth of the level."""
        size = abs(curve.level or 0.0) if curve.lowest > 0 else curve.highest - curve.lowest
        by_noise = 2 * (curve.width or 0.0) * math.sqrt(1 / points + 1 / self.thresholds.window)
        return max(by_noise, self.thresholds.share * size)


class NeverFell(CurveRule):
    """The model has not learned anything. Gradients may not reach the weights, or labels may not
    match inputs.

    After hundreds of points the loss has not come below its first level.

    A loss that reaches zero, or that of a game, need not fall.
    """

    name = "never-fell"
    group = "loss"
    healthy = "The loss is lower after a few hundred points."
    reports = {
        "info": (
            "No fall beyond noise in {points} points and {steps} steps, and the points exclude a "
            "fall of {hidden_most:percent}. The evaluation loss has not fallen either."
        ),
        "warning": "The points exclude a fall of {hidden:percent}.",
    }
    messages = {
        "flat": Message(
            "The loss has not fallen from where it started: {first} at first, {now} at {place}.",
            "Check that gradients reach the weights (optimizer.step, requires_grad, the right "
            "parameters), that labels match inputs, that the learning rate is neither far too "
            f"high nor far too low, and {INPUTS_REACH_THE_OUTPUT} First overfit one batch as a "
            "test.",
            "info",
        )
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})

    class Thresholds(RuleThresholds):
        # Nothing learned in so many points is long past any warm-up.
        points: int = 300
        steps: int = 300
        # A fall that noise may hide, of the first level: where it is larger nobody knows.
        hidden_most: float = 0.1
        # A fall is real when it is three standard errors of the difference of two thirds, and half
        # a percent.
        errors: float = 3.0
        share: float = 0.005
        # A warning needs points that leave no room for a fall of this share.
        hidden: float = 0.01

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._fell: Curve | None = None  # the curve that has fallen

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the last third of the run with its first, every so many points."""
        curve, limits = context.updated_curves.get("loss"), self.thresholds
        if curve is None or curve is self._fell or curve.count % 50 or curve.count < limits.points:
            return ()
        if context.is_resumed or context.is_game or curve.lowest <= 0 or curve.start is None:
            return ()
        begin, position = curve.blocks[0].first, curve.points[-1][0]
        if curve.axis == "step" and position - begin < limits.steps - 1:
            return ()
        levels = [block.level for block in curve.blocks.all()]
        third = max(1, len(levels) // 3)
        first, last = levels[:third], levels[-third:]
        size, now = fmean(first) - fmean(last), curve.recent_level(20)
        squares = sum((v - fmean(part)) ** 2 for part in (first, last) for v in part)
        error = math.sqrt(squares / max(1, 2 * third - 2) * 2 / third)
        least = limits.share * median(first)
        # What fell within the first points is seen by the very first ones only.
        noise = max(3 * curve.width_at(min(curve.start, now)), least)
        lowest = min((a + b) / 2 for a, b in pairwise(levels))
        fell_at_once = curve.start - median(last) > noise or curve.start - lowest > noise
        if size > max(limits.errors * error, least) or fell_at_once or _evaluation_fell(context):
            self._fell = curve
            return (Verdict(curve.name, False),)
        hidden = (size + limits.errors * error) / median(first)
        # What falls just now, or has risen far, is not known to stay where it is.
        if hidden > limits.hidden_most or not 0.98 < now / median(first) < 1.5:
            return (Verdict(curve.name, False),)
        return (
            self.found(
                "flat",
                curve.name,
                steps=steps_of(curve, begin, position),
                severity="warning" if hidden < limits.hidden else "info",
                words={"place": curve.at(position)},
                first=median(first),
                now=now,
                points=curve.count,
            ),
        )


def _evaluation_fell(context: Context) -> bool:
    """Whether the evaluation loss is clearly below its first: then the model learns.

    A loss of pairs, of an opponent or of a growing queue need not fall for that.
    """
    curve = context.curves.get("eval_loss")
    if curve is None or curve.first is None or len(curve.points) < 2:
        return False
    newest = max(value for _, value in list(curve.points)[-2:])
    return curve.first - newest > 0.02 * abs(curve.first)
