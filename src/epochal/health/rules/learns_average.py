"""The model has learned an average, and nothing about single samples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import accuracy_of, is_accuracy, is_evaluation, num_classes
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, INPUTS_REACH_THE_OUTPUT, steps_of
from epochal.health.thresholds import RuleThresholds

_TRAIN_POINTS = 50
_LEVEL = 4  # evaluations whose mean is compared
# Figures that say nothing about the quality of a model.
_COUNTS = re.compile(r"time|second|duration|samples|steps|tokens|epoch|memory|rate", re.IGNORECASE)
_STEP_PER_DEVIATION = 0.954  # the median change from one to the next, of normal noise
_AVERAGE = (
    "Check that labels belong to their inputs (not shuffled apart), that the inputs are what they "
    f"should be, and {INPUTS_REACH_THE_OUTPUT}"
)
_NOTHING = (
    "Check that optimizer.step() is called and that the optimizer holds these parameters, that "
    "gradients are not clipped to nearly nothing, that the rate is not too small, that labels "
    f"belong to their inputs, and {INPUTS_REACH_THE_OUTPUT}"
)


class LearnsAverage(Rule):
    """The evaluation loss stays where its first evaluation found it, and so does the training loss.

    A model whose inputs say nothing about its labels learns the frequencies of classes, or the mean
    of the targets, within a few steps, and then no more.
    """

    name = "learns-average"
    group = "evaluation"
    meaning = "The inputs say nothing about the labels, or do not reach the output."
    healthy = "The evaluation loss falls on after the first evaluation."
    reports = {
        "warning": (
            "After 14 evaluations, or 8 at the end of the run, the mean of four is not 1 % below "
            "that of the first four. The training loss is near it and above half of its start. The "
            "accuracy is near chance. "
            "Up to 2 % count as well if other figures of the evaluation do not move beyond noise."
        )
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Some models start so and learn late, such as products of small factors.
        evals: int = 14
        # At the end of a run, when nothing can be learned late.
        evals_at_end: int = 8
        fall: float = 0.01
        # If the other figures of the evaluation stand: within so many standard errors.
        fall_alone: float = 0.02
        errors: float = 5.0
        # The evaluation as a share of its first; the training loss of the evaluation's.
        rise: float = 1.15
        near: float = 0.75
        # Of the training loss at its start: what fell further has learned something.
        of_start: float = 0.5
        # Of the same: where it fell by less, or by less than single losses vary, it has learned
        # not even an average.
        stays: float = 0.97
        # Above chance: frequent classes are guessed more often.
        above: float = 0.1

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._evals: list[tuple[int, float]] = []
        self._accuracy: float | None = None
        self._figures: dict[str, list[float]] = {}  # the others of the evaluations

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest evaluations with the first ones."""
        evaluation, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if evaluation is None or train is None or not train.points or context.is_game:
            return ()
        if context.is_resumed or min(train.lowest, evaluation.lowest) <= 0:
            return ()
        self._note_accuracy(observation, context)
        self._note_figures(observation, evaluation.name)
        self._evals.append(evaluation.points[-1])
        if len(self._evals) < self.thresholds.evals:
            return ()
        if not self._stands(train):
            return (Verdict(evaluation.name, False),)
        return (self._verdict(evaluation, train),)

    def finish(self, context: Context) -> Iterable[Verdict]:
        """Judge a run with few evaluations by all of them."""
        evaluation, train = context.curves.get("eval_loss"), context.curves.get("loss")
        if evaluation is None or train is None or not train.points:
            return ()
        if self.thresholds.evals_at_end <= len(self._evals) < self.thresholds.evals:
            return (self._verdict(evaluation, train),) if self._stands(train) else ()
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the evaluations that are void."""
        self._evals = [one for one in self._evals if one[0] < step]
        self._figures.clear()

    def _note_figures(self, observation: Observation, loss: str) -> None:
        for name, value in observation.values.items():
            is_other = name != loss and not _COUNTS.search(name)
            if is_other and is_evaluation(name, observation.kind) and math.isfinite(value):
                self._figures.setdefault(name, []).append(value)

    def _figures_stand(self) -> bool:
        """Whether there are other figures, and none has moved since the first evaluations."""
        count = len(self._evals)
        followed = [v for v in self._figures.values() if len(v) == count and min(v) < max(v)]
        return bool(followed) and not any(self._has_moved(values) for values in followed)

    def _has_moved(self, values: list[float]) -> bool:
        usual = median(abs(b - a) for a, b in pairwise(values)) / _STEP_PER_DEVIATION
        error = usual * math.sqrt(2 / _LEVEL)
        return (
            abs(fmean(values[-_LEVEL:]) - fmean(values[:_LEVEL])) > self.thresholds.errors * error
        )

    def _note_accuracy(self, observation: Observation, context: Context) -> None:
        classes = num_classes(context.config)
        for name, value in observation.values.items():
            if is_accuracy(name) and is_evaluation(name, observation.kind) and math.isfinite(value):
                share = accuracy_of(value, classes)
                if share is not None and classes is not None:
                    self._accuracy = share - 1 / classes

    def _stands(self, train: Curve) -> bool:
        limits = self.thresholds
        losses = [loss for _, loss in self._evals]
        first, now = fmean(losses[:_LEVEL]), fmean(losses[-_LEVEL:])
        level = train.recent_level(_TRAIN_POINTS)
        fall = limits.fall_alone if self._figures_stand() else limits.fall
        if not (1 - fall) * first < now < limits.rise * first:
            return False
        if min(losses) < (1 - 4 * limits.fall) * losses[0] or level < limits.near * now:
            return False
        if self._accuracy is not None and self._accuracy > limits.above:
            return False
        return train.start is not None and level > limits.of_start * train.start

    def _verdict(self, evaluation: Curve, train: Curve) -> Verdict:
        (first_at, first), (position, now) = self._evals[0], self._evals[-1]
        level = train.recent_level(_TRAIN_POINTS)
        begin = level if train.start is None else train.start
        least = max((1 - self.thresholds.stays) * begin, train.width_at(level))
        has_learned, start = begin - level > least, format_number(begin)
        how = (
            "So far the model has learned an average, no single sample."
            if has_learned
            else f"It was {start} at first: so far the model has learned nothing."
        )
        return Verdict(
            evaluation.name,
            True,
            "warning",
            f"The evaluation loss is where the first evaluation found it: {format_number(first)}, "
            f"and {format_number(now)} after {len(self._evals)} evaluations. The training loss is "
            f"{format_number(level)}. {how}",
            steps=steps_of(evaluation, first_at, position),
            evidence={"first": first, "now": now, "train": level},
            advice=_AVERAGE if has_learned else _NOTHING,
        )
