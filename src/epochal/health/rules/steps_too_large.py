"""The first steps throw the weights far from where they started, and the loss stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.evaluations import is_adaptive
from epochal.health.layer_series import UPDATE_RATIOS, WEIGHT_NORMS, bias_of, holds_layers
from epochal.health.learning import share_left
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent, times
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

# RMSprop divides its first gradient by a tenth of it, because its mean of squares starts at 0. Of
# Adagrad the first step is the largest by far, and the tenth a third of it.
_FIRST_STEPS = {"rmsprop": 10.0, "adagrad": 3.0}
_FIRST_GROWTH = {"rmsprop": 2.0, "adagrad": 3.0}  # of the norm, because of these steps
_LEVEL = 10  # points


class StepsTooLarge(Rule):
    """The norm of the median weight matrix grows by far within the first steps, for nothing.

    Weights are initialised at a size that the network needs. In health they move by a few per cent
    at first, or the loss falls while they grow. A rate that is far too high replaces them by its
    own steps, and the loss stands meanwhile.
    """

    name = "steps-too-large"
    group = "layers"
    meaning = "The learning rate is far too high for the initial weights."
    healthy = "Norms grow by less than a third in the first 160 steps, or the loss falls meanwhile."
    reports = {
        "info": (
            "The first watched step changes the median weight by 35 % of its norm or more, ten "
            "times that with RMSprop, 3 times with Adagrad. After 40 points the loss is above "
            "half of what it was. Or the median one of the first 200 "
            "steps does so by 5.5 %, and the loss is above 97 % of what it was."
        ),
        "warning": (
            "The norm of the median weight grows 2.1 times in the first 90 to 160 steps. In the "
            "last quarter of them the loss is above 90 % of its level in the second quarter. Three "
            "layers or more are watched. Without biases, as before a normalisation, or with "
            "biases that start at 0, it takes 7.5 times. It takes twice that with RMSprop and 3 "
            "times with Adagrad."
        ),
    }
    needs = "`epochal.watch(model)`."
    symptom_of = frozenset({"lost values", "instability"})
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        steps: tuple[int, int] = (90, 160)
        # In health at most 1.8 times, where the loss does not fall; with rates that do harm 2.5.
        growth: float = 2.1
        # Where the initial scale of most weights means little.
        unscaled: float = 7.5
        # What is left of the loss of the second quarter in the last one: less, and it learns.
        left: float = 0.9
        note_left: float = 0.97
        layers: int = 3
        # The update of the median weight over its norm: in the first step, and in the median of
        # the first steps, of which so many are watched. In health at most 0.16 and 0.028.
        first_update: float = 0.35
        updates: float = 0.055
        # Points after which the loss tells whether a large first step did harm.
        points: int = 40
        halved: float = 0.5
        update_steps: int = 200
        watched: int = 5
        # Of the largest norm: smaller ones were not initialised to mean anything.
        least: float = 0.05

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._first: Mapping[str, float] = {}
        self._first_step = 0
        self._is_unscaled = False
        self._is_judged = True
        self._large: Verdict | None = None  # of the first step, until the loss tells
        self._updates: list[tuple[int, float]] | None = []  # steps, medians; None once judged

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare a watched step with the first one."""
        step, limits = observation.step, self.thresholds
        if step is None or context.is_resumed or not holds_layers(observation):
            return ()
        if found := self._judge_first(context) or self._judge_updates(observation, context):
            return (found,)
        if self._large is not None:
            return ()  # one finding says it
        is_late = self._first and step - self._first_step > limits.steps[-1]
        if is_late or not self._is_judged:
            return ()
        norms = WEIGHT_NORMS.of(observation.values)
        if not norms:
            return ()
        if not self._first:
            if context.first_step is not None and step > context.first_step + 5:
                return ()  # it was not watched from the beginning
            bar = limits.least * max(norms.values())
            self._first_step = step
            large = {n: v for n, v in norms.items() if n.endswith("weight") and v > bar > 0}
            # Weights without a bias mostly stand before a normalisation, which undoes their scale.
            # Biases of 0 were set by hand, as in GPT-2, and the weights far below torch's own.
            biased = {n: v for n, v in large.items() if bias_of(n) in norms}
            scaled = [n for n in biased if norms[bias_of(n)]]
            self._is_unscaled = len(scaled) < limits.layers
            # Without any bias or normalisation it is tables of vectors, which start at any size.
            has_scale = any(bias_of(name) in norms for name in norms if bias_of(name) != name)
            self._first = {} if not has_scale else large if self._is_unscaled else biased
            self._is_judged = has_scale
            return ()
        grown = [norms[n] / before for n, before in self._first.items() if n in norms]
        if step - self._first_step < limits.steps[0] or len(grown) < limits.layers:
            return ()
        growth = median(grown)
        least = limits.unscaled if self._is_unscaled else limits.growth
        for optimizer, factor in _FIRST_GROWTH.items():
            if is_adaptive(context.config, (optimizer,)):
                least *= factor
        if growth < least:
            return ()
        left = share_left(context.curves.get("loss"), self._first_step, step)
        if left is None or left < limits.left:
            return ()
        return (self._verdict(growth, left, len(grown), step, context),)

    def _judge_updates(self, observation: Observation, context: Context) -> Verdict | None:
        """Note how far a step moves the median weight, and judge the first one and all of them."""
        step, limits = observation.step or 0, self.thresholds
        ratios, norms = UPDATE_RATIOS.of(observation.values), WEIGHT_NORMS.of(observation.values)
        updates, first = self._updates, context.first_step or 0
        if updates is None:
            return None
        if not updates and step > first + 5:
            self._updates = None  # it was not watched from the beginning
            return None
        bar = limits.least * max(norms.values(), default=0.0)
        weights = [name for name in ratios if "weight" in name.rpartition(".")[-1]]
        moved = [ratios[name] for name in weights if norms.get(name, 0.0) > bar]
        if len(moved) < limits.layers:
            return None
        if updates and step - first > limits.update_steps:
            self._updates = None
            later = [ratio for _, ratio in updates[1:]]
            usual = median(later) if len(later) >= limits.watched else 0.0
            left = share_left(context.curves.get("loss"), first, step)
            if usual < limits.updates or (left is not None and left < limits.note_left):
                return None
            return self._describe_updates(usual, len(moved), updates[-1][0], context)
        updates.append((step, median(moved)))
        start = _first_step(context)
        if len(updates) == 1 and updates[0][1] > start * limits.first_update:
            self._updates = None
            self._large = self._describe_updates(updates[0][1], len(moved), step, context)
        return None

    def _judge_first(self, context: Context) -> Verdict | None:
        """What a large first step gives, once it is known whether the loss soon fell by half."""
        loss, limits, found = context.curves.get("loss"), self.thresholds, self._large
        if found is None or (loss is not None and loss.count < limits.points):
            return None
        self._large = None
        if loss is None or not loss.first or loss.first < 0:
            return found
        return found if loss.recent_level(_LEVEL) > limits.halved * loss.first else None

    @staticmethod
    def _describe_updates(ratio: float, layers: int, step: int, context: Context) -> Verdict:
        first, rate = context.first_step or 0, context.last.get("lr")
        told = f" of {format_number(rate)}" if rate else ""
        when = "The first step changes" if step <= first + 5 else f"Up to step {step:,} one changes"
        return Verdict(
            "update_ratio",
            True,
            "info",
            f"{when} the weights by {percent(ratio)} of their norm (the median of {layers} layers; "
            f"0.1 % to 3 % is usual): the learning rate{told} may be too high for them.",
            steps=(first, step),
            evidence={"ratio": ratio, "layers": layers},
            advice="Compare with a learning rate 3 to 10 times lower, or warm it up.",
        )

    def _verdict(
        self, growth: float, left: float, layers: int, step: int, context: Context
    ) -> Verdict:
        rate = context.last.get("lr")
        told = f" of {format_number(rate)}" if rate else ""
        fell = f"still {percent(left)} of what it was" if left < 1 else "no lower than before"
        return Verdict(
            "params",
            True,
            "warning",
            f"In the first {step - self._first_step:,} steps the weights grew to {times(growth)} "
            f"times their initial norm (the median of {layers} layers), and the loss is {fell}: "
            f"the learning rate{told} is too high for them.",
            steps=(self._first_step, step),
            evidence={"growth": growth, "layers": layers, "loss_left": left},
            advice=(
                "Start again with a learning rate 3 to 10 times lower, or warm it up. If batches "
                "are accumulated, divide the loss by their number; check that the loss is a mean."
            ),
        )


def _first_step(context: Context) -> float:
    """How many times its later ones the first step of the optimizer is, by its formula."""
    found = [by for name, by in _FIRST_STEPS.items() if is_adaptive(context.config, (name,))]
    return max(found, default=1.0)
