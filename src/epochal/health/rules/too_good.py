"""An evaluation is next to perfect before anything can have been learned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.data_window import DATA_KINDS, DataWindow, pair_figures, window_of
from epochal.health.evaluations import (
    accuracy_of,
    is_accuracy,
    is_evaluation,
    is_overlap,
    is_perplexity,
    num_classes,
)
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

_ADVICE = (
    "Look for labels among the inputs, evaluation samples among the training data, and a mask that "
    "hides the wrong side."
)

_LEAST_BLOCKS = 4
_MOST_NATS = 16.0  # of guessing among nine million tokens: a larger loss is of another kind


class TooGood(Rule):
    """The first evaluations, a few hundred steps in: an accuracy next to 1, or next to no loss.

    An accuracy counts at the first evaluation, or within fewer steps, because later ones may have
    been learned in between. A loss is compared with the loss at the start of training. Nothing is
    too good while the training loss is above its start. The error of a regression can become
    almost zero in a few steps; it is suspicious only far below the training loss.
    """

    name = "too-good"
    group = "evaluation"
    meaning = "The model learned too fast. The inputs may contain the answer."
    healthy = "Gradual learning."
    reports = {
        "warning": (
            "An accuracy (or IoU, Dice, F1) of 99 % at the first evaluation within 500 steps, or "
            "at any within 100 steps (99.9 % if only epochs are logged). The evaluation loss is "
            "then below 5 % of the training loss at the start, if both are known. Or a loss of "
            "classes or tokens at 2 % of its start within 500 steps. Any other loss must also be "
            "at a tenth of the training loss. If `watch_data` counts the labels, nine tenths of "
            "what the most frequent class leaves must be right. It is no finding if `watch_data` "
            "has read 200 samples and found no label among the inputs."
        )
    }
    symptom_of = frozenset({"lost values", "implausible results"})
    kinds = frozenset({"eval", "metrics", "epoch"}) | DATA_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Next to perfect at the first evaluation, within so many steps, or at any of the first
        # within fewer: a small network needs some hundred to know digits that well.
        steps: int = 500
        at_once: int = 100
        accuracy: float = 0.99
        # After an epoch, of whatever length, digits are known to 99 % too.
        epoch: float = 0.999
        loss: float = 0.02
        # An easy task is known to 99 % early as well, but by margins that are still small: its
        # evaluation loss is at a tenth of the first training loss then. Given away it is at 3 %.
        sure: float = 0.05
        # A loss that falls fiftyfold evenly on a log scale is seven times as high halfway.
        halfway: float = 3.0
        # An evaluation of an unknown kind of loss must be this far below the training itself.
        of_train: float = 0.1
        evals: int = 3
        # Of the samples that are not of the most frequent class, if it is known.
        of_rest: float = 0.9
        # Samples among whose inputs a label would have been found.
        samples: int = 200

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._counts: Counter[str] = Counter()
        self._labels: Counter[str] = Counter()
        self._is_clean = False  # no label is among the inputs, as far as is known

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the first evaluations."""
        verdicts: list[Verdict] = []
        if observation.kind in DATA_KINDS:
            window = window_of(observation)
            if window is not None:
                self._labels.update(window.labels)
                self._note_inputs(window)
            return verdicts
        if context.is_resumed or self._is_clean:
            return verdicts
        loss_name = context.role_names.get("eval_loss")
        for name, value in observation.values.items():
            if not is_evaluation(name, observation.kind):
                continue
            if not math.isfinite(value) or (name != loss_name and not _is_share(name)):
                continue
            self._counts[name] += 1
            if self._counts[name] > self.thresholds.evals:
                continue
            steps = _steps_so_far(observation, context)
            if name == loss_name:
                verdict = self._loss(name, value, observation, context)
            else:
                accuracy = accuracy_of(value, num_classes(context.config))
                verdict = self._accuracy(name, accuracy, steps)
                if verdict.active and not self._is_sure(context):
                    verdict = Verdict(name, False)
            # Good later on neither opens a finding nor clears the one of an earlier evaluation.
            is_early = self._is_early(name, steps, is_loss=name == loss_name)
            # One answer among the inputs is one finding, whatever figure shows it.
            is_said = any(rule == self.name and subject != name for rule, subject in context.open)
            is_said = is_said or any(one.active for one in verdicts)
            if not verdict.active or (is_early and not is_said):
                verdicts.append(verdict)
        return verdicts

    def _note_inputs(self, window: DataWindow) -> None:
        """Note whether inputs were compared with targets, and have no label among them."""
        found = pair_figures(window, "targets")
        if found.get("samples", 0.0) >= self.thresholds.samples:
            self._is_clean = "telling" not in window.record

    def _is_early(self, name: str, steps: int | None, *, is_loss: bool) -> bool:
        thresholds = self.thresholds
        if steps is not None and steps <= thresholds.at_once:
            return True
        # The training loss itself tells whether a loss took its time.
        counts = is_loss or self._counts[name] == 1
        return counts and (steps is None or steps <= thresholds.steps)

    def _accuracy(self, name: str, accuracy: float | None, steps: int | None) -> Verdict:
        thresholds = self.thresholds
        # Of an epoch nobody knows how many steps it has.
        least = thresholds.accuracy if steps is not None else thresholds.epoch
        if accuracy is None or accuracy < max(least, self._least_above_guessing()):
            return Verdict(name, False)
        return Verdict(
            name,
            True,
            "warning",
            f"{name} is {percent(accuracy)} at evaluation {self._counts[name]} of the run: too "
            "good to have been learned so early.",
            evidence={"accuracy": accuracy, "evaluation": self._counts[name]},
            advice=_ADVICE,
        )

    def _is_sure(self, context: Context) -> bool:
        """Whether the newest evaluation loss is next to nothing; so if it is not known."""
        curve, train = context.curves.get("eval_loss"), context.curves.get("loss")
        if curve is None or not curve.points or train is None or train.start is None:
            return True
        if min(curve.lowest, train.lowest) < 0:
            return True
        # What is given away is known within a few points, of which the start is the median.
        start = max(train.start, train.first or 0.0)
        return curve.points[-1][1] < self.thresholds.sure * start

    def _least_above_guessing(self) -> float:
        """The accuracy that says more than which class is the most frequent; 0 if unknown."""
        total = sum(self._labels.values())
        if not total:
            return 0.0
        frequent = max(self._labels.values()) / total
        return frequent + self.thresholds.of_rest * (1 - frequent)

    def _loss(self, name: str, value: float, observation: Observation, context: Context) -> Verdict:
        train = context.curves.get("loss")
        if train is None or train.start is None or train.start <= 0 or train.lowest <= 0:
            return Verdict(name, False)
        start = min(train.start, train.start if train.first is None else train.first)
        thresholds = self.thresholds
        bar = thresholds.loss * start
        if value > bar or train.points[-1][1] > start or self._took_its_time(train, value):
            return Verdict(name, False)
        now = train.recent_level(10)
        if not _is_cross_entropy(observation, context) and value > thresholds.of_train * now:
            return Verdict(name, False)
        return Verdict(
            name,
            True,
            "warning",
            f"The evaluation loss is {format_number(value)} at evaluation {self._counts[name]} of "
            f"the run, where training started from {format_number(start)}: too good to have "
            "been learned so early.",
            evidence={"loss": value, "start": start, "evaluation": self._counts[name]},
            advice=_ADVICE,
        )

    def _took_its_time(self, train: Curve, value: float) -> bool:
        """Whether the training loss was still on its way down halfway, and explains the other.

        An error that can be learned away falls by orders of magnitude all along; what is given
        away is known after a few batches.
        """
        if len(train.blocks) < _LEAST_BLOCKS:
            return False
        now = train.recent_level(10)
        halfway = train.blocks[(len(train.blocks) - 1) // 2].level
        return halfway > self.thresholds.halfway * now and value > now / 10


def _is_share(name: str) -> bool:
    """Whether 1 is perfect."""
    return is_accuracy(name) or is_overlap(name)


def _steps_so_far(observation: Observation, context: Context) -> int | None:
    """How many steps the run has made; None where its records do not count them."""
    if observation.step is None or context.first_step is None:
        return None
    return observation.step - context.first_step + 1


def _is_cross_entropy(observation: Observation, context: Context) -> bool:
    """Whether a loss is one of classes or tokens, which data set a floor to."""
    start = context.curves["loss"].start
    if num_classes(context.config) is not None:
        return True
    if "eval_tokens" in observation.record and start is not None and start < _MOST_NATS:
        return True
    return any(is_accuracy(name) or is_perplexity(name) for name in observation.values)
