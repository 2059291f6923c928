"""An evaluation is next to perfect before anything can have been learned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import (
    accuracy_of,
    is_accuracy,
    is_evaluation,
    num_classes,
)
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.thresholds import Thresholds
from epochal.health.words import percent

_ADVICE = (
    "Look for labels among the inputs, evaluation samples among the training data, and a mask that "
    "hides the wrong side."
)

_LEAST_BLOCKS = 4


class TooGood(Rule):
    """Among the first evaluations: an accuracy next to 1, or a loss next to nothing.

    Next to nothing is measured by the loss that training started from, before a too high rate may
    have blown it up; nothing is too good while the training loss is above its own beginning.
    """

    name = "too-good"
    kinds = frozenset({"eval", "metrics", "epoch"})
    every_rank = False

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._counts: Counter[str] = Counter()

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge the first evaluations."""
        verdicts: list[Verdict] = []
        if context.is_resumed:
            return verdicts
        loss_name = context.role_names.get("eval_loss")
        for name, value in seen.values.items():
            if not is_evaluation(name, seen.kind):
                continue
            if not math.isfinite(value) or (name != loss_name and not is_accuracy(name)):
                continue
            self._counts[name] += 1
            if self._counts[name] > self.thresholds.curves.too_good_evals:
                continue
            verdicts.append(
                self._loss(name, value, context)
                if name == loss_name
                else self._accuracy(name, accuracy_of(value, num_classes(context.config)))
            )
        return verdicts

    def _accuracy(self, name: str, accuracy: float | None) -> Verdict:
        if accuracy is None or accuracy < self.thresholds.curves.too_good_accuracy:
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

    def _loss(self, name: str, value: float, context: Context) -> Verdict:
        train = context.curves.get("loss")
        if train is None or train.start is None or train.start <= 0 or train.lowest <= 0:
            return Verdict(name, False)
        start = min(train.start, train.start if train.first is None else train.first)
        bar = self.thresholds.curves.too_good_loss * start
        if value > bar or train.points[-1][1] > start or self._took_its_time(train, value):
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
        return halfway > self.thresholds.curves.too_good_halfway * now and value > now / 10
