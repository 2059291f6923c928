"""The evaluation does not follow the training, before anything can be memorised."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, steps_of, times
from epochal.health.thresholds import RuleThresholds

_EPOCH = "train/epoch"
_TRAIN_POINTS = 15
# Of the largest loss of single batches: rare ones like it are in the mean of an evaluation.
_OF_TAIL = 0.1
# Rules that already say which samples come again.
_REPEATED = ("data-repeated", "data-one-class", "data-order")


class EvalGap(Rule):
    """In the first epoch the training loss falls and the evaluation loss stays behind.

    No sample has been seen twice by then, so the model has memorised nothing: it computes something
    else in evaluation, or gets other data. Where both differ from the first evaluation on and fall
    together, they are measured differently, and that is no fault.
    """

    name = "eval-gap"
    group = "evaluation"
    meaning = "The model computes something else in evaluation than in training."
    healthy = "In the first epoch both losses fall together."
    reports = {
        "warning": (
            "Before the end of the first epoch, the training loss has fallen by a third between "
            "two evaluations. The evaluation loss has fallen by less than a tenth, and it is 1.6 "
            "times the training loss, and 80 % of the first one or more. Or the training loss is "
            "at 30 % of its start while the evaluation loss is at 1.4 times that start. Or at "
            "three evaluations in a row the evaluation loss is 2.5 times the training loss or "
            "more. At an earlier evaluation this ratio was 1.8 or less, and at most half of what "
            "it is now."
        )
    }
    needs = "A training loss, an evaluation loss, and the field `epoch` of a step if there is one."
    causes = frozenset({"memorising"})
    symptom_of = frozenset(
        {"lost values", "divergence", "standstill", "poor evaluation", "memorising"}
    )
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Epochs: half of the samples were seen twice by then. Unknown, so many evaluations.
        epochs: float = 1.5
        evals: int = 6
        # Of the losses at an earlier evaluation.
        train_fell: float = 0.65
        eval_stayed: float = 0.9
        eval_first: float = 0.8
        ratio: float = 1.6
        # Ratios of the evaluation loss to the training loss: at most that of an earlier evaluation,
        # at least that of each of the newest ones, and by how much it grew. In health at most 1.4.
        alike: float = 1.8
        apart: float = 2.5
        grown: float = 2.0
        apart_evals: int = 3
        # Sorted by class, a batch says nothing about the next: of the start of training.
        known: float = 0.3
        lost: float = 1.4

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epoch: float | None = None
        self._evals: list[tuple[int, float, float]] = []  # step, training loss, evaluation loss
        self.patience = 2

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the two losses at an evaluation."""
        epoch = observation.values.get(_EPOCH)
        if epoch is not None and math.isfinite(epoch):
            self._epoch = epoch
        evaluation, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if evaluation is None or train is None or not train.points or context.is_game:
            return ()
        if context.is_resumed or train.start is None or min(train.lowest, evaluation.lowest) <= 0:
            return ()
        if not self._is_early():
            return ()
        position, value = evaluation.points[-1]
        # An evaluation is a mean: rare samples with a large loss are in it, not in a median.
        level = max(train.recent_level(_TRAIN_POINTS), fmean(train.window(2 * _TRAIN_POINTS)))
        now = (position, level, value)
        self._evals.append(now)
        # Sorted samples are learned within the first points: the very first one tells the start.
        start = max(train.start, train.first or 0.0)
        if self._is_sorted(start):
            return (self._sorted(train, start, now),)
        is_sure = value - level > _OF_TAIL * train.tail_at(level)
        for earlier in self._evals[:-1]:
            if is_sure and self._stays(earlier, now):
                return (self._gap(train, earlier, now),)
        if is_sure and (closest := self._nearest_before()) is not None:
            return (self._gap(train, closest, now),)
        return (Verdict(evaluation.name, False),)

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the evaluations that are void."""
        self._evals = [one for one in self._evals if one[0] < step]

    def _is_early(self) -> bool:
        limits = self.thresholds
        if self._epoch is not None:
            return self._epoch <= limits.epochs
        return len(self._evals) < limits.evals

    def _stays(self, earlier: tuple[int, float, float], now: tuple[int, float, float]) -> bool:
        limits = self.thresholds
        has_fallen = now[1] < limits.train_fell * earlier[1]
        has_stayed = now[2] > limits.eval_stayed * earlier[2]
        has_stayed = has_stayed and now[2] > limits.eval_first * self._evals[0][2]
        return has_fallen and has_stayed and now[2] > limits.ratio * now[1]

    def _nearest_before(self) -> tuple[int, float, float] | None:
        """The evaluation that was nearest to the training loss, if the newest are far from it."""
        limits = self.thresholds
        if self._epoch is None or len(self._evals) <= limits.apart_evals:
            return None
        ratios = [value / train for _, train, value in self._evals]
        least = min(ratios[: -limits.apart_evals])
        bar = max(limits.apart, limits.grown * least)
        if least > limits.alike or min(ratios[-limits.apart_evals :]) < bar:
            return None
        return self._evals[ratios.index(least)]

    def _is_sorted(self, start: float) -> bool:
        limits = self.thresholds
        return all(
            train < limits.known * start and value > limits.lost * start
            for _, train, value in self._evals
        )

    def _gap(
        self, train: Curve, first: tuple[int, float, float], now: tuple[int, float, float]
    ) -> Verdict:
        step, level, value = now
        if self._epoch is not None:
            why = "in the first epoch, where hardly a sample was seen twice"
        else:
            why = "from the first evaluations on"
        return Verdict(
            "eval_loss",
            True,
            "warning",
            f"The training loss fell from {format_number(first[1])} to {format_number(level)} by "
            f"{train.at(step)}, and the evaluation loss went from {format_number(first[2])} to "
            f"{format_number(value)}, {why}: unless one batch comes again and again and is "
            "memorised, the model computes something else in evaluation.",
            steps=steps_of(train, first[0], step),
            evidence={"train": level, "eval": value, "first_eval": first[2]},
            advice=(
                "Check its mode: train() before training, eval() before evaluation. BatchNorm must "
                "update its running statistics (momentum above 0). Prepare the data of both in the "
                "same way, shuffle that of the training, and check that batches differ."
            ),
        )

    def _sorted(self, train: Curve, start: float, now: tuple[int, float, float]) -> Verdict:
        step, level, value = now
        return Verdict(
            "eval_loss",
            True,
            "warning",
            f"In the first epoch the training loss is {format_number(level)} and the evaluation "
            f"loss {format_number(value)}, {times(value / start)} times where training started "
            f"({format_number(start)}): the model learns what the newest batches have in common, "
            "and unlearns the rest.",
            steps=steps_of(train, self._evals[0][0], step),
            evidence={"train": level, "eval": value, "start": start},
            advice=(
                "Shuffle the training data: sorted samples come one class after the other. Check "
                "that it is not the same batch in every step. If neither, check the mode of the "
                "model in evaluation and its data."
            ),
        )
