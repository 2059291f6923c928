"""A layer that learns nothing: no gradient reaches it, or it puts out zeros only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from epochal.health.layer_series import (
    ACTIVATION_ZEROS,
    GRADIENT_NORMS,
    holds_layers,
    is_spare_bias,
    named,
)
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context


class DeadLayer(Rule):
    """Gradients that are zero, or activations that are nearly all zero, at every watched step."""

    name = "dead-layer"
    group = "layers"
    meaning = "A layer gets no gradient, so it learns nothing."
    healthy = "Every trained layer has a gradient. Outputs of a ReLU are 50 to 95 % zeros."
    reports = {
        "warning": (
            "Five watched steps without any gradient, or with more than 99.5 % zeros. A bias "
            "beside a weight with a gradient does not count. Many layers with the same fault are "
            "one finding, which names the first ones."
        ),
    }
    what_to_try = (
        "Check for a detached output and for saturated or negative activations. Lower the "
        "learning rate."
    )
    needs = "`epochal.watch(model)`."
    silenced_by = ("nonfinite",)
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Watched steps in a row. Zero-initialised branches get their first gradient a step or two
        # late, and an expert may go without tokens for some steps.
        samples: int = 5
        # Beside the usual gradient of the other layers, this is nothing.
        gradient_share: float = 1e-8
        # A ReLU layer is half to nine tenths zeros; this is a layer that says nothing.
        activation_zeros: float = 0.995

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        needed = thresholds.samples
        self._without_gradient = StreakCounter(needed=needed)
        self._silent = StreakCounter(needed=needed)
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a watched step; other records have none of the series."""
        if observation.step is None or not holds_layers(observation):
            return
        self._step = observation.step
        gradients = GRADIENT_NORMS.of(observation.values)
        zeros = ACTIVATION_ZEROS.of(observation.values)
        # With one layer there is no other to tell a dead layer from a vanished gradient by.
        if len(gradients) > 1:
            yield from self._judge_gradients(gradients)
        if zeros:
            yield from self._judge_activations(zeros)

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._without_gradient.forget()
        self._silent.forget()

    def _judge_gradients(self, gradients: Mapping[str, float]) -> Iterable[Verdict]:
        largest, usual = max(gradients.values()), median(gradients.values())
        bar = (usual or largest) * self.thresholds.gradient_share
        for layer, norm in gradients.items():
            # Where none has a gradient the training as a whole stands still: no matter of layers.
            ails = largest > 0 and norm <= bar and not is_spare_bias(layer, gradients)
            self._without_gradient.note(layer, ails=ails, step=self._step)
        yield from self._without_gradient.verdicts(GRADIENT_NORMS.name, self._describe_gradient)

    def _judge_activations(self, zeros: Mapping[str, float]) -> Iterable[Verdict]:
        for layer, share in zeros.items():
            ails = share >= self.thresholds.activation_zeros
            self._silent.note(layer, ails=ails, step=self._step)
        yield from self._silent.verdicts(ACTIVATION_ZEROS.name, self._describe_silence)

    def _describe_gradient(self, layers: Sequence[str]) -> Verdict:
        since = self._without_gradient.since(layers[0])
        return Verdict(
            GRADIENT_NORMS.name(layers[0]),
            active=True,
            sentence=f"No gradient has reached {named(layers)} since step {since:,}: "
            "it does not learn.",
            steps=(since, self._step),
            evidence={"layers": len(layers), "since_step": since},
            advice="Check that its output is used in the loss and not detached, and that what "
            "follows it is not saturated or all negative; if it died during training, lower the "
            "learning rate or warm it up longer.",
        )

    def _describe_silence(self, layers: Sequence[str]) -> Verdict:
        since = self._silent.since(layers[0])
        least = 100 * self.thresholds.activation_zeros
        return Verdict(
            ACTIVATION_ZEROS.name(layers[0]),
            active=True,
            sentence=f"The output of {named(layers)} has been more than {least:.1f} % zeros since "
            f"step {since:,}: its units are dead.",
            steps=(since, self._step),
            evidence={"layers": len(layers), "since_step": since, "zeros_pct": least},
            advice="Lower the learning rate or warm it up longer, or use an activation whose slope "
            "is nowhere zero (GELU, SiLU, leaky ReLU).",
        )
