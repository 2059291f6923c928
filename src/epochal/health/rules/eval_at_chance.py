"""The accuracy is that of guessing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import (
    accuracy_of,
    is_accuracy,
    is_evaluation,
    is_overlap,
    num_classes,
)
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

_POINTS = 20  # of the training loss beside an evaluation


class EvalAtChance(Rule):
    """An accuracy next to one in the number of classes, evaluation after evaluation.

    It needs the number of classes in the configuration (``num_classes``, ``num_labels``, …).
    """

    name = "eval-at-chance"
    group = "evaluation"
    meaning = "The model guesses."
    healthy = "Clearly above 1 / number of classes."
    reports = {
        "warning": (
            "In 12 evaluations in a row the accuracy is close to 1 / number of classes, and the "
            "training loss stands where it started. Or in 16, whatever the training loss. Or IoU, "
            "Dice or F1 is below 1 % at 6 evaluations in a row."
        )
    }
    needs = (
        "The number of classes in the configuration: `num_classes`, `num_labels` or `n_classes`, "
        "at any depth."
    )
    symptom_of = frozenset({"lost values", "divergence", "standstill", "poor evaluation"})
    kinds = frozenset({"eval", "metrics", "epoch"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # An accuracy this close to one in num_classes is guessing. Of 100 classes 4,000 samples
        # give one whose deviation is a sixth of it: half of it is three of these.
        share: float = 0.5
        most: float = 0.03
        # Some models start so and learn late: their training loss stands meanwhile, and falls then.
        evals: int = 12
        evals_learning: int = 16
        # Of its start: less is left of a training loss that falls.
        left: float = 0.95
        # A model that knows nothing finds nothing; one that learns rare classes needs a while.
        overlap: float = 0.01
        overlap_evals: int = 6

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._in_percent: set[str] = set()
        self._without_overlap: Counter[str] = Counter()
        self._at_chance: Counter[str] = Counter()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check every accuracy and every overlap of an evaluation."""
        yield from self._accuracies(observation, context)
        for name, value in observation.values.items():
            if is_overlap(name) and is_evaluation(name, observation.kind):
                is_nothing = 0 <= value < self.thresholds.overlap
                count = self._without_overlap[name] + 1 if is_nothing else 0
                self._without_overlap[name] = count
                if not is_nothing:
                    yield Verdict(name, False)
                elif count >= self.thresholds.overlap_evals:
                    yield self._no_overlap(name, value, count)

    def _accuracies(self, observation: Observation, context: Context) -> list[Verdict]:
        names = [
            n for n in observation.values if is_accuracy(n) and is_evaluation(n, observation.kind)
        ]
        classes = num_classes(context.config) if names else None
        if classes is None:
            return []
        verdicts: list[Verdict] = []
        for name in names:
            value = observation.values[name]
            self._in_percent |= {name} if value > 1 else set()
            accuracy = value / 100 if name in self._in_percent else accuracy_of(value, classes)
            if accuracy is not None:
                verdicts.append(self._verdict(name, accuracy, classes, context.curves.get("loss")))
        return verdicts

    def _no_overlap(self, name: str, value: float, count: int) -> Verdict:
        return Verdict(
            name,
            True,
            "warning",
            f"{name} is {percent(value)} at evaluation {count} in a row: the model finds nothing "
            "of what is there.",
            evidence={"overlap": value, "evaluations": count},
            advice=(
                "Check that labels and inputs belong together, that the rare class weighs enough "
                "in the loss, and the threshold of a hit."
            ),
        )

    def _verdict(self, name: str, accuracy: float, classes: int, loss: Curve | None) -> Verdict:
        thresholds = self.thresholds
        chance = 1 / classes
        if abs(accuracy - chance) > min(thresholds.most, thresholds.share * chance):
            self._at_chance[name] = 0
            return Verdict(name, False)
        self._at_chance[name] += 1
        start, now = (None, None) if loss is None else (loss.start, loss.recent_level(_POINTS))
        falls = start is not None and now is not None and now < thresholds.left * start
        if self._at_chance[name] < (thresholds.evals_learning if falls else thresholds.evals):
            return Verdict(name, False)
        evidence: dict[str, float | int | str] = {
            "accuracy": accuracy,
            "chance": chance,
            "classes": classes,
        }
        train = ""
        if start is not None and now is not None:
            evidence |= {"loss_at_first": start, "loss": now}
            train = f" The training loss was {format_number(start)} at first and is " + (
                f"{format_number(now)}."
            )
        return Verdict(
            name,
            True,
            "warning",
            f"{name} is {percent(accuracy)}: no better than guessing among {classes:,} classes "
            f"({percent(chance)}), at {self._at_chance[name]} evaluations in a row.{train}",
            evidence=evidence,
            advice=(
                "Check that labels and inputs of the evaluation belong together, that it uses the "
                "trained weights, and that the training loss falls at all."
            ),
        )
