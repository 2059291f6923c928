"""A layer that learns nothing: no gradient reaches it, or it puts out zeros only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from statistics import median
from typing import TYPE_CHECKING

from epochal.health.branches import Branch, idle_branches, number_beside
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
        "info": (
            "Half of the branches beside each other, such as experts, had no gradient in any of "
            "the first 20 watched steps. Once in a run, and not if the routing is recorded."
        ),
        "warning": (
            "Five watched steps without any gradient, or with more than 99.5 % zeros. A bias "
            "beside a weight with a gradient does not count. What was without one before takes "
            "three times as long. Whole parts of the model that learned before, such as heads of "
            "an earlier stage, do not count. Many layers with the same fault are one finding, "
            "which names the first ones."
        ),
    }
    needs = "`epochal.watch(model)`."
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"metrics", "step", "moe", "experts"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Watched steps in a row. Zero-initialised branches get their first gradient a step or two
        # late, and an expert may go without tokens for some steps.
        samples: int = 5
        # Watched steps from the first one: a router tries its experts one after the other.
        unused: int = 20
        # Of the longest time without a gradient that ended: what is used rarely is not dead.
        rare: float = 3.0
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
        self._has_learned: set[str] = set()  # layers that had a gradient
        self._waits: dict[str, int] = {}  # watched steps without a gradient, up to now
        self._longest: dict[str, int] = {}  # of those that ended
        self._unused: set[Branch] | None = None  # in all watched steps
        self._num_watched = 0
        self._noted: Branch | None = None
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a watched step; other records have none of the series."""
        if observation.kind in ("moe", "experts"):
            self._unused = set()  # rules on experts say more about them
            return
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
        self._waits.clear()

    def _judge_gradients(self, gradients: Mapping[str, float]) -> Iterable[Verdict]:
        largest, usual = max(gradients.values()), median(gradients.values())
        bar = (usual or largest) * self.thresholds.gradient_share
        # Where none has a gradient the training as a whole stands still: no matter of layers.
        idle = {layer for layer, norm in gradients.items() if largest > 0 and norm <= bar}
        branches = idle_branches(idle, gradients)
        excused = {parameter for branch in branches for parameter in branch.parameters}
        excused |= _finished(idle - excused, list(gradients), self._has_learned)
        self._has_learned |= gradients.keys() - idle
        for layer in gradients:
            ails = layer in idle and layer not in excused and not is_spare_bias(layer, gradients)
            ails = ails and self._waits_long(layer)
            self._without_gradient.note(layer, ails=ails, step=self._step)
        for layer in gradients:
            self._note_wait(layer, is_idle=layer in idle)
        yield from self._without_gradient.verdicts(GRADIENT_NORMS.name, self._describe_gradient)
        yield from self._judge_branches(branches, gradients)

    def _waits_long(self, layer: str) -> bool:
        """Whether it has been without a gradient for longer than it was before it had one."""
        return self._waits.get(layer, 0) >= self.thresholds.rare * self._longest.get(layer, 0)

    def _note_wait(self, layer: str, *, is_idle: bool) -> None:
        if is_idle:
            self._waits[layer] = self._waits.get(layer, 0) + 1
        elif waited := self._waits.pop(layer, 0):
            self._longest[layer] = max(self._longest.get(layer, 0), waited)

    def _judge_branches(
        self, idle: Sequence[Branch], gradients: Mapping[str, float]
    ) -> Iterable[Verdict]:
        """Note branches that were never used, once: a router may leave some without tokens."""
        self._num_watched += 1
        if self._unused is None:
            self._unused = set(idle)
        self._unused.intersection_update(idle)
        if self._noted is not None and self._noted not in self._unused:
            yield Verdict(self._noted.name, active=False)
            self._noted = None
        if self._num_watched == self.thresholds.unused and self._unused:
            kept = [branch for branch in idle if branch in self._unused]
            kept = [branch for branch in kept if branch.family == kept[0].family]
            number = number_beside(kept[0], gradients)
            if 2 * len(kept) >= number:
                self._noted = kept[0]
                yield self._describe_branches([branch.name for branch in kept], number)

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

    def _describe_branches(self, branches: Sequence[str], number: int) -> Verdict:
        watched = self.thresholds.unused
        return Verdict(
            branches[0],
            active=True,
            severity="info",
            sentence=f"{len(branches)} of {number} branches beside each other had no gradient in "
            f"any of the first {watched} watched steps: {named(branches)}.",
            steps=(0, self._step),
            evidence={"branches": len(branches), "of": number, "watched_steps": watched},
            advice="A router may leave experts unused, and the data of a batch some of the heads. "
            "If all of them should learn, balance the load, or mix the data of each batch.",
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


def _finished(idle: Set[str], layers: Sequence[str], learned: Set[str]) -> Set[str]:
    """The layers without a gradient, if they are whole parts of the model that learned before.

    A head of an earlier stage is such a part. What dies in a chain cuts off the first part too, or
    leaves the bias of the next layer with a gradient.
    """
    parts = {layer: layer.partition(".")[0] for layer in layers}
    alive = {parts[layer] for layer in layers if layer not in idle} | {parts[layers[0]]}
    is_finished = all(
        layer in learned
        and "." in layer
        and parts[layer] not in alive
        and not parts[layer].isdigit()
        for layer in idle
    )
    return idle if is_finished else frozenset()
