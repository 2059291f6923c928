"""The loss has the wrong sign, or is a sum where a mean was meant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from epochal.health.context import Context, configured
from epochal.health.curve import Curve
from epochal.health.families import MOVING_TARGETS
from epochal.health.finding import Severity, steps_of
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict

_BATCH_KEYS = ("batch_size", "train_batch_size", "per_device_train_batch_size", "micro_batch_size")
_MOST_SAMPLES = 1 << 40
_EVERY = 50  # points between two checks of returns
_SIGN = "Check the sign of the loss: what is subtracted, and whether a score is returned as a loss."


class LossSign(CurveRule):
    """The loss is negated somewhere. Each step makes the model worse.

    A training loss that is the negative of the evaluation's, or that falls without end.

    Losses may be negative: likelihoods of densities and similarities are. Then the evaluation is
    negative as well, and gradients do not grow while the loss falls.
    """

    name = "loss-sign"
    group = "loss"
    certainty = "inferred"
    healthy = "The training loss and the evaluation loss have the same sign and move together."
    reports = {
        "warning": (
            "The loss starts below zero and falls to {times_unknown:plain} times that, faster and "
            "faster, while the gradient norm grows as much; in a game {times_game:plain} times."
        ),
        "error": (
            "The training loss is below zero and the evaluation loss is as far above it, in "
            "{evals} evaluations. Or the number of classes is known, and the loss starts below "
            "zero and falls to {times:plain} times that while the norm grows as much."
        ),
    }
    messages = {
        "mirrored": Message(
            "At {place} the loss is {loss}, and {eval_loss} in evaluation: its sign is wrong.",
            _SIGN,
            "error",
        ),
        "endless": Message(
            "The loss is negative and falls from {start} to {loss} at {place}, while gradients "
            "grow: its sign is wrong, and it is maximised.",
            _SIGN,
        ),
    }
    causes = frozenset({"instability", "standstill", "implausible results"})

    class Thresholds(RuleThresholds):
        evals: int = 2
        # How far the two losses may be from mirrored.
        mirrored: float = 0.3
        # A loss that falls without end: so many times its start, while norms grow as much.
        # Densities and critics have losses below zero by right, with norms that grow.
        times: float = 3.0
        times_unknown: float = 10.0
        times_game: float = 1000.0

    thresholds: Thresholds

    def reset(self) -> None:
        self._mirrored = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest point of the loss, or of the evaluation loss."""
        train, evaluation = context.curves.get("loss"), context.updated_curves.get("eval_loss")
        if train is None or context.is_resumed or train.start is None or train.start >= 0:
            return ()
        words = {"place": train.at(train.points[-1][0])}
        steps = steps_of(train, train.points[0][0], train.points[-1][0])
        if evaluation is not None and context.family.loss_falls:
            value, level = evaluation.points[-1][1], train.recent_level(3)
            limit = self.thresholds.mirrored * value
            self._mirrored = (
                self._mirrored + 1 if level < 0 < value and abs(level + value) < limit else 0
            )
            if self._mirrored >= self.thresholds.evals:
                return (
                    self.found(
                        "mirrored",
                        train.name,
                        steps=steps,
                        words=words,
                        loss=level,
                        eval_loss=value,
                    ),
                )
        elif "loss" in context.updated_curves and self._is_endless(train, context):
            severity: Severity | None = None if context.num_classes is None else "error"
            return (
                self.found(
                    "endless",
                    train.name,
                    steps=steps,
                    severity=severity,
                    words=words,
                    start=train.start,
                    loss=train.recent_level(3),
                ),
            )
        return ()

    def _is_endless(self, train: Curve, context: Context) -> bool:
        """Whether the loss and the norm have both left their start, by the same factor."""
        norm, evaluation = (context.curves.get(role) for role in ("norm", "eval_loss"))
        if norm is None or not 10 <= train.count <= len(train.points):
            return False
        if evaluation is not None and evaluation.lowest < 0:
            return False
        is_certain, limits = context.num_classes is not None, self.thresholds
        times = limits.times if is_certain else limits.times_unknown
        times = times if context.family.loss_falls else limits.times_game
        first, level = median(norm.window(norm.count)[:3]), train.recent_level(3)
        if not level < times * (train.start or 0.0) < 0 < times * first < norm.recent_level(3):
            return False
        # A density that learns falls ever more slowly; what has no end falls faster and faster.
        values, half = train.window(train.count), train.count // 2
        early = median(values[:3]) - median(values[half : half + 3])
        late = median(values[half : half + 3]) - level
        return is_certain or late > 1.5 * max(early, 0.0)


class LossSummed(CurveRule):
    """The loss is summed over the batch, so gradients are as many times too large.

    The training loss is as many times the evaluation loss as a batch has samples.
    """

    name = "loss-summed"
    group = "loss"
    certainty = "inferred"
    healthy = "Both losses are means per sample, and of the same size."
    reports = {
        "warning": (
            "In {evals} of the first {first} evaluations in a row, the training loss divided by "
            "the evaluation loss is the batch size, within a factor of {near:plain}."
        )
    }
    messages = {
        "summed": Message(
            "The training loss is {ratio:times} times the evaluation loss ({loss} and {eval_loss} "
            "at {place}), as many as a batch has samples ({batch_size}): it is a sum.",
            'Use reduction="mean", or divide the loss by the batch size: the gradients are too '
            "large for a learning rate that is meant for a mean.",
        )
    }
    causes = frozenset({"instability", "standstill", "implausible results"})
    not_in = MOVING_TARGETS
    symptom_of = frozenset({"lost values"})

    class Thresholds(RuleThresholds):
        evals: int = 2
        # Later the two may differ by memorising.
        first: int = 6
        near: float = 1.35
        # Fewer samples are no size to recognise a ratio by.
        least: int = 6

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self.patience = thresholds.evals
        self._samples: int | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the two losses at an evaluation."""
        samples = observation.record.get("step_tokens")
        if isinstance(samples, int) and not isinstance(samples, bool) and samples < _MOST_SAMPLES:
            self._samples = samples
        evaluation, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if evaluation is None or train is None or not train.points:
            return ()
        limits = self.thresholds
        if evaluation.count > limits.first or train.lowest <= 0:  # a sum is one from the beginning
            return ()
        level, value = train.recent_level(11), evaluation.points[-1][1]
        known = (batch_size(context.config), self._samples)
        sizes = [size for size in known if size is not None and size >= limits.least]
        if value <= 0 or not sizes:
            return ()
        ratio, place = level / value, train.points[-1][0]
        size = min(sizes, key=lambda one: abs(one - ratio))
        if not size / limits.near < ratio < size * limits.near:
            return (Verdict(train.name, False),)
        return (
            self.found(
                "summed",
                train.name,
                steps=steps_of(train, train.points[0][0], place),
                words={"place": train.at(place)},
                loss=level,
                eval_loss=value,
                ratio=ratio,
                batch_size=size,
            ),
        )


class LargeReturns(CurveRule):
    """The targets of the value network are far from the range of its outputs.

    The loss of a reinforcement learning is that of values in the hundreds or more.

    A network starts with outputs of about 1 and changes them by a few per cent a step. The root of
    a squared error says how far its targets are.
    """

    name = "large-returns"
    group = "loss"
    certainty = "inferred"
    healthy = "Returns lie between about -10 and 10."
    reports = {
        "warning": (
            "In a run with rewards or returns, the loss is above {limit:plain} at first, and still "
            "after {points} points."
        )
    }
    messages = {
        "large": Message(
            "The loss started at {first} and is {now}: values miss their targets by about {size}. "
            "Rewards of this scale are too large for the network.",
            "Scale the rewards so that returns lie between about -10 and 10, or normalise them by "
            "a running deviation. A Huber loss and clipped gradients help too.",
        )
    }
    causes = frozenset({"instability", "standstill"})
    only_in = frozenset({"rl", "adversarial"})

    class Thresholds(RuleThresholds):
        limit: float = 1e4
        points: int = 200

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the first losses with those after some time."""
        curve, limits = context.updated_curves.get("loss"), self.thresholds
        if curve is None or curve.count < limits.points:
            return ()
        if curve.count % _EVERY:
            return ()
        first, now = curve.blocks[0].level, curve.recent_level(20)
        if min(first, now) < limits.limit:
            return (Verdict(curve.name, False, extent=_EVERY),)
        steps = steps_of(curve, curve.blocks[0].first, curve.points[-1][0])
        size, extent = math.sqrt(now), curve.count
        large = self.found(
            "large", curve.name, steps=steps, extent=extent, first=first, now=now, size=size
        )
        return (large,)


def batch_size(config: Mapping[str, Any]) -> int | None:
    """Return the batch size in the configuration, at any depth; None if it is not there."""
    sizes = (value for value in configured(config, _BATCH_KEYS) if isinstance(value, int))
    return next((min(size, _MOST_SAMPLES) for size in sizes), None)
