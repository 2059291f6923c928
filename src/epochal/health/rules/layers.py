"""Parameters that are not trained, layers that are dead, weights and inputs of a wrong scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from statistics import median
from typing import Any

from epochal.health.context import Context
from epochal.health.layer_series import (
    DEAD_UNITS,
    GRADIENT_NORMS,
    UPDATE_RATIOS,
    LayerSeries,
    StreakCounter,
    has_gradient,
    holds_layers,
    in_idle_branches,
    is_spare_bias,
    named,
)
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Message, Rule, RuleThresholds, Verdict
from epochal.health.rules.loss_scale import batch_size
from epochal.records import finite

_PARAMETERS = "params"
_GRADIENTS = "grads"
_INITIALISATION = (
    "Check the initialisation (torch's standard deviation is about 1 / sqrt(inputs of the layer)) "
    "and the scale of the inputs, and start again: training rarely fixes this."
)


class LayerRule(Rule):
    """Names the layers of a watched model that have ailed for some watched steps."""

    group = "layers"
    symptom_of = frozenset({"lost values"})
    every_rank = False
    _step = 0  # the newest watched step

    def _named(
        self,
        streaks: StreakCounter,
        family: LayerSeries,
        message: str,
        shares: Mapping[str, float] | None = None,
    ) -> Iterator[Verdict]:
        def describe(layers: Sequence[str]) -> Verdict:
            first, since = layers[0], streaks.since(layers[0])
            share: Any = {} if shares is None else {"share": shares.get(first, 1.0)}
            return self.found(
                message,
                family.name(first),
                steps=(since, self._step),
                words={"which": named(layers)},
                **share,
                layers=len(layers),
                since_step=since,
            )

        return streaks.verdicts(family.name, describe)


class UntrainedParameters(LayerRule):
    """Parameters do not change: they are not in the optimizer, or are frozen by mistake.

    Parameters that no optimizer updates, although they get gradients.
    """

    name = "untrained-parameters"
    certainty = "fact"
    healthy = "Every parameter that gets a gradient is in an optimizer, and changes."
    reports = {
        "warning": (
            "Trainable parameters are in no optimizer: they get gradients, and have not changed in "
            "the first ten steps. Or parameters in an optimizer, {no_gradient:percent} of its "
            "elements or more, have got no gradient in ten steps. Or weights with a gradient do "
            "not change for {samples} watched steps. Or many gradients were computed, and no "
            "optimizer took a step. Or more than "
            "{frozen:percent} of the parameters are frozen at values that look freshly initialised."
        ),
        "info": "Fewer parameters in an optimizer have got no gradient.",
    }
    messages = {
        "no_optimizer": Message(
            "{parameters} of {of} parameters ({which}) get gradients, and are in no optimizer.",
            "Pass all parameters to the optimizer, as in torch.optim.AdamW(model.parameters()), "
            "or set requires_grad to False.",
        ),
        "no_gradient": Message(
            "{parameters} of {of} parameters in the optimizer ({which}) have got no gradient "
            "up to step {step}, {share:percent} of all elements.",
            "Look for detach(), torch.no_grad() or .item() between these parameters and the loss, "
            "and for layers that forward() does not call. Leave parameters that are not meant to "
            "be trained out of the optimizer.",
        ),
        "unchanged": Message(
            "The weights of {which} have not changed since step {since_step}, although they get a "
            "gradient.",
            "Check that these parameters are in the optimizer, with a learning rate above 0. "
            "Updates of 16-bit weights may be below the precision: keep a 32-bit copy.",
        ),
        "no_step": Message(
            "The model got {passes} gradients, and no optimizer has taken a step.",
            "Call optimizer.step() after each backward pass, with the parameters of this model.",
        ),
        "frozen": Message(
            "{parameters} of {of} parameters are frozen (requires_grad is False), {which} first, "
            "and {initialised} of them look freshly initialised: they are frozen at random values.",
            "Set requires_grad to True before you make the optimizer, or load their weights.",
        ),
    }
    causes = frozenset({"standstill", "idle layers", "unread gradients"})
    kinds = frozenset({"metrics", "step", "event"})

    class Thresholds(RuleThresholds):
        samples: int = 5
        # Of the elements in optimizers. Heads that are not used, as many encoders have, are less.
        no_gradient: float = 0.1
        # Of all parameters: frozen ones. Of those whose values tell: as initialised.
        frozen: float = 0.5
        initialised_share: float = 0.9
        least: int = 3

    thresholds: Thresholds

    def reset(self) -> None:
        self._unchanged = StreakCounter(needed=self.thresholds.samples)

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Read the events of a watched model, and compare updates with gradients."""
        if observation.kind == "event":
            yield from self._judge_event(observation)
            return
        if observation.step is None or not holds_layers(observation):
            return
        moves = UPDATE_RATIOS.of(observation.values)
        # When nothing moves the rate is zero or the loop does not step: not a matter of layers.
        if not any(moves.values()) or context.is_open(self.name, _PARAMETERS):
            return
        self._step = observation.step
        gradients = GRADIENT_NORMS.of(observation.values)
        # A branch without input, such as an expert, has a gradient of next to nothing.
        bar = 1e-4 * median(gradients.values()) if gradients else 0.0
        still = {one for one, move in moves.items() if move == 0}
        idle = {one for one in still if gradients.get(one, 0.0) <= bar}
        unused = in_idle_branches(idle, moves)
        for layer in moves:
            ails = layer in still - unused and has_gradient(layer, gradients)
            moves_again = layer not in still
            self._unchanged.note(layer, ails=ails, step=self._step, is_well=moves_again)
        yield from self._named(self._unchanged, UPDATE_RATIOS, "unchanged")

    def forget_from(self, step: int, context: Context) -> None:
        self._unchanged.forget()

    def _judge_event(self, event: Observation) -> Iterable[Verdict]:
        record, limits, step = event.record, self.thresholds, event.count_of("at_step")
        name, count, of = record.get("name"), event.count_of("parameters"), event.count_of("of")
        if name == "parameters-without-optimizer":
            names = record.get("names")
            listed = [str(one) for one in names] if isinstance(names, list) else []
            if not count or not listed:
                yield Verdict(_PARAMETERS, active=False, extent=CONCLUSIVE)
                return
            words = {"which": named(listed)}
            yield self.found(
                "no_optimizer", _PARAMETERS, steps=(0, step), words=words, parameters=count, of=of
            )
        elif name == "parameters-without-gradient":
            yield from self._judge_absent(event, step)
        elif name == "no-optimizer-step":
            passes = event.count_of("passes")
            yield self.found("no_step", _PARAMETERS, steps=(0, event.step or 0), passes=passes)
        elif name == "frozen-parameters":
            initialised, others = event.count_of("initialised"), event.count_of("others")
            is_random = initialised >= limits.initialised_share * (initialised + others)
            if count > limits.frozen * of and initialised >= limits.least and is_random:
                yield self.found(
                    "frozen",
                    _PARAMETERS,
                    steps=(0, step),
                    words={"which": str(record.get("parameter"))},
                    parameters=count,
                    of=of,
                    initialised=initialised,
                )

    def _judge_absent(self, event: Observation, step: int) -> Iterable[Verdict]:
        count, names = event.count_of("parameters"), event.record.get("names")
        if not count or not isinstance(names, list):
            yield Verdict(_GRADIENTS, active=False, extent=CONCLUSIVE)
            return
        share = event.count_of("elements") / max(1, event.count_of("of_elements"))
        yield self.found(
            "no_gradient",
            _GRADIENTS,
            severity="warning" if share >= self.thresholds.no_gradient else "info",
            steps=(0, step),
            words={"which": named([str(one) for one in names])},
            parameters=count,
            of=event.count_of("of"),
            share=round(share, 3),
            step=step,
        )


class DeadLayer(LayerRule):
    """A layer gets no gradient, so it learns nothing.

    Gradients that are zero, or units that are nearly all dead, at every watched step.
    """

    name = "dead-layer"
    healthy = "Every trained layer has a gradient, and most of its units do."
    reports = {
        "warning": (
            "A layer has no gradient in {samples} watched steps, or {dead:percent} of its units "
            "have none. A bias beside a weight with a gradient does not count. Branches such as "
            "experts and heads do not count either, nor do parts that learned before."
        )
    }
    messages = {
        "gradient": Message(
            "No gradient has reached {which} since step {since_step}: it does not learn.",
            "Check that its output is used in the loss and not detached, and that no ReLU after "
            "it is always 0. If it died in training, lower the learning rate or warm it up longer.",
        ),
        "units": Message(
            "{share:percent} of the units of {which} have had no gradient since step {since_step}: "
            "they are dead.",
            "Lower the learning rate or warm it up longer, check the biases and the scale of the "
            "inputs, or use an activation without a flat side (GELU, SiLU, leaky ReLU).",
        ),
    }
    causes = frozenset({"idle layers", "standstill"})
    # An adapter whose second half does not change gives its first half no gradient.
    symptom_of = LayerRule.symptom_of | {"idle layers"}
    kinds = frozenset({"metrics", "step"})

    class Thresholds(RuleThresholds):
        # Watched steps in a row. Zero-initialised branches get their first gradient a step or two
        # late, and an expert may go without tokens for some steps.
        samples: int = 5
        # Of the longest time without a gradient that ended: what is used rarely is not dead.
        rare: float = 3.0
        # Beside the usual gradient of the other layers, this is nothing.
        gradient_share: float = 1e-8
        # A ReLU layer has up to nine tenths zeros; this is a layer that says nothing.
        dead: float = 0.97

    thresholds: Thresholds

    def reset(self) -> None:
        self._without_gradient = StreakCounter(needed=self.thresholds.samples)
        self._dead = StreakCounter(needed=self.thresholds.samples)
        self._shares: dict[str, float] = {}
        self._has_learned: set[str] = set()  # layers that had a gradient
        self._waits: dict[str, int] = {}  # watched steps without a gradient, up to now
        self._longest: dict[str, int] = {}  # of those that ended

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a watched step; other records have none of the series."""
        if observation.step is None or not holds_layers(observation):
            return
        self._step = observation.step
        gradients = GRADIENT_NORMS.of(observation.values)
        # With one layer there is no other to tell a dead layer from a vanished gradient by.
        if len(gradients) > 1:
            yield from self._judge_gradients(gradients)
        dead = DEAD_UNITS.of(observation.values)
        self._shares = {layer: share for layer, share in dead.items() if gradients.get(layer)}
        for layer, share in self._shares.items():
            self._dead.note(layer, ails=share >= self.thresholds.dead, step=self._step)
        yield from self._named(self._dead, DEAD_UNITS, "units", self._shares)

    def forget_from(self, step: int, context: Context) -> None:
        self._without_gradient.forget()
        self._dead.forget()
        self._waits.clear()

    def _judge_gradients(self, gradients: Mapping[str, float]) -> Iterable[Verdict]:
        largest, usual = max(gradients.values()), median(gradients.values())
        bar = (usual or largest) * self.thresholds.gradient_share
        # Where none has a gradient the training as a whole stands still: not a matter of layers.
        idle = {layer for layer, norm in gradients.items() if largest > 0 and norm <= bar}
        excused: Set[str] = in_idle_branches(idle, gradients)
        excused |= _finished(idle - excused, list(gradients), self._has_learned)
        self._has_learned |= gradients.keys() - idle
        for layer in gradients:
            waited = self._waits.get(layer, 0)
            is_long = waited >= self.thresholds.rare * self._longest.get(layer, 0)
            ails = layer in idle - excused and is_long and not is_spare_bias(layer, gradients)
            is_well = layer not in idle
            self._without_gradient.note(layer, ails=ails, step=self._step, is_well=is_well)
            if layer in idle:
                self._waits[layer] = waited + 1
            elif self._waits.pop(layer, 0):
                self._longest[layer] = max(self._longest.get(layer, 0), waited)
        yield from self._named(self._without_gradient, GRADIENT_NORMS, "gradient")


def _finished(idle: Set[str], layers: Sequence[str], learned: Set[str]) -> Set[str]:
    """Return the layers without a gradient, if they are whole parts that learned before.

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


class InitScale(Rule):
    """The weights were initialised far too large or far too small.

    Weights that were drawn far too large or too small, or a first loss far above a guess.
    """

    name = "init-scale"
    group = "layers"
    healthy = "Weights are about as large as PyTorch draws them. The first loss is near a guess."
    reports = {
        "warning": (
            "In the median layer, the elements of the weights are {large:plain} times as large as "
            "PyTorch draws them, or less than {small:percent} of that. Or the first loss is "
            "{guess:plain} times that of guessing among the classes, and {soon:plain} times what "
            "it is {points} points later."
        )
    }
    messages = {
        "drawn": Message(
            "The weights start far too {how}: in the median of {layers} layers their elements are "
            "{scale} times as large as PyTorch draws them.",
            _INITIALISATION,
        ),
        "guess": Message(
            "The loss starts at {start}, where a guess among {classes} classes gives "
            "{guess_loss}, and is {now} {points} points later: the initialisation is too large.",
            _INITIALISATION,
        ),
    }
    causes = frozenset({"implausible results"})
    kinds = frozenset({"metrics", "step", "event"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Size of the elements over torch's own: by He and Glorot 0.5 to 3 times.
        large: float = 5.0
        small: float = 0.05
        # The first loss over that of guessing, and over what it is some points later.
        guess: float = 8.0
        soon: float = 3.0
        points: int = 30

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Read the event of a watched model, and compare the first loss with a guess."""
        limits = self.thresholds
        if context.is_resumed:
            return
        if observation.kind == "event":
            record, scale = observation.record, finite(observation.record.get("scale")) or 1.0
            step, count = observation.count_of("at_step"), observation.count_of("parameters")
            is_late = context.first_step is not None and step > context.first_step + 5
            is_unusual = not (is_late or limits.small < scale < limits.large)
            if record.get("name") == "initial-scale" and is_unusual:
                words = {"how": "large" if scale > 1 else "small"}
                yield self.found(
                    "drawn",
                    "initialisation",
                    steps=(0, step),
                    words=words,
                    layers=count,
                    scale=scale,
                )
            return
        curve = context.updated_curves.get("loss")
        if curve is None or curve.count != limits.points or not context.family.loss_falls:
            return
        classes = context.num_classes
        if classes is None or curve.start is None:
            return
        start, now, guess = curve.start, curve.recent_level(5), math.log(classes)
        samples = batch_size(context.config) or 1  # a sum over them has a rule of its own
        is_sum = 0.6 < start / guess / samples < 1.6 and now > 0.2 * samples * guess
        if start > max(limits.guess * guess, limits.soon * now) > 0 and not is_sum:
            yield self.found(
                "guess",
                "initialisation",
                steps=(curve.points[0][0], curve.points[-1][0]),
                start=start,
                guess_loss=guess,
                now=now,
                classes=classes,
            )


class InputScale(Rule):
    """The inputs are not normalised: they are far larger than the weights are made for.

    The first layer gets inputs that are far larger than what networks are initialised for.

    What the model gets may be something else: category numbers for embeddings, or what it
    normalises itself. So it counts only if the first layer gets the same.
    """

    name = "input-scale"
    group = "data"
    healthy = "Inputs have a mean near 0 and a standard deviation near 1, or lie between 0 and 1."
    reports = {
        "warning": (
            "The root mean square of the inputs of the first layer is above {limit:plain} in "
            "training, and no normalisation layer gets them first."
        )
    }
    messages = {
        "large": Message(
            "The inputs of {where} have a mean of {mean} and a standard deviation of {std}, from "
            "{lowest} to {highest}. Networks are initialised for inputs of about 1.",
            "Normalise the inputs: divide images by 255, subtract the mean and divide by the "
            "standard deviation of each feature of the training data.",
        )
    }
    causes = frozenset({"instability", "standstill"})
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"event"})
    every_rank = False

    class Thresholds(RuleThresholds):
        limit: float = 15.0

    thresholds: Thresholds

    def reset(self) -> None:
        self._has_layer = False  # whether the first layer gets something else than the model
        self._waiting: Observation | None = None  # inputs of the model: the layer's may follow

    def observe(self, observation: Observation, context: Context) -> Iterator[Verdict]:
        """Read the inputs of a watched model; those of its first layer come right after them."""
        record = observation.record
        if record.get("name") != "inputs":
            return
        is_training = record.get("mode") == "train"
        if is_training and record.get("where") != "model":
            self._has_layer, self._waiting = True, None
            verdict = self._judge(observation)
            yield verdict
            if not verdict.active:
                yield Verdict("inputs", active=False, extent=CONCLUSIVE)
            return
        yield from self.finish(context)
        if is_training and not self._has_layer:
            self._waiting = observation

    def finish(self, context: Context) -> Iterator[Verdict]:
        """Judge the inputs of the model that no inputs of a layer came after."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            yield self._judge(waiting)

    def _judge(self, observation: Observation) -> Verdict:
        record, where = observation.record, str(observation.record.get("where"))
        numbers = [finite(record.get(key)) for key in ("mean", "std", "min", "max")]
        mean, std, lowest, highest = (number or 0.0 for number in numbers)
        subject = "inputs" if where == "model" else f"inputs of {where}"
        if record.get("after_norm") or math.hypot(mean, std) <= self.thresholds.limit:
            return Verdict(subject, active=False)
        step = observation.count_of("at_step")
        return self.found(
            "large",
            subject,
            steps=(step, step),
            words={"where": "the model" if where == "model" else f"the layer {where}"},
            mean=mean,
            std=std,
            lowest=lowest,
            highest=highest,
        )
