"""Targets that do not depend on their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.data_window import DATA_KINDS, DataWindow, pair_figures, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS
from epochal.health.thresholds import RuleThresholds

_ROWS = 32  # samples of a batch that are compared with each other
_POINTS = 100  # of the training loss
_LEVEL = 4  # evaluations whose mean is compared
_FIRST_EVALS = 2  # after them it is known whether evaluations have a loss
# What a loss is of the spread of its targets: cross entropy; squares, and half of them.
_COSTS = (
    ("column_entropy", 1.0),
    ("entropy", 1.0),
    ("column_variance", 1.0),
    ("variance", 1.0),
    ("column_variance", 0.5),
)
_ADVICE = (
    "Check that labels belong to their inputs: look at some samples with their labels. Inputs and "
    "labels may have been shuffled, sorted or filtered apart."
)


class _Figure(NamedTuple):
    """How far targets are nearer where inputs are near, with its standard error."""

    value: float
    error: float

    def is_clear(self, errors: float) -> bool:
        return self.value > errors * self.error

    def is_absent(self, errors: float) -> bool:
        return abs(self.value) < errors * self.error


class DataMismatch(Rule):
    """Near inputs have no nearer targets than others, in the training data.

    In the evaluation data they have. Or the loss is that of the best constant answer. Or the
    training loss is below that, and the evaluation loss never was.
    """

    name = "data-mismatch"
    group = "data"
    meaning = "The labels of the training data do not belong to their inputs."
    healthy = "Samples with near inputs have nearer targets than others, or the loss falls."
    reports = {
        "warning": (
            "In 24 batches near inputs have no nearer targets in training, but clearly in the "
            "evaluation data. The evaluation loss has not fallen by a fifth, or is that of a "
            "constant answer. Or there are 600 steps and 12 evaluations, and the training loss is "
            "a tenth below what the best constant answer costs. No evaluation is by 3 %."
        ),
        "info": "The same, but the loss stands within 3 % of what the best constant answer costs.",
    }
    needs = "`epochal.watch_data` for the loaders, with inputs and targets in each batch."
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = DATA_KINDS | CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        batches: int = 24
        # Standard errors: what is absent, what is clear.
        absent: float = 3.0
        clear: float = 6.0
        # Of the association in evaluation data: what training data may have at most.
        share: float = 0.25
        # Of the first evaluations: below it the model has learned something of single samples.
        learned: float = 0.8
        steps: int = 600
        evals: int = 12
        # Around what a constant answer costs, and how far below it a loss counts as learned.
        near: float = 0.03
        below: float = 0.1

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._train: DataWindow | None = None
        self._other: DataWindow | None = None
        self._evals: list[float] = []

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Keep the newest figures of each split; judge with each evaluation."""
        is_due = False
        if observation.kind in DATA_KINDS:
            is_due = self._keep(window_of(observation)) and "eval_loss" not in context.curves
        curve = context.updated_curves.get("eval_loss")
        if curve is not None:
            self._evals.append(curve.points[-1][1])
        is_due = is_due or curve is not None
        if not is_due or self._train is None or context.is_resumed:
            return ()
        verdict = self._unlike(self._train) or self._constant(self._train, context)
        return (verdict or Verdict(self._train.subject, active=False),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process reads its data again."""
        self._train = self._other = None
        self._evals.clear()

    def _keep(self, window: DataWindow | None) -> bool:
        """Keep a window that has figures; whether an evaluation with a loss must have come."""
        if window is None:
            return False
        if "targets" in window.record and window.is_training:
            self._train = window
        elif "targets" in window.record:
            self._other = window
        return not window.is_training and window.epoch > _FIRST_EVALS

    def _unlike(self, train: DataWindow) -> Verdict | None:
        """Training data without the association that evaluation data has."""
        limits = self.thresholds
        if self._other is None or self._has_learned(train):
            return None
        own, other = _figures(train, limits.batches), _figures(self._other, _LEVEL)
        if not _is_absent(own, limits.absent):
            return None
        for name, there in other.items():
            here = own.get(name)
            if here is None or not there.is_clear(limits.clear):
                continue
            if here.value + limits.absent * here.error < limits.share * there.value:
                return self._verdict_unlike(train, self._other, here, there)
        return None

    def _has_learned(self, train: DataWindow) -> bool:
        """Whether the evaluation loss has fallen, or may fall yet."""
        limits = self.thresholds
        if 0 < len(self._evals) < 2 * _LEVEL:
            return True
        if not self._evals:
            return False
        first = sum(self._evals[:_LEVEL]) / _LEVEL
        now = sum(self._evals[-_LEVEL:]) / _LEVEL
        is_constant = any(abs(now / cost - 1) < limits.below for cost in _costs(train))
        return first > 0 and now < limits.learned * first and not is_constant

    def _constant(self, train: DataWindow, context: Context) -> Verdict | None:
        """A loss that a constant answer explains."""
        limits = self.thresholds
        loss = context.curves.get("loss")
        if loss is None or len(self._evals) < limits.evals or context.is_game or loss.lowest <= 0:
            return None
        if loss.points[-1][0] - loss.blocks[0].first < limits.steps and loss.axis == "step":
            return None
        if not _is_absent(_figures(train, limits.batches), limits.absent):
            return None
        for cost in _costs(train):
            if self._stands_at(cost, loss):
                return self._verdict_constant(train, loss, cost)
        return None

    def _stands_at(self, cost: float, loss: Curve) -> bool:
        limits = self.thresholds
        level, best = loss.recent_level(_POINTS), min(self._evals)
        newest = sum(self._evals[-_LEVEL:]) / _LEVEL
        if best < (1 - 2 * limits.near) * cost:
            return False
        is_near = abs(level / cost - 1) < limits.near and abs(newest / cost - 1) < 2 * limits.near
        is_memorised = level < (1 - limits.below) * cost and newest > (1 - limits.near) * cost
        # A loss in another unit is nowhere near: the first evaluations are, or the start is.
        was_near = abs(self._evals[_LEVEL] / cost - 1) < limits.below
        return is_near or (is_memorised and was_near)

    def _verdict_unlike(
        self, train: DataWindow, other: DataWindow, here: _Figure, there: _Figure
    ) -> Verdict:
        return Verdict(
            train.subject,
            active=True,
            sentence=f"Near inputs have no nearer targets in {train.name!r} "
            f"({_shown(here)}), but in {other.name!r} they have ({_shown(there)}): labels of the "
            "training data do not belong to their inputs.",
            evidence={
                "association": here.value,
                "error": here.error,
                "of_evaluation": there.value,
                "error_of_evaluation": there.error,
            },
            advice=_ADVICE,
        )

    def _verdict_constant(self, train: DataWindow, loss: Curve, cost: float) -> Verdict:
        level, newest = loss.recent_level(_POINTS), self._evals[-1]
        is_memorised = level < (1 - self.thresholds.below) * cost
        return Verdict(
            train.subject,
            active=True,
            # A model that stands there may begin to learn late, as with gates that start at 0.
            severity="warning" if is_memorised else "info",
            sentence=f"Always answering with the average target of {train.name!r} costs "
            f"{format_number(cost)}. After {len(self._evals)} evaluations the evaluation loss is "
            f"{format_number(newest)} and the training loss {format_number(level)}: the model "
            "has found nothing in the inputs that says more of new samples.",
            evidence={"constant": cost, "eval_loss": newest, "loss": level},
            advice=_ADVICE,
        )


def _costs(train: DataWindow) -> list[float]:
    """What the best constant answer may cost, for each sort of loss."""
    spread = pair_figures(train, "targets")
    return [spread[name] * times for name, times in _COSTS if spread.get(name, 0.0) > 0]


def _figures(window: DataWindow, least: int) -> dict[str, _Figure]:
    """The association of a split; nothing where too few different samples count."""
    found = pair_figures(window, "association")
    batches = found.get("batches", 0.0)
    if batches < least:
        return {}
    # Pairs of a small dataset come again, which makes no estimate surer.
    samples = window.count("dataset_samples")
    different = max(1.0, (samples / _ROWS) ** 2) if samples else batches
    wider = math.sqrt(max(1.0, batches / different))
    figures = {
        "correlation": _Figure(found.get("correlation", 0.0), wider * found.get("error", 0.0)),
        "nearest": _Figure(found.get("nearest", 0.0), wider * found.get("nearest_error", 0.0)),
    }
    # The same batch over and over has no error, and says nothing.
    return {name: one for name, one in figures.items() if one.error * math.sqrt(batches) > 0.015}


def _is_absent(figures: dict[str, _Figure], errors: float) -> bool:
    return len(figures) == 2 and all(one.is_absent(errors) for one in figures.values())


def _shown(figure: _Figure) -> str:
    return f"{format_number(figure.value)} ± {format_number(figure.error)}"
