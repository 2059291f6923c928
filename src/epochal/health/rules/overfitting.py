"""The training loss falls on while the evaluation loss rises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.data_window import DATA_KINDS, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, percent, steps_of, times
from epochal.health.thresholds import RuleThresholds

# The training loss beside an evaluation: of some steps, or of the last epochs.
_TRAIN_POINTS = {"step": 30, "epoch": 2}
_EPOCH = "train/epoch"
_LEVEL = 3  # evaluations whose mean is compared
_BEND_PER_NOISE = 2.4  # the deviation of a - 2b + c over that of single points


@dataclass(frozen=True, slots=True)
class _Eval:
    position: int
    loss: float
    train: float


class Overfitting(Rule):
    """Several evaluations in a row above the best one, together beyond its noise; training falls.

    Where both losses rise the run diverges, and another rule says so.
    """

    name = "overfitting"
    group = "evaluation"
    meaning = "Training improves while evaluation gets worse. The model memorises the data."
    healthy = (
        "The evaluation loss follows the training loss with a gap of a few per cent that does "
        "not grow."
    )
    reports = {
        "info": (
            "The training loss is below 2 % of the evaluation loss, which four evaluations in a "
            "row are no lower than the first one. Or it changes from step to step by less than "
            "0.4 %, without the noise of batches that differ, and has left the evaluation loss 1.4 "
            "times behind. Or every sample was seen 80 times. Since some evaluation the training "
            "loss fell by 13 % or more by then, and the evaluation loss by less than a quarter of "
            "that."
        ),
        "warning": (
            "The mean of three evaluations is above the best such mean by 4 % and 3.5 usual "
            "changes between evaluations. Meanwhile the training loss fell, by 2 % or a third of "
            "that share at least."
        ),
    }
    needs = (
        "A training loss and an evaluation loss. Series of an evaluation are those of `eval` "
        "records, and names that begin with `eval`, `val`, `valid`, `validation`, `test` or `dev`. "
        "The field `epoch` of a step or `epochal.watch_data(loader)` tells how often samples came."
    )
    symptom_of = frozenset({"lost values", "divergence", "poor evaluation", "memorising"})
    kinds = CURVE_KINDS | DATA_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        # Three evaluations above the best one, not two: two happen by chance once in four.
        evals: int = 3
        least: int = 5
        # Their mean above the best mean of as many, by so many steps between evaluations.
        steps: float = 3.5
        # Evaluations that end 2 or 3 % above their best are what healthy trainings end with.
        share: float = 0.04
        # Of the range it covered, where the loss reaches zero: energies swing around it.
        share_of_range: float = 0.1
        # How far the training loss fell meanwhile: as a share, or as a part of the other's rise.
        train_share: float = 0.02
        train_part: float = 1 / 3
        # What is left of a training loss that was memorised, as a share of the evaluation loss;
        # and of the first evaluation, below which something was learned for it.
        memorised: float = 0.02
        gained: float = 0.95
        # The usual change of a loss from step to step, beside its trend: one per cent or more where
        # batches differ. And how far the evaluation loss is behind, then and since the first one.
        smooth: float = 0.004
        smooth_points: int = 100
        behind: float = 1.4
        fell_behind: float = 1.25
        # Epochs after which a gap is of samples that are known by heart. Since an evaluation: how
        # far the training loss must have fallen, as a logarithm, and the evaluation's share of it.
        epochs: float = 80.0
        gap_evals: int = 8
        train_fell: float = 0.14
        eval_share: float = 0.25

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._evals: list[_Eval] = []
        self._curve: Curve | None = None
        self._epochs = 0.0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest evaluations beside the training loss."""
        self._note_epochs(observation)
        curve, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if curve is None or train is None or not train.count:
            return ()
        if curve is not self._curve:
            self._curve, self._evals = curve, []
        position, loss = curve.points[-1]
        self._evals.append(_Eval(position, loss, train.recent_level(_TRAIN_POINTS[train.axis])))
        if len(self._evals) < self.thresholds.least:
            return ()
        best = min(self._evals, key=lambda one: one.loss)
        since = self._evals[self._evals.index(best) + 1 :]
        if not self._is_rising(best, since, curve):
            if self._is_memorised(curve, train):
                return (self._memorised(curve, train),)
            roughness = self._roughness_of_one_batch(curve, train)
            if roughness is not None:
                return (self._one_batch(curve, roughness),)
            left = self._left_behind(curve, train)
            if left is not None:
                return (self._known_by_heart(curve, left),)
            return (Verdict(curve.name, False),)
        return (self._verdict(curve, best, since),)

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the evaluations from a step on."""
        if self._curve is not None and self._curve.axis == "step":
            self._evals = [one for one in self._evals if one.position < step]

    def _note_epochs(self, observation: Observation) -> None:
        """How often every sample was seen: by the steps, or by a watched loader."""
        epoch = observation.values.get(_EPOCH)
        if epoch is not None and math.isfinite(epoch):
            self._epochs = max(self._epochs, epoch)
        elif observation.kind in DATA_KINDS:
            window = window_of(observation)
            if window is None or not window.is_training or not window.has_ended:
                return
            # Some loaders end an epoch after a number of batches.
            if 2 * window.samples > window.count("dataset_samples") > 0:
                self._epochs = max(self._epochs, window.epoch)

    def _left_behind(self, curve: Curve, train: Curve) -> _Eval | None:
        """The levels since which the training loss fell on known samples, and the other did not."""
        limits, evals = self.thresholds, self._evals
        if self._epochs < limits.epochs or len(evals) < limits.gap_evals:
            return None
        if min(curve.lowest, train.lowest) <= 0:
            return None
        now = _level(evals[-_LEVEL:])
        if now.loss < now.train:
            return None  # what is measured is not the same, or nothing is known by heart
        noise = math.sqrt(_TRAIN_POINTS[train.axis]) / 3
        for first in range(1, len(evals) - 2 * _LEVEL + 1):
            then = _level(evals[first : first + _LEVEL])
            fell = math.log(then.train / now.train)
            gained = math.log(then.loss / now.loss)
            is_sure = then.train - now.train > train.width_at(then.train) / noise
            if is_sure and fell > limits.train_fell and gained < limits.eval_share * fell:
                return then
        return None

    def _is_rising(self, best: _Eval, since: list[_Eval], curve: Curve) -> bool:
        thresholds = self.thresholds
        several = thresholds.evals
        if len(since) < several or since[-1].train > best.train:
            return False
        if min(curve.lowest, since[-1].train) > 0:
            rise, fall = since[-1].loss / best.loss - 1, 1 - since[-1].train / best.train
            if fall < min(thresholds.train_share, thresholds.train_part * rise):
                return False  # noise of a training that stands
        losses = [one.loss for one in self._evals]
        steps = [abs(b - a) for a, b in pairwise(losses)]
        size = abs(best.loss) if curve.lowest > 0 else curve.highest - curve.lowest
        share = thresholds.share if curve.lowest > 0 else thresholds.share_of_range
        bar = max(thresholds.steps * median(steps), share * size)
        # The best of many single evaluations is good luck; the best of their means is not.
        means = [sum(losses[i : i + several]) / several for i in range(len(losses) - several + 1)]
        return means[-1] - min(means) > bar and min(losses[-several:]) - best.loss > bar / 2

    def _is_memorised(self, curve: Curve, train: Curve) -> bool:
        """Whether the training has come to an end that the evaluation never gained from."""
        limits, first = self.thresholds, self._evals[0]
        if min(curve.lowest, train.lowest) < 0 or first.loss <= 0:
            return False
        newest = self._evals[-(limits.evals + 1) :]
        return all(
            one.train < limits.memorised * one.loss and one.loss > limits.gained * first.loss
            for one in newest
        )

    def _roughness_of_one_batch(self, curve: Curve, train: Curve) -> float | None:
        """How smooth the training loss is, if it is that of one batch which is left alone."""
        limits, first, now = self.thresholds, self._evals[0], self._evals[-1]
        values = train.window(limits.smooth_points)
        if min(curve.lowest, train.lowest) <= 0 or len(values) < limits.smooth_points:
            return None
        behind, behind_first = now.loss / now.train, first.loss / first.train
        if train.axis != "step" or behind < max(limits.behind, limits.fell_behind * behind_first):
            return None
        threes = zip(values, values[1:], values[2:], strict=False)
        bends = [abs(a - 2 * b + c) for a, b, c in threes]
        roughness = median(bends) / _BEND_PER_NOISE / now.train
        return roughness if roughness < limits.smooth else None

    def _one_batch(self, curve: Curve, roughness: float) -> Verdict:
        first, now = self._evals[0], self._evals[-1]
        return Verdict(
            curve.name,
            True,
            "info",
            f"The training loss changes by {percent(roughness)} from step to step, as if one "
            f"batch came again and again. The evaluation loss is {format_number(now.loss)} at "
            f"{curve.at(now.position)}, {times(now.loss / now.train)} times the training loss of "
            f"{format_number(now.train)}.",
            steps=steps_of(curve, first.position, now.position),
            evidence={"train": now.train, "eval": now.loss, "roughness": roughness},
            advice=(
                "Check that each step takes the next batch: the same samples are memorised. If the "
                "whole dataset is one batch, add data or regularisation."
            ),
        )

    def _known_by_heart(self, curve: Curve, then: _Eval) -> Verdict:
        now = _level(self._evals[-_LEVEL:])
        return Verdict(
            curve.name,
            True,
            "info",
            f"Every sample was seen about {self._epochs:.0f} times. Since "
            f"{curve.at(then.position)} the training loss went from {format_number(then.train)} to "
            f"{format_number(now.train)}, the evaluation loss from {format_number(then.loss)} to "
            f"{format_number(now.loss)}: the model memorises its training data.",
            steps=steps_of(curve, then.position, self._evals[-1].position),
            evidence={"train": now.train, "eval": now.loss, "epochs": self._epochs},
            advice=(
                "Check that all of the data is read. Otherwise add data, augmentation or "
                "regularisation, or stop earlier."
            ),
        )

    def _memorised(self, curve: Curve, train: Curve) -> Verdict:
        first, now = self._evals[0], self._evals[-1]
        return Verdict(
            curve.name,
            True,
            "info",
            f"The training loss is {format_number(now.train)}, next to nothing, while the "
            f"evaluation loss went from {format_number(first.loss)} at {curve.at(first.position)} "
            f"to {format_number(now.loss)}: the model has memorised its training data.",
            steps=steps_of(curve, first.position, now.position),
            evidence={"train": now.train, "eval": now.loss, "first_eval": first.loss},
            advice=(
                "Check that batches differ: one batch that comes again and again is memorised. "
                "Otherwise add data, augmentation or regularisation."
            ),
        )

    def _verdict(self, curve: Curve, best: _Eval, since: list[_Eval]) -> Verdict:
        now = since[-1]
        rise = f" (+{percent((now.loss - best.loss) / best.loss)})" if best.loss > 0 else ""
        return Verdict(
            curve.name,
            True,
            "warning",
            f"The evaluation loss rose from {format_number(best.loss)} at "
            f"{curve.at(best.position)} to {format_number(now.loss)} at "
            f"{curve.at(now.position)}{rise}, while the training loss went from "
            f"{format_number(best.train)} to {format_number(now.train)}.",
            steps=steps_of(curve, best.position, now.position),
            evidence={
                "best": best.loss,
                "now": now.loss,
                "gap": now.loss - now.train,
                "evaluations": len(since),
            },
            advice=(
                f"Keep the checkpoint of {curve.at(best.position)}; add data, augmentation, "
                "dropout or weight decay, or stop here."
            ),
        )


def _level(evals: Sequence[_Eval]) -> _Eval:
    """The mean of some evaluations, at the first of them."""
    return _Eval(
        evals[0].position, fmean(one.loss for one in evals), fmean(one.train for one in evals)
    )
