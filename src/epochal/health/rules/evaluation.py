"""Rules about evaluations: what they measure, whether it can be true, and memorising."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
from types import MappingProxyType
from typing import NamedTuple

from epochal.health.context import Context, accuracy_of, is_accuracy
from epochal.health.curve import Curve
from epochal.health.data_window import DATA_KINDS, numbers, window_of
from epochal.health.families import MOVING_TARGETS
from epochal.health.finding import steps_of
from epochal.health.layer_series import (
    GRADIENT_NORMS,
    RUNNING_STATS,
    WEIGHT_NORMS,
    StreakCounter,
    holds_layers,
    named,
)
from epochal.health.observation import Observation
from epochal.health.rule import CurveRule, Message, Rule, RuleThresholds, Verdict

_TRAIN_POINTS = 15


class EvaluationRule(Rule):
    """What rules about evaluations have in common."""

    group = "evaluation"
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"eval", "metrics", "epoch"})
    every_rank = False


class EvalMode(EvaluationRule):
    """The model is evaluated in training mode.

    All passes without gradients around an evaluation had dropout or BatchNorm in training mode.

    A training may run its model without gradients and in training mode by design, as for pseudo
    labels. Such passes come without an evaluation as well, and then nothing is reported. Passes in
    evaluation mode without an evaluation, as of an export or a sample, resolve nothing.
    """

    name = "eval-mode"
    healthy = "In an evaluation, dropout and BatchNorm are in evaluation mode."
    reports = {
        "warning": (
            "Every pass without gradients before an evaluation was logged ran with dropout or "
            "BatchNorm in training mode."
        )
    }
    needs = "`epochal.watch(model)`, and evaluations under `torch.no_grad()`."
    causes = frozenset({"poor evaluation"})
    kinds = CurveRule.kinds | {"event"}
    messages = {
        "mode": Message(
            "The model was in training mode in the evaluation at step {step}: {dropouts} dropout "
            "and {batchnorms} BatchNorm modules. It is not measured as it will be used.",
            "Call model.eval() before the evaluation, and model.train() after it.",
        )
    }

    def reset(self) -> None:
        self._evaluated_at: int | None = None
        self._is_by_design = False

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the passes that were reported after an evaluation."""
        if observation.kind != "event":
            if "loss" in observation.roles:
                self._evaluated_at = None  # training goes on
            if observation.evaluations:
                self._evaluated_at = observation.step
            return ()
        if observation.record.get("name") != "evaluation-passes":
            return ()
        step, self._evaluated_at = self._evaluated_at, None
        dropouts, norms = observation.count_of("dropouts"), observation.count_of("batchnorms")
        subject = context.role_names.get("eval_loss", "eval")
        if not dropouts and not norms:
            return () if step is None else (Verdict(subject, False),)
        self._is_by_design = self._is_by_design or step is None
        if self._is_by_design or step is None:
            return ()
        steps, words = (step, step), {"step": f"{step:,}"}
        mode = self.found(
            "mode", subject, steps=steps, words=words, dropouts=dropouts, batchnorms=norms
        )
        return (mode,)


class StaleBatchNorm(EvaluationRule):
    """BatchNorm does not update the statistics that an evaluation uses.

    The running statistics of a BatchNorm in training mode are equal at several watched steps.

    In evaluation mode BatchNorm keeps them by design, and such a one is not recorded.
    """

    name = "stale-batchnorm"
    healthy = "The running statistics change at every step."
    reports = {
        "warning": "They do not change between watched steps of training, {samples} times in a row."
    }
    needs = "`epochal.watch(model)`."
    causes = frozenset({"poor evaluation"})
    kinds = frozenset({"metrics", "step"})
    messages = {
        "stale": Message(
            "The running statistics of BatchNorm {which} have not changed since step {since_step}, "
            "although it is in training mode. An evaluation normalises with them.",
            "Check that its momentum is above 0, that its buffers are not overwritten (by a "
            "checkpoint or another rank), and that the forward pass uses it.",
        )
    }

    class Thresholds(RuleThresholds):
        samples: int = 3  # changes between two watched steps

    thresholds: Thresholds

    def reset(self) -> None:
        self._still = StreakCounter(needed=self.thresholds.samples)
        self._norms: dict[str, tuple[int, float]] = {}
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        """Compare a watched step with the one before."""
        if observation.step is None or not holds_layers(observation):
            return
        norms, self._step = RUNNING_STATS.of(observation.values), observation.step
        gradients = GRADIENT_NORMS.of(observation.values)
        unused = {one for one in WEIGHT_NORMS.of(observation.values) if not gradients.get(one)}
        for layer, norm in norms.items():
            if f"{layer}.weight" in unused:
                continue  # the forward pass does not use it, so nothing normalises with it
            at, before = self._norms.get(layer, (self._step, math.nan))
            changes = norm != before and not math.isnan(before)
            self._still.note(layer, ails=norm == before, step=at, is_well=changes)
            self._norms[layer] = (self._step, norm)
        if norms:
            yield from self._still.verdicts(RUNNING_STATS.name, self._describe)

    def forget_from(self, step: int, context: Context) -> None:
        self._still.forget()
        self._norms.clear()

    def _describe(self, layers: Sequence[str]) -> Verdict:
        since, name = self._still.since(layers[0]), RUNNING_STATS.name(layers[0])
        words = {"which": named(layers)}
        return self.found("stale", name, steps=(since, self._step), words=words, since_step=since)


class EvalFlat(EvaluationRule):
    """The evaluation does not change. It may not use the trained model.

    The same loss to the last digits at several evaluations: nothing is measured.

    A number of few digits is too coarse to tell. A model whose learning rate is almost zero
    measures the same by right.
    """

    name = "eval-flat"
    healthy = "The evaluation loss changes from one evaluation to the next."
    reports = {"warning": "{evals} evaluation losses in a row are equal to six digits."}
    symptom_of = frozenset({"lost values", "divergence", "standstill", "poor evaluation"})
    messages = {
        "equal": Message(
            "{name} was {value} at {evals} evaluations: the evaluated model does not change.",
            "Check that optimizer.step() is called and has the model's parameters, that the "
            "evaluation uses the model being trained (not a copy), and that its data is not empty.",
        )
    }

    class Thresholds(RuleThresholds):
        evals: int = 4
        # At a hundredth of its peak the learning rate barely changes the weights.
        rate: float = 0.01

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the newest losses with each other."""
        curve, limits, rate = context.updated_curves.get("eval_loss"), self.thresholds, context.rate
        if curve is None or curve.count < limits.evals:
            return ()
        values, value = curve.window(limits.evals), curve.points[-1][1]
        if max(values) - min(values) > 1e-6 * abs(value):
            return (Verdict(curve.name, False),)
        is_coarse = float(f"{value:.3g}") == value
        if is_coarse or (rate.peak is not None and not rate.is_near_peak(limits.rate)):
            return ()
        steps = steps_of(curve, curve.points[-limits.evals][0], curve.points[-1][0])
        words, extent = {"name": curve.name}, limits.evals
        equal = self.found(
            "equal", curve.name, steps=steps, words=words, extent=extent, value=value
        )
        return (equal,)


class EvalGap(EvaluationRule):
    """The model computes something else in evaluation than in training, or on other data.

    In the first epoch the training loss falls and the evaluation loss stays behind.

    No sample has been seen twice by then, so the model has memorised nothing: it computes something
    else in evaluation, or gets other data. If both differ from the first evaluation on and fall
    together, they are measured differently, and that is no fault.
    """

    name = "eval-gap"
    healthy = "In the first epoch both losses fall together."
    reports = {
        "warning": (
            "Before epoch {epochs:plain} (or evaluation {evals}), the training loss has fallen to "
            "{train_fell:percent} between two evaluations and the evaluation loss is above "
            "{stayed:percent}, and {ratio:times} times the training loss."
        )
    }
    needs = "A training loss, an evaluation loss, and the field `epoch` of a step if there is one."
    causes = frozenset({"memorising"})
    symptom_of = frozenset({"lost values", "divergence", "poor evaluation", "memorising"})
    not_in = MOVING_TARGETS
    kinds = CurveRule.kinds | DATA_KINDS
    patience = 2
    messages = {
        "gap": Message(
            "The training loss fell from {first_train} to {train} by {when}, and the evaluation "
            "loss is {eval}: the model computes something else in evaluation, gets other data "
            "there, or sees only some classes or one batch in training.",
            "Prepare the data of both in the same way, and check the mode: train() before "
            "training, eval() before evaluation. BatchNorm must update its running statistics. "
            "Shuffle the training data, and check that batches differ.",
        )
    }

    class Thresholds(RuleThresholds):
        # Half of the samples were seen twice by then. Unknown, so many evaluations.
        epochs: float = 1.5
        evals: int = 6
        # Of the losses at an earlier evaluation.
        train_fell: float = 0.65
        stayed: float = 0.9
        ratio: float = 1.6

    thresholds: Thresholds

    def reset(self) -> None:
        self._epoch: float | None = None
        self._evals: list[tuple[int, float, float]] = []  # step, training loss, evaluation loss

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the two losses at an evaluation."""
        epoch, limits = observation.values.get("train/epoch"), self.thresholds
        if epoch is not None and math.isfinite(epoch):
            self._epoch = epoch
        window = window_of(observation) if observation.kind in DATA_KINDS else None
        if window is not None and window.is_training:
            self._epoch = max(self._epoch or 0.0, window.epoch - 1.0)
        curve, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if curve is None or train is None or train.first is None:
            return ()
        if context.is_resumed or min(train.lowest, curve.lowest) <= 0:
            return ()
        if len(self._evals) >= limits.evals if self._epoch is None else self._epoch > limits.epochs:
            return ()
        # An evaluation is a mean: rare samples with a large loss are in it, not in a median.
        level = max(train.recent_level(_TRAIN_POINTS), fmean(train.window(2 * _TRAIN_POINTS)))
        at, value = curve.points[-1]
        self._evals.append((at, level, value))
        return (self._verdict(train, level, value, at),)

    def forget_from(self, step: int, context: Context) -> None:
        self._evals = [one for one in self._evals if one[0] < step]

    def _verdict(self, train: Curve, level: float, value: float, at: int) -> Verdict:
        limits = self.thresholds
        # Rare batches with a large loss are in the mean of an evaluation.
        is_apart = value > max(limits.ratio * level, level + 0.1 * train.tail_at(level))
        behind = [
            (then, loss)
            for then, loss, other in self._evals[:-1]
            if level < limits.train_fell * loss
            and value > max(limits.stayed * other, 0.8 * self._evals[0][2])
        ]
        if not is_apart or not behind:
            return Verdict("eval_loss", False)
        (first, loss), words = behind[0], {"when": train.at(at)}
        steps = steps_of(train, first, at)
        return self.found(
            "gap", "eval_loss", steps=steps, words=words, first_train=loss, train=level, eval=value
        )


class TooGood(EvaluationRule):
    """The model learned too fast. The inputs may contain the answer.

    An evaluation that is almost perfect before anything can have been learned.
    """

    name = "too-good"
    healthy = "Gradual learning."
    reports = {
        "warning": (
            "An accuracy of {accuracy:percent} at the first evaluation within {steps} steps, or "
            "at any within {at_once}, with an evaluation loss below {sure:percent} of the first "
            "training loss. Not if `watch_data` found no label among {samples} samples. Or, in a "
            "language model that starts above {untrained:plain} nats, an evaluation loss below "
            "{nats:percent} of its first training loss within {soon} steps."
        )
    }
    symptom_of = frozenset({"lost values", "implausible results"})
    kinds = EvaluationRule.kinds | DATA_KINDS
    messages = {
        "good": Message(
            "{name} is {value} at evaluation {evaluation} of the run: too good to have been "
            "learned so early. The answer may be among the inputs.",
            "Look for labels among the inputs, common samples of both splits, and a wrong mask.",
        ),
        "nats": Message(
            "The evaluation loss is {value} nats at step {step}, where training began at {start}: "
            "an honest language model is above 1 for long. It may see the tokens that it predicts.",
            "Check that attention has a causal mask, that labels are shifted by one token against "
            "the inputs, and that padding is ignored.",
        ),
    }

    class Thresholds(RuleThresholds):
        # At the first evaluation, within so many steps, or at any of the first within fewer: a
        # small network needs some hundred to know digits that well.
        steps: int = 500
        at_once: int = 100
        accuracy: float = 0.99
        # An easy task is known to 99 % early as well, but its evaluation loss is at a tenth of the
        # first training loss then. If the answer is given away, it is at 3 %.
        sure: float = 0.05
        samples: int = 200
        # Nats per token of a model that guesses among 50 tokens; and what is left of it, so soon.
        untrained: float = 3.9
        nats: float = 0.1
        soon: int = 300

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._counts: Counter[str] = Counter()
        self._is_clean = False  # no label is among the inputs, as far as is known

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        if observation.kind in DATA_KINDS:
            if numbers(observation.record, "targets").get("samples", 0) >= self.thresholds.samples:
                self._is_clean = "telling" not in observation.record
            return
        for name, value in observation.evaluations.items() if not context.is_resumed else ():
            if not is_accuracy(name) or self._is_clean:
                continue
            self._counts[name] += 1
            # One answer among the inputs is one finding, whichever metric shows it.
            is_first = context.is_open(self.name, name) or not context.has_open(self.name)
            if self._counts[name] <= 3 and is_first:
                yield self._verdict(name, value, observation, context)
        if context.family.name == "language" and not context.is_resumed:
            yield from self._judge_nats(observation, context)

    def _judge_nats(self, seen: Observation, context: Context) -> Iterator[Verdict]:
        """Find a loss per token that nobody can have who does not see the next token."""
        limits, loss, train = (
            self.thresholds,
            seen.roles.get("eval_loss"),
            context.curves.get("loss"),
        )
        if loss is None or seen.step is None or train is None or train.first is None:
            return
        is_soon = seen.step - (context.first_step or 0) < limits.soon
        if is_soon and train.first > limits.untrained and 0 <= loss < limits.nats * train.first:
            name = context.role_names["eval_loss"]
            yield self.found("nats", name, value=loss, step=seen.step, start=train.first)

    def _verdict(self, name: str, value: float, seen: Observation, context: Context) -> Verdict:
        limits, accuracy = self.thresholds, accuracy_of(value, context.num_classes)
        if accuracy is None or not accuracy >= limits.accuracy:
            return Verdict(name, False)
        if not context.is_open(self.name, name):
            train, loss = context.curves.get("loss"), context.curves.get("eval_loss")
            steps = limits.steps if self._counts[name] == 1 else limits.at_once
            if train is None or train.first is None or seen.step is None:
                return Verdict(name, False)
            sure = limits.sure * max(train.first, train.start or 0.0)
            is_sure = loss is None or not loss.points or loss.points[-1][1] < sure
            if not is_sure or seen.step - (context.first_step or 0) >= steps:
                return Verdict(name, False)
        evaluation, words = self._counts[name], {"name": name}
        return self.found("good", name, words=words, value=value, evaluation=evaluation)


class DoubleSoftmax(EvaluationRule):
    """There is a softmax before a loss that has its own, so gradients are far too small.

    An evaluation loss that the accuracy alone decides, as after two softmaxes.

    A cross-entropy that gets probabilities instead of logits cannot fall below ``log(1 + (n-1)/e)``
    for n classes. If the model is sure of its answers, a wrong one costs exactly 1 more than a
    right one.
    """

    name = "double-softmax"
    healthy = "A loss far below `log(1 + (n-1)/e) + 1 - accuracy` for n classes."
    reports = {
        "warning": (
            "{evals} evaluations in a row over {steps} steps have a loss of "
            "`log(1 + (n-1)/e) + 1 - accuracy`. The accuracy is {above:percent} above chance."
        )
    }
    needs = "An evaluation loss, an accuracy, and the number of classes (`num_classes`)."
    symptom_of = frozenset({"lost values", "divergence"})
    messages = {
        "softmax": Message(
            "The evaluation loss is {loss} at an accuracy of {accuracy:percent}, as with a "
            "softmax before the loss. With {classes} classes it cannot fall below {floor} so.",
            "Remove the softmax at the end of the model: the loss takes logits and has its own. If "
            "the model returns log-probabilities, use nll_loss.",
        )
    }

    class Thresholds(RuleThresholds):
        evals: int = 4
        steps: int = 100  # a loss that falls passes by in fewer
        near: float = 0.045
        # Above chance: a model that guesses has such a loss by right.
        above: float = 0.15

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._row: list[int] = []  # steps of evaluations in a row

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        """Compare loss and accuracy of one evaluation."""
        loss, limits = observation.roles.get("eval_loss"), self.thresholds
        if loss is None:
            return
        classes = context.num_classes
        shares = [
            accuracy_of(value, classes)
            for name, value in observation.evaluations.items()
            if is_accuracy(name)
        ]
        accuracy = shares[0] if shares else None
        if classes is None or accuracy is None or not 0 < accuracy < 1:
            return
        rest, floor = (1 - accuracy) / (classes - 1), math.log1p((classes - 1) / math.e)
        # What logits cost a model that is as sure as it is right.
        of_logits = -accuracy * math.log(accuracy) - (1 - accuracy) * math.log(rest)
        is_near = abs(loss - floor - 1 + accuracy) < limits.near and loss > of_logits + 0.1
        name = context.role_names["eval_loss"]
        is_guess = accuracy <= 1 / classes + limits.above
        if is_guess or not is_near:
            self._row.clear()
            if not is_guess:
                yield Verdict(name, False)
            return
        self._row.append(observation.step or limits.steps * len(self._row))
        if len(self._row) >= limits.evals and self._row[-1] - self._row[0] >= limits.steps:
            yield self.found(
                "softmax",
                name,
                extent=len(self._row),
                loss=loss,
                accuracy=accuracy,
                classes=classes,
                floor=floor,
            )


# -- memorising ------------------------------------------------------------------------------------


# The training loss beside an evaluation: of some steps, or of the last epochs.
_TRAIN_WINDOW = {"step": 30, "epoch": 2}


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
    certainty = "inferred"
    experiment = (
        "Evaluate on samples of the training set: their loss must be far below that of the others."
    )
    apart = MappingProxyType(
        {
            "data-shift": (
                "Hold samples of the training set back and evaluate them: "
                "if they do well, the evaluation data is another."
            )
        }
    )
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
        "worse": Message(
            "The evaluation loss rose from {best} at {since} to {now} at {when}, and the training "
            "loss hardly fell, from {best_train} to {train}: what the model learns does not help "
            "on the evaluation data.",
            "Keep the checkpoint of {since}. Check that both splits come from the same source and "
            "are prepared in the same way, then add data or regularisation.",
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
        # So much of the training loss falls where samples are memorised.
        memorising: float = 0.1
        # The best evaluation of a model that learned nothing general, as a share of the first loss.
        unlearned: float = 0.97
        # What is left of a training loss that was memorised, as a share of the evaluation loss.
        memorised: float = 0.02

    thresholds: Thresholds

    def reset(self) -> None:
        self._evals: list[_Eval] = []

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest evaluations beside the training loss."""
        curve, train = context.updated_curves.get("eval_loss"), context.curves.get("loss")
        if curve is None or train is None or not train.count or train.start is None:
            return ()
        now = _Eval(*curve.points[-1], train.recent_level(_TRAIN_WINDOW[train.axis]))
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
            elif 0 < (1 - self.thresholds.memorising) * best.train < now.train:
                message = "worse"
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
                extent=self.thresholds.evals,
                now=now.loss,
                train=now.train,
                start=train.start,
                best=best.loss,
                best_train=best.train,
            ),
        )

    def forget_from(self, step: int, context: Context) -> None:
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
