"""An evaluation gives the same figure again and again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from epochal.format import format_number
from epochal.health.context import Context
from epochal.health.curve import is_usable
from epochal.health.evaluations import (
    is_accuracy,
    is_evaluation,
    is_of_a_game,
    is_overlap,
    is_quality,
)
from epochal.health.line_fit import fit_line
from epochal.health.observation import Observation
from epochal.health.rate import LearningRate
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds


class _Band(NamedTuple):
    """The range of a metric when it was first reported, and the evaluations before."""

    lowest: float
    highest: float
    begun: int


class EvalFlat(Rule):
    """The same value to the last digits at several evaluations: a warning, for nothing is measured.

    There is no warning in two cases: a share of few samples is constant while the loss of the same
    evaluation changes, or the learning rate is almost zero. A metric that stays within its noise
    over many evaluations is an info.
    """

    name = "eval-flat"
    group = "evaluation"
    meaning = "The evaluation does not change. It may not use the trained model."
    healthy = "It changes from one evaluation to the next."
    reports = {
        "info": (
            "12 evaluations stay within noise, or within 0.2 %. The noise cannot hide a change of "
            "1 % of the value, or of 5 % of what it changed before."
        ),
        "warning": (
            "4 evaluations are equal to six digits, and no other metric of them changes by 0.1 %. "
            "A share of samples, or a number of three digits or fewer, is too coarse to tell."
        ),
    }
    symptom_of = frozenset({"lost values", "divergence", "standstill", "poor evaluation"})
    kinds = frozenset({"eval", "metrics", "epoch"})
    every_rank = False
    release = 3
    replaces_text = True

    class Thresholds(RuleThresholds):
        # The same figure so many times is not a measurement.
        evals: int = 4
        equal: float = 1e-6
        # What changes by more than this in the same evaluations is computed from a model that
        # learns.
        moves: float = 0.001
        # Below this share over all evaluations it does not follow a model that learns.
        still: float = 0.002
        # At a hundredth of its peak the rate hardly changes the weights any more.
        rate: float = 0.01
        # Evaluations for which what was said of a metric is not said again.
        again: int = 24
        # Flat within noise takes longer to tell.
        noisy_evals: int = 12
        # What noise may hide, of the value and of all that it has changed: more, and nobody knows.
        hidden: float = 0.01
        hidden_of_gain: float = 0.05

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._values: dict[str, deque[float]] = {}
        self._counts: Counter[str] = Counter()
        self._last_held: dict[str, int] = {}
        self._bands: dict[str, _Band] = {}  # of what is said to wander
        self._first: dict[str, float] = {}
        self._has_moved: set[str] = set()

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check every metric of an evaluation."""
        verdicts: list[Verdict] = []
        met: list[str] = []
        for name, value in observation.values.items():
            if not (
                is_usable(value) and is_quality(name) and is_evaluation(name, observation.kind)
            ):
                continue
            values = self._values.get(name)
            if values is None:
                size = self.thresholds.noisy_evals
                values = self._values[name] = deque(maxlen=size)
            values.append(value)
            first = self._first.setdefault(name, value)
            if not self._is_equal((first, value), self.thresholds.equal):
                self._has_moved.add(name)
            self._counts[name] += 1
            met.append(name)
        for name in met:
            if not context.is_open(self.name, name):
                self._bands.pop(name, None)
            # A loss has digits enough to move with the weights, whatever else is measured.
            is_loss = name == context.role_names.get("eval_loss")
            is_right = self._is_at_rest(context.rate) or (not is_loss and self._moves(met))
            verdict = self._judge(name, self._values[name], is_right=is_right)
            is_note = verdict is not None and verdict.active and verdict.severity == "info"
            if is_note and not context.is_open(self.name, name):
                # What is gained shows elsewhere: in the training, or in another figure. One
                # standstill is one finding.
                is_known = context.has_open("plateau") or context.has_open(self.name)
                gains = self._gains(met, context) and not self._is_still(name)
                if gains or is_known or any(one.active for one in verdicts):
                    verdict = Verdict(name, False)
            if verdict is not None:
                verdicts.append(self._unless_just_reported(verdict, context))
        return verdicts

    def forget_from(self, step: int, context: Context) -> None:
        """A resumed run evaluates some steps again, with the same result."""
        self._values.clear()
        self._bands.clear()

    def _moves(self, names: Sequence[str]) -> bool:
        """Whether a figure of the evaluation changes noticeably: then something is measured."""
        share = self.thresholds.moves
        return any(not self._is_equal(self._last(self._values[name]), share) for name in names)

    def _gains(self, names: Sequence[str], context: Context) -> bool:
        """Whether the training loss still falls, or a figure of the evaluation moves."""
        if context.phase == "converging":
            return True
        size = self.thresholds.noisy_evals
        full = [self._values[name] for name in names if len(self._values[name]) == size]
        return any(not _wanders(values) and len(set(values)) > 1 for values in full)

    def _is_still(self, name: str) -> bool:
        """Whether a figure hardly changes at all, whatever the training does."""
        return self._is_equal(self._values[name], self.thresholds.still)

    def _is_at_rest(self, rate: LearningRate) -> bool:
        """Whether the rate has gone to next to nothing, and the weights stay as they are."""
        return rate.peak is not None and not rate.is_near_peak(self.thresholds.rate)

    def _last(self, values: Sequence[float]) -> list[float]:
        return list(values)[-self.thresholds.evals :]

    def _is_equal(self, last: Sequence[float], share: float) -> bool:
        return max(last) - min(last) <= share * max(abs(value) for value in last)

    def _unless_just_reported(self, verdict: Verdict, context: Context) -> Verdict:
        """A metric of few digits is sometimes constant: it is not reported again for a while."""
        name, count = verdict.subject, self._counts[verdict.subject]
        if not verdict.active:
            return verdict
        last = self._last_held.get(name)
        is_open = context.is_open(self.name, name)
        if last is not None and not is_open and count - last <= self.thresholds.again:
            return Verdict(name, False)
        self._last_held[name] = count
        return verdict

    def _judge(self, name: str, values: Sequence[float], *, is_right: bool) -> Verdict | None:
        thresholds = self.thresholds
        if len(values) < thresholds.evals:
            return None
        last = self._last(values)
        is_equal = self._is_equal(last, thresholds.equal)
        if is_equal and (last[-1] in (0.0, 1.0) or is_of_a_game(name)):
            return None  # a share, count or return at its end can stay there by right
        if is_equal and not is_right and not _is_coarse(name, last[-1]):
            return self._equal(name, last)
        if len(values) == thresholds.noisy_evals and self._still_wanders(name, values, last):
            return self._wandering(name, values)
        return Verdict(name, False)

    def _equal(self, name: str, last: Sequence[float]) -> Verdict:
        since = f"each of the last {len(last)} evaluations."
        if name not in self._has_moved:
            count = self._counts[name]
            since = f"all {count} evaluations: the weights of the evaluated model do not change."
        return Verdict(
            name,
            True,
            "warning",
            f"{name} was {format_number(last[-1])} at {since}",
            evidence={"value": last[-1], "evaluations": len(last)},
            advice=(
                "Check that optimizer.step() is called and has the model's parameters, that the "
                "evaluation uses the model being trained (not a copy), and that its data is not "
                "empty."
            ),
        )

    def _still_wanders(self, name: str, values: Sequence[float], last: Sequence[float]) -> bool:
        """Whether a metric stays in its range; once reported, until the newest values leave it.

        A slope beyond its error comes by chance every few evaluations.
        """
        band = self._bands.get(name)
        if band is None:
            return _wanders(values) and self._is_known(name, values)
        return band.lowest <= fmean(last) <= band.highest

    def _is_known(self, name: str, values: Sequence[float]) -> bool:
        """Whether a change that noise could hide would be small."""
        hidden = 2 * fit_line(values).slope_error * (len(values) - 1)
        level = abs(fmean(values))
        gained = abs(self._first[name] - fmean(values))
        limits = self.thresholds
        return hidden <= max(limits.hidden * level, limits.hidden_of_gain * gained)

    def _wandering(self, name: str, values: Sequence[float]) -> Verdict:
        begun = self._counts[name] - len(values)
        band = self._bands.setdefault(name, _Band(min(values), max(values), begun))
        count = self._counts[name] - band.begun
        return Verdict(
            name,
            True,
            "info",
            f"{name} has not moved beyond its noise for {count} evaluations: the last "
            f"{len(values)} lie between {format_number(min(values))} and "
            f"{format_number(max(values))}.",
            evidence={"lowest": min(values), "highest": max(values), "evaluations": count},
            advice=(
                "Nothing more is gained here: stop, lower the rate, or change model or data. If "
                "the training loss still falls, check that the trained model is evaluated."
            ),
        )


def _wanders(values: Sequence[float]) -> bool:
    fit = fit_line(values)
    return abs(fit.slope) <= fit.slope_error


def _is_coarse(name: str, value: float) -> bool:
    """Whether a metric is too coarse to change with every step: a share, or one of few digits."""
    return is_accuracy(name) or is_overlap(name) or float(f"{value:.3g}") == value
