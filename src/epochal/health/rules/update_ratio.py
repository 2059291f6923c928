"""Updates that are too large or too small for the weights they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.branches import idle_branches
from epochal.health.layer_series import (
    GRADIENT_NORMS,
    UPDATE_RATIOS,
    WEIGHT_NORMS,
    has_gradient,
    holds_layers,
    named,
)
from epochal.health.learning import falls_straight, has_fallen_since, is_hurt
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_ALL = "update_ratio"
_NOW = "update_ratio, now"
_LOSSES = 40  # fewer do not tell whether the loss falls
_RAISE = (
    "Raise the learning rate (about 0.1 % of the norm a step is usual), or look for clipping at "
    "far too low a limit, and for a loss or a gradient scaled down by mistake."
)


class UpdateRatio(Rule):
    """The norm of an update over the norm of its weights, out of range for several watched steps.

    Too large is checked for each layer. Too small is checked for the median weight while the rate
    is near its peak, because updates at the end of a schedule are small on purpose. It is the mean
    since the rate's peak that counts: updates of plain gradients shrink as a training converges. A
    single layer is too small if the others change. ``dead-layer`` covers layers without a gradient.
    """

    name = "update-ratio"
    group = "layers"
    meaning = "The steps are far too large or too small for the weights."
    healthy = "An update of about 0.001 of the weights' norm; 0.0001 to 0.03 is usual."
    reports = {
        "warning": (
            "Above 0.1, while the loss does not fall and has gained nothing, or stands above its "
            "best level. If a layer has grown 3 times, most layers must be so, and the loss must "
            "not have fallen by a tenth. Or below 0.00005 in the median weight, as a mean of the "
            "first steps after a warm-up, and below 0.00011 after 400 steps. Below 0.0004 "
            "after 150 steps, if the loss falls in a straight line. Or below 0.000002 for five "
            "watched steps, in one layer or in the median one."
        )
    }
    needs = "`epochal.watch(model)`."
    symptom_of = frozenset({"lost values", "divergence", "standstill"})
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        # About 1e-3 is the textbook figure. Adam's first thousand steps reach several percent.
        high: float = 0.1
        # The mean of the median weight: at most so many steps after the first one.
        low: float = 5e-5
        low_lasting: float = 1.1e-4
        lasting_steps: int = 400
        last_step: int = 1000
        # While the loss falls in a straight line, the steps have not left where they started.
        low_straight: float = 4e-4
        straight_steps: int = 150
        # A single layer may lag far behind the others, with a rate that falls from layer to layer.
        layer_low: float = 2e-6
        # The first steps of a warm-up are small in every run.
        skip_steps: int = 50
        samples: int = 5
        # Weights that left a small start are young: a step is large beside them, and teaches. Not
        # if most are so, and the loss has not fallen by this share of it since.
        grown: float = 3.0
        learning: float = 0.1
        # Biases and scales start near zero, where any step is large against the norm.
        min_norm_share: float = 0.02
        # At the end of a schedule updates are small on purpose.
        lr_share: float = 0.3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        needed = thresholds.samples
        self._large = StreakCounter(needed=needed)
        self._medians: dict[int, float] = {}  # of the weights by step, at the peak of the rate
        self._lagging = StreakCounter(needed=needed)
        self._still = StreakCounter(needed=needed)
        self._ratios: Mapping[str, float] = {}
        self._first_norms: dict[str, float] = {}
        self._most_since: int | None = None  # the step since which most layers have large updates
        self._large_since: dict[str, int] = {}  # and each of them
        self._usual = 0.0
        self._peak_lr = 0.0
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a watched step."""
        lr = context.last.get("lr")
        if lr is not None and lr > self._peak_lr:  # a warm-up: its steps are small on purpose
            self._peak_lr = lr
            self._medians.clear()
        if observation.step is None or not holds_layers(observation):
            return
        ratios = UPDATE_RATIOS.of(observation.values)
        if not ratios:
            return
        self._step, self._ratios = observation.step, ratios
        large = self._too_large(ratios, WEIGHT_NORMS.of(observation.values), context)
        for layer in ratios:
            self._large.note(layer, ails=layer in large, step=self._step)
        yield from self._large.verdicts(UPDATE_RATIOS.name, self._describe_large)
        yield from self._judge_small(observation, lr, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._large.forget()
        self._still.forget()
        self._medians.clear()
        self._most_since = None
        self._large_since.clear()
        self._lagging.forget()

    def _judge_small(
        self, observation: Observation, lr: float | None, context: Context
    ) -> Iterable[Verdict]:
        limits = self.thresholds
        moving = {layer: ratio for layer, ratio in self._ratios.items() if ratio > 0}
        if not moving:
            return
        passed = self._step - (context.first_step or 0)
        is_early = passed <= limits.last_step and not context.is_resumed
        if is_early and self._is_near_peak(lr):
            self._note_weights(moving, WEIGHT_NORMS.of(observation.values))
        if passed < limits.skip_steps:
            return
        if is_early and len(self._medians) >= limits.samples:
            bar = limits.low_lasting if passed >= limits.lasting_steps else limits.low
            if passed >= limits.straight_steps and falls_straight(context.curves.get("loss")):
                bar = limits.low_straight
            is_small = fmean(self._medians.values()) < bar
            yield self._describe_small() if is_small else Verdict(_ALL, active=False)
        self._usual = median(moving.values())
        is_still = self._usual < limits.layer_low and self._is_near_peak(lr)
        self._still.note(_NOW, ails=is_still, step=self._step)
        if not context.is_open(self.name, _ALL):
            yield from self._still.verdicts(str, self._describe_still)
        gradients = GRADIENT_NORMS.of(observation.values)
        small = {layer for layer, ratio in moving.items() if ratio < limits.layer_low}
        # An expert without tokens hardly changes: that is a matter of its router.
        for branch in idle_branches(small, moving):
            small -= branch.parameters
        for layer in moving:
            lags = layer in small and self._usual >= limits.low
            ails = lags and (layer not in gradients or has_gradient(layer, gradients))
            self._lagging.note(layer, ails=ails, step=self._step)
        yield from self._lagging.verdicts(UPDATE_RATIOS.name, self._describe_lag)

    def _note_weights(self, moving: Mapping[str, float], norms: Mapping[str, float]) -> None:
        """Keep the median of the weights: biases start near zero, where any step is large."""
        weighty = self._weighty(moving, norms)
        weights = [moving[one] for one in weighty if one.endswith("weight")]
        if weights or weighty:
            self._medians[self._step] = median(weights or [moving[one] for one in weighty])

    def _too_large(
        self, ratios: Mapping[str, float], norms: Mapping[str, float], context: Context
    ) -> set[str]:
        """The layers with large updates that do harm.

        Those that left a small start are not among them, unless most are so.
        """
        limits = self.thresholds
        for layer, norm in norms.items():
            self._first_norms.setdefault(layer, norm)
        weighty = self._weighty(ratios, norms)
        large = {layer for layer in weighty if ratios[layer] > limits.high}
        since = self._large_since
        self._large_since = {layer: since.get(layer, self._step) for layer in large}
        if 2 * len(large) <= len(weighty):
            self._most_since = None
        elif self._most_since is None:
            self._most_since = self._step
        named_already = set(self._large.names())
        harmful = {
            layer
            for layer in large
            if layer in named_already or self._does_harm(self._large_since[layer], context)
        }
        if self._most_since is not None and self._stands(self._most_since, context):
            return harmful
        return {
            layer
            for layer in harmful
            if layer not in norms or norms[layer] < limits.grown * self._first_norms[layer]
        }

    def _stands(self, since: int, context: Context) -> bool:
        """Whether the loss has not fallen since a step, as far as that is known."""
        loss = context.curves.get("loss")
        if loss is not None and loss.count < _LOSSES:
            return False
        return not has_fallen_since(loss, since, share=self.thresholds.learning)

    def _does_harm(self, since: int, context: Context) -> bool:
        """Whether the loss does not fall, and has gained nothing or lost some, as far as known.

        What it gained first does not count for ever: it is the later half of the time that tells.
        """
        loss = context.curves.get("loss")
        if loss is not None and loss.count < _LOSSES:
            return False
        return not has_fallen_since(loss, (since + self._step) // 2) and is_hurt(loss)

    def _weighty(self, ratios: Mapping[str, float], norms: Mapping[str, float]) -> set[str]:
        """The layers whose norm is large enough to measure an update by."""
        if not norms:
            return {layer for layer in ratios if not layer.endswith("bias")}
        bar = self.thresholds.min_norm_share * max(norms.values())
        return {
            layer for layer in ratios if norms.get(layer, bar) >= bar and not layer.endswith("bias")
        }

    def _is_near_peak(self, lr: float | None) -> bool:
        if lr is None:
            return False
        return lr >= self.thresholds.lr_share * self._peak_lr > 0

    def _describe_large(self, layers: Sequence[str]) -> Verdict:
        since, ratio = self._large.since(layers[0]), self._ratios.get(layers[0], 0.0)
        return Verdict(
            UPDATE_RATIOS.name(layers[0]),
            active=True,
            sentence=f"Each step changes {named(layers)} by more than a tenth of its weights' norm "
            f"({100 * ratio:.0f} % now), since step {since:,}.",
            steps=(since, self._step),
            evidence={"ratio": ratio, "usual": 1e-3, "layers": len(layers), "since_step": since},
            advice="Lower the learning rate (about 0.1 % of the norm a step is usual), warm it up "
            "longer, or clip the gradients.",
        )

    def _describe_lag(self, layers: Sequence[str]) -> Verdict:
        since, ratio = self._lagging.since(layers[0]), self._ratios.get(layers[0], 0.0)
        return Verdict(
            UPDATE_RATIOS.name(layers[0]),
            active=True,
            sentence=f"{named(layers)} hardly changes: its update is {format_number(ratio)} of its "
            f"norm a step, the median layer's {format_number(self._usual)}, since step {since:,}.",
            steps=(since, self._step),
            evidence={"ratio": ratio, "median": self._usual, "layers": len(layers)},
            advice="Check the rate of its parameter group, and whether its gradient vanishes on "
            "the way back (normalisation, residual paths, saturated activations).",
        )

    def _describe_still(self, names: Sequence[str]) -> Verdict:
        since = self._still.since(names[0])
        return Verdict(
            names[0],
            active=True,
            sentence=f"Steps no longer change the weights: the update is "
            f"{format_number(self._usual)} of their norm in the median layer, since step "
            f"{since:,}.",
            steps=(since, self._step),
            evidence={"ratio": self._usual, "usual": 1e-3, "since_step": since},
            advice=_RAISE,
        )

    def _describe_small(self) -> Verdict:
        first, mean = min(self._medians), fmean(self._medians.values())
        return Verdict(
            _ALL,
            active=True,
            sentence=f"Steps hardly change the weights: from step {first:,} to step "
            f"{self._step:,} an update is {format_number(mean)} of the median weight's norm "
            "in the mean.",
            steps=(first, self._step),
            evidence={"ratio": mean, "usual": 1e-3, "samples": len(self._medians)},
            advice=_RAISE,
        )
