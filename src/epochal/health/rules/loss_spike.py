"""The loss jumps: one batch, or the model itself."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rate import RateJump
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, rate_rose, times
from epochal.health.thresholds import RuleThresholds

_EPOCH = "train/epoch"
_AT_TURN = 3  # points
_KNOWN = 0.05  # of the first loss


class LossSpike(Rule):
    """A loss far out of its own noise and beyond all that stood out of it before.

    It is a note, however large: a new task, harder data and a new opponent lift a loss as well as a
    step that was too large. A loss that does not come back is another rule's.
    """

    name = "loss-spike"
    group = "loss"
    meaning = "One batch, or too large a step, raised the loss suddenly."
    healthy = "Within 8 widths of its level, or within 1.6 times the worst point so far."
    reports = {
        "info": (
            "One point is above both bounds, and a tenth above the level. The finding adds "
            "whether three of five points are, and a third above the level."
        )
    }
    symptom_of = frozenset({"lost values"})
    kinds = CURVE_KINDS
    every_rank = False
    wants_extremes = True
    release = 10

    class Thresholds(RuleThresholds):
        # A lone point is a batch; three of five are the model.
        lasting: int = 3
        # A bump of less than a third of the level comes with new data as well as from trouble.
        large: float = 0.3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epoch = 0
        self._since_turn = _AT_TURN + 1  # points since an epoch began, after the first one
        self._turns: set[int] = set()  # epochs that began with a spike

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest loss against the values before it."""
        curve = context.updated_curves.get("loss")
        if curve is None:
            return ()
        if not observation.is_extreme:  # nobody knows how many points lie between it and the others
            self._follow_epochs(observation)
        if curve.distance is None:
            return ()
        if not curve.stands_out:
            return (Verdict(curve.name, False),)
        if self._since_turn <= _AT_TURN and not observation.is_extreme:
            self._turns.add(self._epoch)
        return (self._verdict(curve, context.rate.jump if curve.is_shifting else None),)

    def forget_from(self, step: int, context: Context) -> None:
        """An epoch that is begun again counts again."""
        self._epoch, self._since_turn = 0, _AT_TURN + 1
        self._turns.clear()

    def _follow_epochs(self, observation: Observation) -> None:
        self._since_turn += 1
        epoch = observation.values.get(_EPOCH)
        if epoch is not None and math.isfinite(epoch) and math.floor(epoch) > self._epoch:
            self._epoch, self._since_turn = math.floor(epoch), 0

    def _verdict(self, curve: Curve, jump: RateJump | None) -> Verdict:
        thresholds = self.thresholds
        lasting = max(1, sum(curve.outliers))
        # The highest of those that stand out together.
        outliers = (curve.points[-1 - n] for n, out in enumerate(reversed(curve.outliers)) if out)
        position, value = max((curve.newest, *outliers), key=lambda point: point[1])
        level, width = curve.level or 0.0, curve.width or 0.0
        size = abs(level) if curve.lowest > 0 else curve.highest - curve.lowest
        is_large = value - level > thresholds.large * size
        is_lasting = lasting >= thresholds.lasting and is_large
        noise = f", {times((value - level) / width)} times its usual noise" if width > 0 else ""
        sentence = (
            f"The loss jumped from {format_number(level)} to {format_number(value)} at "
            f"{curve.at(position)}{noise}"
        )
        sentence += (
            f", and stands out at {lasting} of the last {len(curve.outliers)} points."
            if is_lasting
            else "."
        )
        return Verdict(
            curve.name,
            True,
            "info",
            sentence,
            evidence={"value": value, "level": level, "width": width, "lasting": lasting},
            advice=self._advice(curve, value, jump, is_lasting=is_lasting),
        )

    def _advice(
        self, curve: Curve, value: float, jump: RateJump | None, *, is_lasting: bool
    ) -> str:
        if jump is not None:
            return f"{rate_rose(curve, jump)}. Raise it by less, or slowly."
        if len(self._turns) > 1 and self._epoch in self._turns:
            return (
                f"It comes as an epoch begins, {len(self._turns)} times by now: the samples have "
                "an order, such as one class after the other. Shuffle them anew in each epoch."
            )
        start, level = curve.start, curve.level or 0.0
        if start is not None and curve.lowest >= 0 and level < _KNOWN * start < start < value:
            return (
                "The batches before were known by heart, and these are worse than at the start: "
                "if samples come one class after the other, shuffle them. Otherwise lower the "
                "learning rate, or clip gradients lower."
            )
        if is_lasting:
            return (
                "Look at the batches of these steps; if spikes repeat, clip gradients lower or "
                "lower the learning rate."
            )
        return "One unusual batch does this; look at its data if it repeats."
