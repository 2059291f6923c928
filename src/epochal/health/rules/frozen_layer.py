"""A layer whose weights do not change while the others' do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from epochal.health.branches import idle_branches
from epochal.health.layer_series import (
    GRADIENT_NORMS,
    UPDATE_RATIOS,
    WEIGHT_NORMS,
    bias_of,
    has_free_metrics,
    has_gradient,
    holds_layers,
    named,
)
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

# Of the median gradient: what is left of one where next to no input comes.
_UNUSED = 1e-4
FROZEN, NO_STEP = "frozen-parameters", "no-optimizer-step"


class FrozenLayer(Rule):
    """Weights that get a gradient and stay as they are; without a gradient it is only noted.

    A layer whose gradient is zero is left to the rule on dead layers.
    """

    name = "frozen-layer"
    group = "layers"
    meaning = "A layer's weights do not change."
    healthy = "The weights of every trained layer change."
    reports = {
        "info": (
            "The weights have not changed for 40 watched steps and have no gradient, although "
            "`requires_grad` is True. Weights that changed before, as in an earlier stage, and "
            "weights that are frozen by `requires_grad` after they were trained give no finding."
        ),
        "warning": (
            "The weights do not change for four watched steps, although they have a gradient. Or "
            "more than half of the parameters are frozen, and most of those are as initialised. Or "
            "200 gradients were computed, and no optimizer took a step."
        ),
    }
    needs = "`epochal.watch(model)`."
    symptom_of = frozenset({"lost values", "standstill"})
    kinds = frozenset({"metrics", "step", "event"})
    every_rank = False

    class Thresholds(RuleThresholds):
        samples: int = 4
        # Watched steps without a gradient: what a later stage uses stands still at first.
        unused: int = 40
        # Of all parameters: frozen ones. Of those whose norm tells: as initialised.
        frozen: float = 0.5
        initialised: float = 0.9
        fitting: int = 3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._unchanged = StreakCounter(needed=thresholds.samples)
        self._without_gradient = StreakCounter(needed=thresholds.unused)
        self._has_changed: set[str] = set()
        self._norms: dict[str, float] = {}
        self._initial: dict[str, float] = {}
        self._untrained: list[str] = []
        self._num_still = 0
        self._is_told = False  # that frozen weights are as initialised
        self._knows_frozen = False  # by an event, from the shapes of the parameters
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a watched step by its update ratios, else by the norms of the weights."""
        if observation.kind == "event":
            yield from self._judge_event(observation)
            return
        if observation.step is None or not has_free_metrics(observation):
            return
        if not self._untrained and not holds_layers(observation):
            return
        self._note_untrained(observation)
        is_due = self._num_still == self.thresholds.samples and not self._is_told
        if self._untrained and is_due and not self._knows_frozen:
            self._is_told = True
            yield self._describe_untrained(observation.step)
        moves = UPDATE_RATIOS.of(observation.values) or self._moves(observation.values)
        # When nothing moves the rate is zero or the loop does not step: no matter of layers.
        if not moves or not any(moves.values()):
            return
        self._step = observation.step
        gradients = GRADIENT_NORMS.of(observation.values)
        unused = _unused(moves, gradients)
        self._note_changes(moves, WEIGHT_NORMS.of(observation.values))
        for layer, move in moves.items():
            gradient = gradients.get(layer)
            stands = move == 0 and layer not in unused
            has_one = stands and has_gradient(layer, gradients)
            self._unchanged.note(layer, ails=has_one, step=self._step)
            is_idle = stands and gradient is None and "expert" not in layer
            is_idle = is_idle and layer not in self._has_changed
            self._without_gradient.note(layer, ails=is_idle, step=self._step)
        yield from self._unchanged.verdicts(UPDATE_RATIOS.name, self._describe)
        if gradients:
            yield from self._without_gradient.verdicts(WEIGHT_NORMS.name, self._describe_chosen)

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._unchanged.forget()
        self._without_gradient.forget()
        self._norms.clear()

    def _judge_event(self, observation: Observation) -> Iterable[Verdict]:
        record, limits = observation.record, self.thresholds
        if record.get("name") == NO_STEP:
            yield self._describe_no_step(observation.count_of("passes"), observation.step or 0)
        if record.get("name") != FROZEN:
            return
        self._knows_frozen = True
        frozen, number = observation.count_of("parameters"), observation.count_of("of")
        fitting, others = observation.count_of("initialised"), observation.count_of("others")
        if self._is_told or frozen <= limits.frozen * number or fitting < limits.fitting:
            return
        if fitting >= limits.initialised * (fitting + others):
            self._is_told = True
            yield self._describe_frozen(str(record.get("parameter")), frozen, number, fitting)

    def _note_untrained(self, observation: Observation) -> None:
        """Count layers without a gradient in any watched step whose weights are as initialised."""
        norms = WEIGHT_NORMS.of(observation.values)
        with_gradient = GRADIENT_NORMS.of(observation.values).keys()
        if not norms or not with_gradient:
            return
        if not self._initial:
            self._initial = dict(norms)
        learned = {self._initial.get(name) for name in with_gradient}
        # A copy starts equal to what is trained: the target of a self-supervised or Q network.
        still = [
            name
            for name, norm in norms.items()
            if name not in with_gradient and norm == self._initial.get(name) and norm not in learned
        ]
        if len(still) < len(norms) / 2:
            self._untrained = []
            return
        self._num_still += 1
        self._untrained = still if looks_untrained(still, norms) else []

    def _note_changes(self, moves: Mapping[str, float], norms: Mapping[str, float]) -> None:
        """Keep what changed in a watched step, or between two: heads may be trained in turn."""
        self._has_changed.update(layer for layer, move in moves.items() if move)
        first = self._initial or norms
        self._has_changed.update(n for n, norm in norms.items() if norm != first.get(n, norm))

    def _moves(self, values: Mapping[str, float]) -> dict[str, float]:
        """How far each norm went since the last watched step: exactly nothing if not trained."""
        norms = WEIGHT_NORMS.of(values)
        moves = {n: abs(norm - self._norms[n]) for n, norm in norms.items() if n in self._norms}
        self._norms.update(norms)
        return moves

    def _describe(self, layers: Sequence[str]) -> Verdict:
        since = self._unchanged.since(layers[0])
        return Verdict(
            UPDATE_RATIOS.name(layers[0]),
            active=True,
            sentence=f"The weights of {named(layers)} have not changed since step {since:,}, "
            "although they get a gradient.",
            steps=(since, self._step),
            evidence={"layers": len(layers), "since_step": since},
            advice="Check that these parameters are in the optimizer and that their group's rate "
            "is not 0. In 16-bit weights, updates below the precision vanish: keep a 32-bit copy.",
        )

    def _describe_no_step(self, passes: int, step: int) -> Verdict:
        return Verdict(
            WEIGHT_NORMS.prefix.rstrip("/"),
            active=True,
            sentence=f"The weights do not change: the model got {passes:,} gradients, and no "
            "optimizer has taken a step.",
            steps=(0, step),
            evidence={"passes": passes},
            advice="Call optimizer.step() after each backward pass, on an optimizer that holds "
            "the parameters of this model.",
        )

    def _describe_frozen(self, first: str, frozen: int, number: int, fitting: int) -> Verdict:
        return Verdict(
            WEIGHT_NORMS.name(first),
            active=True,
            sentence=f"{frozen:,} of {number:,} parameters are frozen (requires_grad is False), "
            f"{first} first, and {fitting:,} of them have the norm of an initialisation: they "
            "are frozen at random values.",
            steps=(0, 0),
            evidence={"parameters": frozen, "of": number, "initialised": fitting},
            advice="Set requires_grad to True for these parameters before the optimizer is made, "
            "or load the weights that they should have.",
        )

    def _describe_untrained(self, step: int) -> Verdict:
        layers = self._untrained
        return Verdict(
            WEIGHT_NORMS.name(layers[0]),
            active=True,
            sentence=f"{named(layers)} has never been trained and is not trained now: it has no "
            "gradient, and its weights are those of an initialisation. It is frozen at random "
            "values.",
            steps=(0, step),
            evidence={"layers": len(layers), "since_step": 0},
            advice="Set requires_grad to True for these parameters before the optimizer is made, "
            "or load the weights that they should have.",
        )

    def _describe_chosen(self, layers: Sequence[str]) -> Verdict:
        since = self._without_gradient.since(layers[0])
        return Verdict(
            WEIGHT_NORMS.name(layers[0]),
            active=True,
            severity="info",
            sentence=f"{named(layers)} gets no gradient and has not changed since step {since:,}.",
            steps=(since, self._step),
            evidence={"layers": len(layers), "since_step": since},
            advice="If it is frozen on purpose, ignore this; otherwise set requires_grad, and see "
            "that the forward pass uses the layer.",
        )


def _unused(moves: Mapping[str, float], gradients: Mapping[str, float]) -> set[str]:
    """The parameters of branches without input: that is a matter of what chooses among them."""
    bar = _UNUSED * median(gradients.values()) if gradients else 0.0
    still = {one for one, move in moves.items() if move == 0 and gradients.get(one, 0.0) <= bar}
    return {one for branch in idle_branches(still, moves) for one in branch.parameters}


def looks_untrained(layers: Sequence[str], norms: Mapping[str, float]) -> bool:
    """Whether weights are as torch draws them, by their norms alone.

    A normalisation starts at exactly 1 and 0, and other biases that are exactly 0 were never
    trained either. Weights and biases of a linear layer are drawn from the same range, so 3 times
    the square of a weight's norm is its number of outputs, and the square of weight over bias its
    number of inputs: that of the outputs of the layer before. Biases of recurrent layers have a
    norm of 1 (GRU), 1.15 (LSTM) or 0.58.
    """
    kept = set(layers)
    pairs = [(n, bias_of(n)) for n in layers if n.endswith("weight")]
    pairs = [(w, b) for w, b in pairs if b in kept and _is_norm(norms[w])]
    hits = misses = zeros = 0
    outputs: float | None = None
    for weight, bias in pairs:
        square = norms[weight] ** 2
        if norms[bias] == 0:
            zeros += 1
            continue
        if not _is_norm(norms[bias]):
            continue
        inputs = square / norms[bias] ** 2
        if outputs is not None:
            times = inputs / outputs
            is_near = any(abs(math.log(times / kernel)) < 0.2 for kernel in (1, 9, 25, 49))
            hits, misses = hits + is_near, misses + (not is_near)
        outputs = 3 * square
    recurrent = [norms[n] for n in layers if "bias_ih" in n or "bias_hh" in n]
    near = [any(abs(norm / one - 1) < 0.1 for one in (1.0, 1.155, 0.577)) for norm in recurrent]
    hits, misses = hits + sum(near), misses + len(near) - sum(near)
    return hits + (zeros if zeros > 1 else 0) > 2 * misses


def _is_norm(value: float) -> bool:
    """Whether a norm is of a size that weights have, and can be computed with."""
    return 1e-9 < value < 1e9
