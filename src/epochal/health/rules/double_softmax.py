"""The loss is that of probabilities where it expects logits."""

from __future__ import annotations

import math
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.evaluations import accuracy_of, is_accuracy, is_evaluation, num_classes
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

_MOST = 14.0  # the loss of guessing among a million


class DoubleSoftmax(Rule):
    """An evaluation loss that the accuracy alone decides, as after two softmaxes.

    A cross-entropy that gets probabilities instead of logits cannot fall below ``log(1 + (n-1)/e)``
    for n classes. If the model is sure of its answers, a wrong one costs exactly 1 more than a
    right one. If it is as sure as it is right, the loss is somewhat higher.
    """

    name = "double-softmax"
    group = "evaluation"
    meaning = "A softmax stands before a loss that has its own, so gradients are far too small."
    healthy = "A loss far below `log(1 + (n-1)/e) + 1 - accuracy` for n classes."
    reports = {
        "info": (
            "Without an accuracy: in 4 evaluations in a row the loss is above "
            "`log(1 + (n-1)/e)`, by 0.06 at most."
        ),
        "warning": (
            "In 4 evaluations in a row the loss is `log(1 + (n-1)/e) + 1 - accuracy`, to 0.045, "
            "while the accuracy is well above chance. Or it is that of a model that is as sure as "
            "it is right. Logits of such a model would cost 0.1 less at least, 0.2 in the second "
            "case. From the first to the last of these evaluations are 100 steps or more."
        ),
    }
    needs = (
        "An evaluation loss, and the number of classes: in the configuration, or by first training "
        "losses that all are those of guessing. An accuracy, for a warning."
    )
    symptom_of = frozenset({"lost values", "divergence"})
    kinds = frozenset({"eval", "metrics", "epoch"})
    every_rank = False

    class Thresholds(RuleThresholds):
        evals: int = 4
        near: float = 0.045
        # Above chance: a model that guesses has such a loss by right.
        above: float = 0.15
        # What logits of a model that is as sure as it is right would cost less: more is no chance.
        apart: float = 0.2
        clearly: float = 0.1
        # From the first to the last of the evaluations: a loss that falls passes by in fewer.
        steps: int = 100
        # First losses of probabilities: within so much of each other.
        guess: float = 0.01
        # Without an accuracy, above the floor.
        floor: float = 0.06

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._row: list[int | None] = []  # steps of evaluations in a row

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare loss and accuracy of one evaluation."""
        loss = observation.roles.get("eval_loss")
        if loss is None:
            return ()
        guessed = self._guessed(context)
        classes = num_classes(context.config) or guessed
        if classes is None:
            return ()
        accuracy = _accuracy(observation, classes)
        if accuracy is not None and not 0 <= accuracy <= 1:
            return ()  # something else of that name
        if accuracy is None:
            return () if guessed is None else self._at_floor(loss, guessed, observation, context)
        name, limits = context.role_names["eval_loss"], self.thresholds
        expected = math.log1p((classes - 1) / math.e) + 1 - accuracy
        is_above = accuracy > 1 / classes + limits.above
        most = expected
        if _of_logits(accuracy, classes) < expected - limits.apart:
            most = max(most, _of_probabilities(accuracy, classes))
        is_clear = loss > _of_logits(accuracy, classes) + limits.clearly
        is_near = is_clear and expected - limits.near < loss < most + limits.near
        if not is_above or not is_near:
            self._row.clear()
            return (Verdict(name, False),)
        if not self._lasts(observation.step):
            return ()
        floor = expected - 1 + accuracy
        return (
            Verdict(
                name,
                True,
                "warning",
                f"The evaluation loss is {format_number(loss)} at an accuracy of "
                f"{percent(accuracy)}: what a softmax before the loss leaves of {classes:,} "
                f"classes. It cannot fall below {format_number(floor)} so.",
                evidence={"loss": loss, "accuracy": accuracy, "floor": floor},
                advice=(
                    "Remove the softmax at the end of the model: the loss takes logits and has its "
                    "own. If the model returns log-probabilities, use nll_loss."
                ),
            ),
        )

    def _lasts(self, step: int | None) -> bool:
        """Whether one more evaluation of a row is the last of enough, over enough steps."""
        self._row.append(step)
        first, limits = self._row[0], self.thresholds
        is_long = first is None or step is None or step - first >= limits.steps
        return is_long and len(self._row) >= limits.evals

    def _guessed(self, context: Context) -> int | None:
        """The number of classes among which the first training losses guess, all alike."""
        curve, limit = context.curves.get("loss"), self.thresholds.guess
        if curve is None or curve.first is None or curve.start is None:
            return None
        if context.is_resumed or context.is_game:
            return None
        if not 1.0 < curve.first < _MOST or abs(curve.first - curve.start) > limit:
            return None
        classes = round(math.exp(curve.first))
        return classes if abs(math.log(classes) - curve.first) < limit else None

    def _at_floor(
        self, loss: float, classes: int, observation: Observation, context: Context
    ) -> Iterable[Verdict]:
        name, floor = context.role_names["eval_loss"], math.log1p((classes - 1) / math.e)
        if not 0 <= loss - floor < self.thresholds.floor:
            self._row.clear()
            return (Verdict(name, False),)
        if not self._lasts(observation.step):
            return ()
        return (
            Verdict(
                name,
                True,
                "info",
                f"The evaluation loss is {format_number(loss)}, just above {format_number(floor)}: "
                f"what a softmax before the loss leaves of {classes:,} classes at best.",
                evidence={"loss": loss, "floor": floor, "classes": classes},
                advice=(
                    "If the model ends with a softmax, remove it: the loss takes logits and has "
                    "its own. If it returns log-probabilities, use nll_loss."
                ),
            ),
        )


def _of_probabilities(accuracy: float, classes: int) -> float:
    """The loss after two softmaxes of a model that is as sure as it is right."""
    rest = (1 - accuracy) / (classes - 1)
    norm = math.exp(accuracy) + (classes - 1) * math.exp(rest)
    return math.log(norm) - accuracy**2 - (1 - accuracy) * rest


def _of_logits(accuracy: float, classes: int) -> float:
    """The loss of logits of such a model: the entropy of its answers."""
    if not 0 < accuracy < 1:
        return 0.0
    rest = (1 - accuracy) / (classes - 1)
    return -accuracy * math.log(accuracy) - (1 - accuracy) * math.log(rest)


def _accuracy(observation: Observation, classes: int) -> float | None:
    for name, value in observation.values.items():
        if is_accuracy(name) and is_evaluation(name, observation.kind) and math.isfinite(value):
            return accuracy_of(value, classes)
    return None
