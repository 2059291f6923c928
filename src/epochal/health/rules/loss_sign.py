"""The loss has the wrong sign: the training maximises it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import Curve
from epochal.health.evaluations import num_classes
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import CURVE_KINDS, steps_of
from epochal.health.thresholds import RuleThresholds

_FIRST, _NEWEST = 3, 3
_FASTER = 1.5  # times the fall of the older half


class LossSign(Rule):
    """A training loss that is the negative of the evaluation's, or that falls without end.

    Losses may be negative: likelihoods of densities and similarities are. Then the evaluation is
    negative as well, and gradients do not grow while the loss falls.
    """

    name = "loss-sign"
    group = "loss"
    meaning = "The loss is negated somewhere. Each step makes the model worse."
    healthy = "The training loss and the evaluation loss have the same sign and move together."
    reports = {
        "warning": (
            "The loss starts below zero and falls faster and faster, to 10 times that, while the "
            "gradient norm grows 10 times. In reinforcement learning both are 1,000 times."
        ),
        "error": (
            "The training loss is below zero and the evaluation loss is as far above it, in two "
            "evaluations. Or it starts below zero although the number of classes is known, and "
            "falls to 3 times that while the norm grows 3 times."
        ),
    }
    causes = frozenset({"instability", "standstill", "implausible results"})
    kinds = CURVE_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        evals: int = 2
        # How far the two losses may be from mirrored.
        mirrored: float = 0.3
        # A loss that falls without end: so many times its start, while norms grow as much.
        times: float = 3.0
        # Densities and critics have losses below zero by right, with norms that grow.
        times_unknown: float = 10.0
        # The losses of games are below zero by right, and move: nothing but an explosion is sure.
        times_game: float = 1000.0
        points: int = 10

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._mirrored = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the newest point of the loss, or of the evaluation loss."""
        train, evaluation = context.curves.get("loss"), context.updated_curves.get("eval_loss")
        if train is None or not train.points or context.is_resumed:
            return ()
        if train.start is None or train.start >= 0:
            return ()
        if evaluation is not None and not context.is_game:
            value = evaluation.points[-1][1]
            level = train.recent_level(_NEWEST)
            is_mirrored = level < 0 < value and (
                abs(level + value) < self.thresholds.mirrored * value
            )
            self._mirrored = self._mirrored + 1 if is_mirrored else 0
            if self._mirrored >= self.thresholds.evals:
                return (self._mirror(train, level, value),)
            return ()
        if "loss" in context.updated_curves and self._is_endless(train, context):
            return (self._endless(train, context),)
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._mirrored = 0

    def _is_endless(self, train: Curve, context: Context) -> bool:
        """Whether the loss and the norm have both left their start, by the same factor."""
        norm, limits = context.curves.get("norm"), self.thresholds
        if norm is None or not limits.points <= train.count <= len(train.points):
            return False
        evaluation = context.curves.get("eval_loss")
        if evaluation is not None and evaluation.lowest < 0:
            return False
        is_certain = num_classes(context.config) is not None
        times = limits.times if is_certain else limits.times_unknown
        times = limits.times_game if context.is_game else times
        start, first = train.start or 0.0, median(norm.window(norm.count)[:_FIRST])
        has_fallen = train.recent_level(_NEWEST) < times * start < 0
        if not has_fallen or norm.recent_level(_NEWEST) <= times * first:
            return False
        return first > 0 and (is_certain or _accelerates(train))

    def _mirror(self, train: Curve, level: float, value: float) -> Verdict:
        position = train.points[-1][0]
        return self._verdict(
            train,
            f"The training loss is {format_number(level)} at {train.at(position)}, the evaluation "
            f"loss {format_number(value)}: the sign of the training loss is wrong.",
            {"loss": level, "eval_loss": value},
        )

    def _endless(self, train: Curve, context: Context) -> Verdict:
        position, start = train.points[-1][0], train.start or 0.0
        level = train.recent_level(_NEWEST)
        is_certain = num_classes(context.config) is not None
        why = "a cross-entropy cannot be negative" if is_certain else "it is being maximised"
        faster = " faster and faster" if _accelerates(train) else ""
        return self._verdict(
            train,
            f"The loss is negative and falls{faster}, from {format_number(start)} to "
            f"{format_number(level)} at {train.at(position)}, while gradients grow. Its sign is "
            f"wrong: {why}.",
            {"start": start, "loss": level},
            severity="error" if is_certain else "warning",
        )

    def _verdict(
        self,
        train: Curve,
        sentence: str,
        evidence: dict[str, float],
        *,
        severity: Severity = "error",
    ) -> Verdict:
        return Verdict(
            train.name,
            True,
            severity,
            sentence,
            steps=steps_of(train, train.points[0][0], train.points[-1][0]),
            evidence=evidence,
            advice=(
                "Remove the minus sign before the loss, or add one where a score or a "
                "log-likelihood is returned. Start again: these weights are worse than new ones."
            ),
        )


def _accelerates(train: Curve) -> bool:
    """Whether the loss falls faster in the newer half of the run, as what has no end does.

    A density that learns falls ever more slowly.
    """
    values = train.window(train.count)
    half = len(values) // 2
    if half < _NEWEST:
        return False
    first, middle, last = values[:_NEWEST], values[half : half + _NEWEST], values[-_NEWEST:]
    early, late = median(first) - median(middle), median(middle) - median(last)
    return late > _FASTER * max(early, 0.0)
