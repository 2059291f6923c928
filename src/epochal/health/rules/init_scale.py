"""The model starts at a scale at which it cannot learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.evaluations import is_adaptive, num_classes
from epochal.health.layer_series import UPDATE_RATIOS, WEIGHT_NORMS, bias_of, holds_layers
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.rules.loss_summed import batch_size
from epochal.health.text import times
from epochal.health.thresholds import RuleThresholds
from epochal.records import finite

if TYPE_CHECKING:
    from epochal.health.context import Context

_ADVICE = (
    "Check the initialisation: its standard deviation should be about 1 / sqrt(inputs of the "
    "layer), as torch's defaults and epochal.torch's initialisers have it. Check the scale of the "
    "inputs too. Start again: training hardly mends it."
)
SCALE = "initial-scale"  # the event
_SOON = 30  # points
_LEAST_NORM = 1e-12  # less is zero
_MOST_RATIO = 1000.0  # of a weight's norm over its bias's: more, and the bias was set to almost 0


class InitScale(Rule):
    """First weights far from the size of their biases, or a first loss far above that of guessing.

    Weights and biases of a layer are drawn from the same range by default, so a weight's norm is
    above that of its bias. An adaptive optimizer changes every element by the same amount in its
    first step: the ratio of the updates is then that of the sizes of single elements.
    """

    name = "init-scale"
    group = "layers"
    meaning = "The weights were initialised far too large or far too small."
    healthy = "Weights as large as their biases, element by element. A first loss near guessing."
    reports = {
        "warning": (
            "At the first watched step, most weights have half the norm of their bias or less, or "
            "half of all weights a norm below 0.03. Or their elements are 5 times as large as "
            "torch draws them, or a fiftieth, in the median layer. Or "
            "with an adaptive optimizer, elements of weights are 5 times as large as those of "
            "biases. Or the first loss is 8 times that of guessing among the classes, and 3 times "
            "what it is 30 points later. Or it falls a thousandfold in 60 points, most of it in "
            "the first 20."
        )
    }
    needs = "`epochal.watch(model)` from the first step on, or the number of classes."
    causes = frozenset({"implausible results"})
    kinds = frozenset({"metrics", "step", "event"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # Norm of a weight over that of its bias: at least 1 by default.
        small: float = 0.5
        # A norm that no matrix has by default: 0.2 is that of a small table drawn at 0.01.
        tiny: float = 0.03
        # Size of a weight's elements over a bias's: 1 by default.
        large: float = 5.0
        # Size of the elements over torch's own: by He and Glorot 0.5 to 3 times.
        drawn_large: float = 5.0
        drawn_small: float = 0.02
        # The first loss over that of guessing, and over what it is some points later.
        guess: float = 8.0
        soon: float = 3.0
        # A fall that no learning explains, within so many points.
        fall: float = 1000.0
        points: int = 60

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._is_watched = False
        self._first: list[float] = []
        self._is_over = False

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the first watched step, and the first losses."""
        if self._is_over or context.is_resumed:
            return ()
        if observation.kind == "event":
            found = self._drawn(observation, context)
            self._is_over = found is not None
            return () if found is None else (found,)
        if observation.step is None:
            return ()
        if not self._is_watched and holds_layers(observation):
            found = self._weights(observation, context)
            if found is not None:
                self._is_over = True
                return (found,)
        loss = observation.roles.get("loss")
        if loss is None or not loss > 0 or context.is_game:
            return ()
        found = self._losses(loss, observation.step, context)
        self._is_over = found is not None or len(self._first) > self.thresholds.points
        return () if found is None else (found,)

    # -- weights ----------------------------------------------------------------------------------

    def _drawn(self, observation: Observation, context: Context) -> Verdict | None:
        """Judge how large the elements of the weights start beside torch's own."""
        event, limits = observation.record, self.thresholds
        if event.get("name") != SCALE:
            return None
        step, scale = int(event.get("at_step", 0)), finite(event.get("scale")) or 1.0
        is_late = context.first_step is not None and step > context.first_step + 5
        if is_late or limits.drawn_small < scale < limits.drawn_large:
            return None
        how = "large" if scale > 1 else "small"
        factor = f"{times(scale)} times as large as" if scale > 1 else f"1/{1 / scale:,.0f} of what"
        count = int(event.get("parameters", 0))
        return self._verdict(
            f"The weights start far too {how}: in the median of {count:,} layers their elements "
            f"are {factor} torch draws: the initialisation is too {how}.",
            step,
            {"layers": count, "scale": scale},
        )

    def _weights(self, observation: Observation, context: Context) -> Verdict | None:
        norms = WEIGHT_NORMS.of(observation.values)
        if not norms:
            return None
        self._is_watched = True
        step = observation.step or 0
        if context.first_step is not None and step > context.first_step + 5:
            return None
        limits = self.thresholds
        sized = [n for w, n in norms.items() if w.endswith("weight") and n > _LEAST_NORM]
        tiny = [norm for norm in sized if norm < limits.tiny]
        if len(tiny) > 1 and 2 * len(tiny) >= len(sized):
            return self._verdict(
                f"The weights start far too small: {len(tiny)} of {len(sized)} weights have a "
                f"norm of {format_number(median(tiny))} in the median: the initialisation is too "
                "small.",
                step,
                {"layers": len(tiny), "norm": median(tiny)},
            )
        pairs = [(w, b) for w, b in _pairs(norms) if min(norms[w], norms[b]) > _LEAST_NORM]
        if len(pairs) < 2:
            return None
        ratios = [norms[w] / norms[b] for w, b in pairs]
        small = sum(ratio < limits.small for ratio in ratios)
        if 2 * small > len(pairs):
            typical = 1 / median(ratios)
            return self._verdict(
                f"The weights start far too small: {small} of {len(pairs)} layers have weights "
                f"with a smaller norm than their biases, {times(typical)} times in the median: "
                "the initialisation is too small.",
                step,
                {"layers": small, "ratio": typical},
            )
        updates = UPDATE_RATIOS.of(observation.values)
        if not is_adaptive(context.config):
            return None
        sizes = [
            updates[b] / updates[w]
            for w, b in pairs
            if updates.get(w) and updates.get(b) and norms[w] < _MOST_RATIO * norms[b]
        ]
        large = sum(size > limits.large for size in sizes)
        if len(sizes) < 2 or 2 * large <= len(sizes):
            return None
        return self._verdict(
            f"The weights start far too large: in {large} of {len(sizes)} layers their elements "
            f"are {times(median(sizes))} times as large as those of the biases, which default to "
            "the same size: the initialisation is too large.",
            step,
            {"layers": large, "ratio": median(sizes)},
        )

    # -- losses -----------------------------------------------------------------------------------

    def _losses(self, loss: float, step: int, context: Context) -> Verdict | None:
        self._first.append(loss)
        limits, classes = self.thresholds, num_classes(context.config)
        count = len(self._first)
        start = median(self._first[:3])
        if count == _SOON and classes is not None:
            now, guess = median(self._first[-5:]), math.log(classes)
            samples = batch_size(context.config) or 1  # a sum over them has a rule of its own
            is_sum = 0.6 < start / guess / samples < 1.6 and now > 0.2 * samples * guess
            is_far = start > max(limits.guess * guess, limits.soon * now)
            if is_far and not is_sum:
                return self._verdict(
                    f"The loss starts at {format_number(start)}, where guessing among "
                    f"{classes:,} classes has {format_number(guess)}, and falls to "
                    f"{format_number(now)} within {count} points: the initialisation is too large.",
                    step,
                    {"start": start, "guess": guess},
                )
        if count == limits.points:
            now, third = median(self._first[-5:]), count // 3
            early = median(self._first[third - 2 : third + 3])
            # A loss that falls at one speed converges; outputs that are too large shrink at first.
            if start > limits.fall * now > 0 and early < math.sqrt(start * now):
                return self._verdict(
                    f"The loss starts at {format_number(start)}, is {format_number(early)} after "
                    f"{third} points and {format_number(now)} after {count}: the initialisation "
                    "is too large.",
                    step,
                    {"start": start, "early": early, "now": now},
                )
        return None

    def _verdict(self, sentence: str, step: int, evidence: dict[str, float | int | str]) -> Verdict:
        return Verdict(
            "initialisation",
            True,
            "warning",
            sentence,
            steps=(0 if step < 0 else step, step),
            evidence=evidence,
            advice=_ADVICE,
        )


def _pairs(norms: Mapping[str, float]) -> Iterable[tuple[str, str]]:
    """Weights with the bias beside them."""
    for name in norms:
        beside = bias_of(name)
        if beside != name and beside in norms:
            yield name, beside
