"""The first steps throw the weights far from where they started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.layer_series import WEIGHT_NORMS, bias_of, holds_layers
from epochal.health.learning import has_learned
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.health.words import times

if TYPE_CHECKING:
    from epochal.health.context import Context


class StepsTooLarge(Rule):
    """The norm of the median weight matrix grows by a third or more within the first steps.

    Weights are initialised at a size that the network needs. In health they move by a few per cent
    at first; a rate that is far too high replaces them by its own steps.
    """

    name = "steps-too-large"
    group = "layers"
    meaning = "The learning rate is far too high for the initial weights."
    healthy = "Norms grow by less than a tenth in the first 40 steps, and by half in 160."
    reports = {
        "warning": (
            "The norm of the median weight grows 1.33 times in the first 40 steps, or 1.8 times "
            "in the first 160. If the loss has fallen by 40 %, it takes 2 and 3.2 times. Three "
            "layers or more are watched. Without biases, as before a normalisation, or with "
            "biases that start at 0, it takes 2.3 and 6.5 times."
        ),
    }
    what_to_try = "Divide the learning rate by 3 to 10. Check the scale of the loss."
    needs = "`epochal.watch(model)`."
    silenced_by = ("nonfinite",)
    explained_by = ("gradients-add-up", "loss-sign", "loss-summed", "init-scale")
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        steps: tuple[int, int] = (40, 160)
        growth: tuple[float, float] = (1.33, 1.8)
        # If the loss has fallen by two fifths: weights grow while a training learns well.
        learning: tuple[float, float] = (2.0, 3.2)
        learned: float = 0.4
        # Where the initial scale of most weights means little.
        unscaled: tuple[float, float] = (2.3, 6.5)
        layers: int = 3
        # Of the largest norm: smaller ones were not initialised to mean anything.
        least: float = 0.05

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._first: Mapping[str, float] = {}
        self._first_step = 0
        self._is_unscaled = False
        self._is_judged = True

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare a watched step with the first one."""
        step, limits = observation.step, self.thresholds
        if step is None or context.is_resumed or not holds_layers(observation):
            return ()
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
        if len(grown) < limits.layers:
            return ()
        growth, passed = median(grown), step - self._first_step
        bars = limits.unscaled if self._is_unscaled else limits.growth
        loss = context.curves.get("loss")
        if not self._is_unscaled and has_learned(loss, share=limits.learned):
            bars = limits.learning
        if growth < next(b for s, b in zip(limits.steps, bars, strict=True) if passed <= s):
            return ()
        return (self._verdict(growth, len(grown), step, context),)

    def _verdict(self, growth: float, layers: int, step: int, context: Context) -> Verdict:
        rate = context.last.get("lr")
        told = f" of {format_number(rate)}" if rate else ""
        return Verdict(
            "params",
            True,
            "warning",
            f"In the first {step - self._first_step:,} steps the weights grew to {times(growth)} "
            f"times their initial norm (the median of {layers} layers): the learning rate{told} is "
            "too high for them.",
            steps=(self._first_step, step),
            evidence={"growth": growth, "layers": layers},
            advice=(
                "Start again with a learning rate 3 to 10 times lower, or warm it up. If batches "
                "are accumulated, divide the loss by their number; check that the loss is a mean."
            ),
        )
