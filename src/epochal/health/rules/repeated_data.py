"""The training loss falls off a cliff where an epoch ends."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent, steps_of
from epochal.health.thresholds import RuleThresholds

_EVALS = 2  # after a drop, to see whether they follow
_EPOCH = "train/epoch"
_BEND_PER_NOISE = 2.4  # the deviation of a - 2b + c over that of single points


@dataclass(frozen=True, slots=True)
class _Before:
    """The side of a boundary that an epoch ended with."""

    points: int
    level: float
    near: float  # the level of the last quarter of these points
    fall: float  # within the epoch, from as many points to the next
    widths: float  # of noise that a cliff is deeper than


class RepeatedData(Rule):
    """The level just after an epoch's end lies far below the one just before it.

    The model knows the data by heart when it meets it again: or the same samples come twice. A
    learning rate that was cut there explains the cliff. Several epochs step down in health as well:
    what is learned by heart is a fault once evaluations are worse for it. A loss that only comes
    back from a rise, as after a change of tasks, shows nothing that is known by heart.
    """

    name = "repeated-data"
    group = "evaluation"
    meaning = "The loss drops sharply at the end of an epoch. The model recognises samples."
    healthy = "Drops of a few per cent at the end of an epoch."
    reports = {
        "warning": (
            "A drop of 22 %, or a second one of 12 %, three times the fall before it, and 1.5 "
            "widths over 20 points or 0.9 over 60. The points next to the border show it too, and "
            "the loss was never as low. The learning rate was not reduced there. Two evaluations "
            "in a row since, if there are any, are worse than the last three before by 5 % and 2.5 "
            "times their noise."
        )
    }
    needs = "Epochs: the field `epoch` of a step, or epoch records."
    symptom_of = frozenset({"lost values", "divergence"})
    kinds = frozenset({"step", "metrics", "epoch"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Levels of so many points on both sides of an epoch's end: at once, and again where noise
        # hides a cliff from twenty. A bar is about four standard errors of the difference.
        points: tuple[int, int] = (20, 60)
        widths: tuple[float, float] = (1.5, 0.9)
        # Three epochs over the same text leave stairs of up to a tenth in good fine-tunings.
        share: float = 0.12
        # Of the drop: what the points next to the border must show, a quarter on each side. What
        # happened before or after it is not of the epoch.
        near: float = 0.4
        # Evaluations that are worse by so much than the last three before the border, and by so
        # much of their noise: the best of several noisy ones is always better.
        worse: float = 0.05
        noises: float = 2.5
        # A single one of this share is enough.
        at_once: float = 0.22
        # Schedules that cut the rate at an epoch's end cut it by half or more; a smooth one loses
        # less than a fifth of it within the points looked at.
        rate_cut: float = 0.7

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epoch: int | None = None
        self._before: dict[int, _Before] = {}  # by how many points: what is still to be judged
        self._rate: float | None = None  # the learning rate before the end, as far as it is known
        self._rates: deque[float] = deque(maxlen=thresholds.points[0])
        self._boundary = 0
        self._cliff: int | None = None  # the first
        # The newest drop; at the first how many evaluations there were; and their lowest level.
        self._held: tuple[Verdict, int, float] | None = None
        self._evals = 0  # as many have been looked at
        self._since = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare both sides of the newest end of an epoch: soon, and again over more points."""
        curve = context.curves.get("loss")
        if curve is None or curve.axis != "step":
            return ()
        verdict = None
        if "loss" in context.updated_curves:
            self._since += 1
            if context.rate.latest is not None:
                self._rates.append(context.rate.latest)
            if (before := self._before.pop(self._since - 1, None)) is not None:
                verdict = self._judge(curve, context, before)
            verdict = self._after_evaluations(verdict, context.curves.get("eval_loss"))
        if verdict is None and self._has_turned(observation) and curve.points:
            is_after = "loss" in context.updated_curves and observation.kind != "epoch"
            self._remember(curve, skip=int(is_after))
        return () if verdict is None else (verdict,)

    def forget_from(self, step: int, context: Context) -> None:
        """An epoch that is begun again has not ended."""
        self._epoch = None
        self._held = None
        self._before.clear()

    def _after_evaluations(self, verdict: Verdict | None, curve: Curve | None) -> Verdict | None:
        """Hold a verdict back until two evaluations show that they are worse for it.

        Evaluations may be rare, and may turn later. So a drop is held on, and those since the first
        are compared with the lowest level before any of them.
        """
        if curve is None or not curve.points:
            return verdict
        if verdict is not None and verdict.active:
            known = [loss for at, loss in curve.points if at <= self._boundary]
            level = median(known[-3:]) if known else math.inf
            _, since, lowest = self._held or (None, curve.count, math.inf)
            self._held = (verdict, since, min(level, lowest))
            return None
        is_known, self._evals = curve.count == self._evals, curve.count
        if is_known or self._held is None or curve.count < self._held[1] + _EVALS:
            return verdict
        held, _, before = self._held
        limits, losses = self.thresholds, curve.window(curve.count)
        threes = zip(losses, losses[1:], losses[2:], strict=False)
        bends = [abs(a - 2 * b + c) for a, b, c in threes]
        noise = _median(bends) / _BEND_PER_NOISE if bends else 0.0
        bar = max(limits.worse * abs(before), limits.noises * noise)
        if min(losses[-_EVALS:]) - before <= bar:
            return verdict
        self._held = None
        return held

    def _has_turned(self, observation: Observation) -> bool:
        """Whether an epoch ended: with its own record, or between this step and the last."""
        if observation.kind == "epoch":
            epoch = observation.record.get("epoch")
        else:
            along = observation.values.get(_EPOCH)
            epoch = math.floor(along) if along is not None and math.isfinite(along) else None
        if not isinstance(epoch, int):
            return False
        before, self._epoch = self._epoch, epoch
        return epoch >= 1 and (observation.kind == "epoch" if before is None else epoch > before)

    def _remember(self, curve: Curve, *, skip: int) -> None:
        thresholds = self.thresholds
        self._before.clear()
        for points, widths in zip(thresholds.points, thresholds.widths, strict=True):
            if curve.count < 3 * points:
                continue
            values = curve.window(2 * points + skip)
            values = values[: len(values) - skip]
            older, newer = _median(values[:points]), _median(values[points:])
            near, fall = _median(values[-(points // 4) :]), max(0.0, older - newer)
            self._before[points] = _Before(points, newer, near, fall, widths)
        self._boundary, self._since = curve.points[-1][0], skip
        self._rate = self._rates[0] if self._rates else None

    def _judge(self, curve: Curve, context: Context, before: _Before) -> Verdict:
        if self._was_rate_cut(context):
            return Verdict(curve.name, False)
        verdict = self._verdict(curve, before)
        if verdict.active:
            self._before.clear()
        return verdict

    def _was_rate_cut(self, context: Context) -> bool:
        latest = context.rate.latest
        if self._rate is None or latest is None:
            return False
        return latest < self.thresholds.rate_cut * self._rate

    def _verdict(self, curve: Curve, side: _Before) -> Verdict:
        before, after = side.level, curve.recent_level(side.points)
        drop = before - after
        size = abs(before) if curve.lowest > 0 else curve.highest - curve.lowest
        bar = max(self.thresholds.share * size, side.widths * (curve.width or 0.0), 3 * side.fall)
        if drop <= bar or before <= 0:  # a loss below zero may have no end, and fall far
            return Verdict(curve.name, False)
        first = curve.window(side.points)[: side.points // 4]
        earlier = [one.level for one in curve.blocks.all() if one.last <= self._boundary]
        if side.near - _median(first) < self.thresholds.near * drop or after > min(earlier):
            return Verdict(curve.name, False)
        # A loss that falls fast has steps of its own: one is a chance, two at two ends are not.
        is_first = self._cliff in (None, self._boundary)
        self._cliff = self._boundary if self._cliff is None else self._cliff
        if is_first and drop <= self.thresholds.at_once * size:
            return Verdict(curve.name, False)
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The loss dropped sharply at the end of an epoch, {curve.at(self._boundary)}: the "
            f"median of {side.points} points was {format_number(before)} before it and is "
            f"{format_number(after)} after it (-{percent(drop / before)}).",
            steps=steps_of(curve, self._boundary, curve.points[-1][0]),
            evidence={"before": before, "after": after, "drop": drop},
            advice=(
                "The model recognises its data: train for fewer epochs, add data or "
                "regularisation, and check the evaluation loss; check for duplicated samples."
            ),
        )


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
