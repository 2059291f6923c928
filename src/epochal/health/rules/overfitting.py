"""The model memorises its training data."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, RuleThresholds, Verdict
from epochal.health.text import steps_of

# The training loss beside an evaluation: of some steps, or of the last epochs.
_TRAIN_POINTS = {"step": 30, "epoch": 2}


class _Eval(NamedTuple):
    at: int
    loss: float
    train: float


class Overfitting(CurveRule):
    """Training improves while evaluation gets worse. The model memorises the data.

    Several evaluations in a row above the best one, together beyond its noise; training falls.

    If both losses rise the run diverges, and another rule reports it.
    """

    name = "overfitting"
    group = "evaluation"
    healthy = "The evaluation loss follows the training loss with a gap that does not grow."
    reports = {
        "info": (
            "At {evals} evaluations the training loss is below {memorised:percent} of the "
            "evaluation loss, and at the first one it was not."
        ),
        "warning": (
            "The mean of {evals} evaluations is above the best such mean by {share:percent} and "
            "{changes:plain} usual changes. The training loss fell by {train_share:percent} or a "
            "third of that rise."
        ),
    }
    needs = (
        "A training loss and an evaluation loss. Series of an evaluation are those of `eval` "
        "records, and names that begin with `eval`, `val`, `valid`, `validation`, `test` or `dev`."
    )
    symptom_of = frozenset({"lost values", "divergence", "poor evaluation"})
    messages = {
        "rises": Message(
            "The evaluation loss rose from {best} at {since} to {now} at {when}, and the training "
            "loss went from {best_train} to {train}: the model memorises.",
            "Keep the checkpoint of {since}; add data or regularisation, or stop here.",
        ),
        "unrelated": Message(
            "The evaluation loss was never clearly below {start}, where the training began: {best} "
            "at {since}, {now} at {when}. The training loss went to {train}: what the model learns "
            "from its training data does not help on the evaluation data.",
            "Check that each training input has its own label, and that both splits have the same "
            "classes in the same order. If they do, add data or regularisation.",
        ),
        "memorised": Message(
            "The evaluation loss is {now} at {when}, and the training loss {train}: the model has "
            "memorised its training samples, as if one batch came again and again.",
            "Check that each step takes the next batch. Otherwise add data or regularisation.",
            "info",
        ),
    }

    class Thresholds(RuleThresholds):
        # Three evaluations above the best one, not two: two happen by chance once in four.
        evals: int = 3
        # Their mean above the best mean of as many, by so many changes between evaluations.
        changes: float = 3.5
        # Evaluations that end 2 or 3 % above their best are what healthy trainings end with.
        share: float = 0.04
        train_share: float = 0.02
        # The best evaluation of a model that learned nothing general, as a share of the first loss.
        unlearned: float = 0.97
        # What is left of a training loss that was memorised, as a share of the evaluation loss.
        memorised: float = 0.02

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._evals: list[_Eval] = []

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest evaluations beside the training loss."""
        curve, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if curve is None or train is None or not train.count or train.start is None:
            return ()
        now = _Eval(*curve.points[-1], train.recent_level(_TRAIN_POINTS[train.axis]))
        self._evals = self._evals[::2] if len(self._evals) > 512 else self._evals
        self._evals.append(now)
        if len(self._evals) < self.thresholds.evals + 2:
            return ()
        best = min(self._evals, key=lambda one: one.loss)
        words = {"since": curve.at(best.at), "when": curve.at(now.at)}
        message, first = "rises", best.at
        if self._rises(best, now, curve):
            if best.loss > self.thresholds.unlearned * train.start > 0:
                message = "unrelated"
        else:
            message, first = "memorised", self._evals[0].at
            if min(curve.lowest, train.lowest) <= 0 or not self._is_memorised():
                return (Verdict(curve.name, False),)
        return (
            self.found(
                message,
                curve.name,
                steps=steps_of(curve, first, now.at),
                words=words,
                now=now.loss,
                train=now.train,
                start=train.start,
                best=best.loss,
                best_train=best.train,
            ),
        )

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the evaluations from a step on."""
        self._evals = [one for one in self._evals if one.at < step]

    def _rises(self, best: _Eval, now: _Eval, curve: Curve) -> bool:
        limits, losses = self.thresholds, [one.loss for one in self._evals]
        several = limits.evals
        if len(losses) - losses.index(best.loss) <= several or now.train > best.train:
            return False
        # A loss that reaches zero swings around it: of the range that it covered.
        size = abs(best.loss) if curve.lowest > 0 else 2.5 * (curve.highest - curve.lowest)
        if min(best.loss, now.train) > 0:
            fall, rise = 1 - now.train / best.train, now.loss / best.loss - 1
            if fall < min(limits.train_share, rise / 3):
                return False  # noise of a training that stands
        usual = median(abs(b - a) for a, b in pairwise(losses))
        bar = max(limits.changes * usual, limits.share * size)
        # The best of many single evaluations is good luck; the best of their means is not.
        means = [fmean(losses[n : n + several]) for n in range(len(losses) - several + 1)]
        return means[-1] - min(means) > bar and min(losses[-several:]) - best.loss > bar / 2

    def _is_memorised(self) -> bool:
        """Return True if almost nothing is left of the training loss alone."""
        limits, first = self.thresholds, self._evals[0]
        newest = self._evals[-limits.evals :]
        is_of_both = first.train < 5 * limits.memorised * first.loss  # measured differently
        return not is_of_both and all(one.train < limits.memorised * one.loss for one in newest)
