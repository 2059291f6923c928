"""The training loss is a sum over the batch, the evaluation's a mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import configured
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, steps_of, times
from epochal.health.thresholds import RuleThresholds

_KEYS = ("batch_size", "train_batch_size", "per_device_train_batch_size", "micro_batch_size")
_NEWEST = 11
_MOST_SAMPLES = 1 << 40


class LossSummed(Rule):
    """The training loss is as many times the evaluation loss as a batch has samples."""

    name = "loss-summed"
    group = "loss"
    meaning = "The loss is summed over the batch, so gradients are as many times too large."
    healthy = "Both losses are means per sample, and of the same size."
    reports = {
        "warning": (
            "In 3 of the first 6 evaluations in a row, training loss divided by evaluation loss "
            "is the batch size, give or take a third."
        )
    }
    needs = "The batch size: `batch_size` in the configuration, or the samples of a step record."
    causes = frozenset({"instability", "standstill", "implausible results"})
    symptom_of = frozenset({"lost values"})
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        evals: int = 3
        # Looked at: later the two may differ by memorising.
        first: int = 6
        # How far the ratio may be from the batch size, as a factor.
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
        if evaluation is None or train is None or not train.points or context.is_game:
            return ()
        limits = self.thresholds
        if evaluation.count > limits.first or train.lowest <= 0:  # a sum is one from the beginning
            return ()
        level, value = train.recent_level(_NEWEST), evaluation.points[-1][1]
        known = (batch_size(context.config), self._samples)
        sizes = [size for size in known if size is not None and size >= limits.least]
        if value <= 0 or not sizes:
            return ()
        ratio = level / value
        size = min(sizes, key=lambda one: abs(one - ratio))
        if not size / limits.near < ratio < size * limits.near:
            return (Verdict(train.name, False),)
        return (self._verdict(train, level, value, size),)

    def _verdict(self, train: Curve, level: float, value: float, size: int) -> Verdict:
        position = train.points[-1][0]
        return Verdict(
            train.name,
            True,
            "warning",
            f"The training loss is {times(level / value)} times the evaluation loss "
            f"({format_number(level)} against {format_number(value)}), as many times as a batch "
            f"has samples ({size:,}): it is a sum over the batch where the other is a mean.",
            steps=steps_of(train, train.points[0][0], position),
            evidence={"loss": level, "eval_loss": value, "batch_size": size},
            advice=(
                'Use reduction="mean", or divide the loss by the batch size: gradients are as '
                "many times too large for a rate that is meant for a mean."
            ),
        )


def batch_size(config: Mapping[str, Any]) -> int | None:
    """The batch size in the configuration, at any depth; None if it is not there."""
    sizes = (value for value in configured(config, _KEYS) if isinstance(value, int))
    return next((min(size, _MOST_SAMPLES) for size in sizes), None)
