"""Routers of mixtures of experts that share the work badly."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

from epochal.health.context import Context, configured
from epochal.health.finding import Severity
from epochal.health.layer_series import named
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, RuleThresholds, Verdict
from epochal.records import Record, finite

# Names in the configurations of published models, and plain ones.
_NUM_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "top_k", "moe_top_k", "experts_per_token", "num_selected_experts")
_USE = "moe/expert_utilization"
_IMBALANCE = "moe/load_imbalance"
_ENTROPY = "moe/router_entropy"
_AUX_LOSS = "moe/aux_loss"
_Z_LOSS = "moe/z_loss"
_LAYERS = "experts"
# How many records the level of a series is the median of. The losses vary more.
_RECENT = {_USE: 5, _IMBALANCE: 5, _ENTROPY: 5, _AUX_LOSS: 20, _Z_LOSS: 20}
_ADVICE = (
    "Raise the weight of the balancing loss, or use a balancing bias. Add noise to the router, "
    "lower its learning rate, and check that its logits are computed in 32 bits."
)
_UNKNOWN = (
    " Put num_experts and num_experts_per_tok into the configuration to get your model's limit."
)
_UNLESS_WEIGHTED = " If you log the loss without its weight, this is normal."


class LayerLoad(NamedTuple):
    """The routing of one layer, from the shares of its experts."""

    layer: str
    imbalance: float
    use: float
    busiest: int
    busiest_share: float


class MoeImbalance(Rule):
    """A few experts do most of the work. The model is smaller than it could be.

    A router that uses its experts unevenly; only the first problem is reported.

    The imbalance is the load of the busiest expert over the mean. It cannot exceed experts / top-k.
    """

    name = "moe-imbalance"
    group = "experts"
    healthy = (
        "A load imbalance of 1 to {even_load:plain} for few experts, up to 1.5 × top-k for many. "
        "80 % of the experts in use or more. A balancing loss of 0.001 to 0.1 and a z loss of "
        "0.0001 to 0.01, with their weights."
    )
    reports = {
        "info": (
            "The balancing loss is above {aux_loss:plain}, or the z loss above {z_loss:plain}, "
            "while the load is even."
        ),
        "warning": (
            "The imbalance reaches the lower of {share:plain} × experts / top-k (at least "
            "{least:plain}) and {per_choice:plain} × top-k (at least {many:plain}), or "
            "{least:plain} if they are not known. Or one of the losses is too large and the load "
            "uneven or unknown. A router that is nearly even (entropy above {even:plain}) has "
            "{lasts} records to settle."
        ),
        "error": (
            "Less than {use:percent} of the experts are in use. Or the imbalance is twice the "
            "limit for many experts, or 0.95 × experts / top-k."
        ),
    }
    messages = {
        "collapsed": Message(
            "Routing has collapsed: only {utilization:percent} of the experts get tokens.",
            "Resume from an earlier checkpoint. Raise the weights of the balancing and z losses, "
            "or lower the learning rate of the router: experts without tokens do not recover.",
            "error",
        ),
        "imbalance": Message(
            "The busiest expert gets {imbalance:times} times the mean load. {limit:plain} or more "
            "is poor{most}.",
            _ADVICE + "{hint}",
        ),
        _AUX_LOSS: Message(
            "The balancing loss is {level}. More than {limit:plain} usually means that the load is "
            "very uneven; 0.001 to 0.1 is healthy.",
            _ADVICE + _UNLESS_WEIGHTED,
        ),
        _Z_LOSS: Message(
            "The z loss of the router is {level}. More than {limit:plain} usually means that its "
            "logits are too large and routing may collapse; 0.0001 to 0.01 is healthy.",
            "Raise the weight of the z loss, and lower the learning rate of the router."
            + _UNLESS_WEIGHTED,
        ),
        "layer": Message(
            "In {layers} expert {busiest} takes {busiest_share:percent} of the assignments, and "
            "{utilization:percent} of the experts get tokens.",
            _ADVICE,
        ),
    }
    needs = (
        "Experts and top-k, from `experts` records or the configuration: `num_experts`, "
        "`num_local_experts`, `num_experts_per_tok`, `top_k`, at any depth."
    )
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"moe", "step", "experts"})
    every_rank = False
    patience = 2
    release = 5
    cooldown_steps = 100

    class Thresholds(RuleThresholds):
        skip: int = 10  # routers start from random weights
        # Of few experts a router may leave half idle while the loss falls.
        use: float = 0.5
        even_load: float = 2.5
        # The limit is a share of the most there can be, and at least what is poor for few experts.
        least: float = 3.0
        share: float = 0.8
        # With many experts that most is far away: 64 or 128 of them with 4 per token show 3 to 6 in
        # health, 128 with 8 per token twice that.
        many: float = 10.0
        per_choice: float = 2.5
        # A router this even has busy and idle experts because batches are small, or has not decided
        # yet: a poor load counts once it has lasted for so many records.
        even: float = 0.8
        lasts: int = 100
        # Both with their weights, summed over layers.
        aux_loss: float = 1.0
        z_loss: float = 0.1

    thresholds: Thresholds

    def reset(self) -> None:
        self._num_experts: float | None = None
        self._top_k: float | None = None
        self._count = 0
        self._worst: str | None = None  # the layer that uses the fewest experts
        self._recent = {name: deque[float](maxlen=count) for name, count in _RECENT.items()}
        self._num_poor = 0  # records in a row with a poor load

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check all layers together, and each layer's load where it is known."""
        values = observation.values
        if observation.kind == "experts":
            self._learn(observation, context)
            verdict = self._judge_layers(observation.record, context)
            if verdict is not None:
                yield verdict
        elif not _RECENT.keys().isdisjoint(values):
            self._learn(observation, context)
            for name, kept in self._recent.items():
                if math.isfinite(values.get(name, math.nan)):
                    kept.append(values[name])
            self._count += 1
            if self._count > self.thresholds.skip:
                yield from self._judge(context)

    def _learn(self, observation: Observation, context: Context) -> None:
        """Find the number of experts, and of experts per token."""
        loads, top_k = observation.record.get("load"), finite(observation.record.get("top_k"))
        if observation.kind == "experts" and isinstance(loads, list) and loads:
            self._num_experts = float(len(loads[0])) if isinstance(loads[0], list) else None
            self._top_k = top_k or self._top_k
        self._num_experts = self._num_experts or _number(configured(context.config, _NUM_EXPERTS))
        self._top_k = self._top_k or _number(configured(context.config, _TOP_K))

    @property
    def _most(self) -> float | None:
        """The imbalance when every token takes the same experts; None if it is not known."""
        if not self._num_experts or not self._top_k or self._top_k > self._num_experts:
            return None  # a top-k above the number of experts is that of sampling text
        return self._num_experts / self._top_k

    def _limits(self) -> tuple[float, float]:
        """Return the imbalances from which it is a warning and an error."""
        limits, most = self.thresholds, self._most
        if most is None:
            return limits.least, 2 * limits.many
        many = max(limits.many, limits.per_choice * (self._top_k or 0.0))
        poor = max(1.0, min(max(limits.least, limits.share * most), many, 0.9 * most))
        return poor, max(poor, min(2 * many, 0.95 * most))

    def _judge(self, context: Context) -> Iterable[Verdict]:
        levels = {
            name: median(kept) for name, kept in self._recent.items() if len(kept) == kept.maxlen
        }
        verdict = self._judge_load(levels, context) or self._judge_losses(levels)
        for name in (_IMBALANCE, _AUX_LOSS, _Z_LOSS):
            if verdict is not None and name == verdict.subject:
                yield verdict
                return  # what comes after the first problem is not judged
            if name != _IMBALANCE or not self._num_poor:
                yield Verdict(name, False)

    def _judge_load(self, levels: Mapping[str, float], context: Context) -> Verdict | None:
        limits, most = self.thresholds, self._most
        use, imbalance = levels.get(_USE, 1.0), levels.get(_IMBALANCE, 1.0)
        poor, grave = self._limits()
        is_poor = imbalance >= (0.9 if context.is_open(self.name, _IMBALANCE) else 1.0) * poor
        has_collapsed = use < limits.use
        self._num_poor = self._num_poor + 1 if is_poor or has_collapsed else 0
        is_even = levels.get(_ENTROPY, 0.0) >= limits.even
        counts = not is_even or self._num_poor >= limits.lasts
        # A router that tries its experts one after the other at first is not poor, or not for long.
        if has_collapsed and counts and (is_poor or self._num_poor >= limits.lasts):
            evidence: dict[str, Any] = {"worst_layer": self._worst} if self._worst else {}
            evidence |= {"imbalance": levels[_IMBALANCE]} if _IMBALANCE in levels else {}
            extent = self._num_poor
            return self.found("collapsed", _IMBALANCE, extent=extent, utilization=use, **evidence)
        if is_poor and counts:
            return self.found(
                "imbalance",
                _IMBALANCE,
                severity="error" if imbalance >= grave else None,
                words={
                    "most": f", and {most:g} is the maximum" if most else " for few experts",
                    "hint": "" if most else _UNKNOWN,
                },
                extent=self._num_poor,
                imbalance=imbalance,
                limit=poor,
            )
        return None

    def _judge_losses(self, levels: Mapping[str, float]) -> Verdict | None:
        limits = self.thresholds
        is_healthy = levels.get(_IMBALANCE, math.inf) <= limits.even_load
        for name, limit in ((_AUX_LOSS, limits.aux_loss), (_Z_LOSS, limits.z_loss)):
            level = levels.get(name, 0.0)
            if level > limit:
                severity: Severity | None = "info" if is_healthy else None
                return self.found(
                    name, name, severity=severity, extent=_RECENT[name], level=level, limit=limit
                )
        return None

    def _judge_layers(self, record: Record, context: Context) -> Verdict | None:
        loads, (poor, _) = layer_loads(record), self._limits()
        self._worst = min(loads, key=lambda load: load.use).layer if loads else None
        bad = [one for one in loads if one.imbalance >= poor or one.use < self.thresholds.use]
        if not bad:
            return Verdict(_LAYERS, False)
        if context.is_open(self.name, _IMBALANCE):
            return None  # the finding about all layers has it
        worst = max(bad, key=lambda load: load.imbalance)
        others = [load.layer for load in bad if load is not worst]
        return self.found(
            "layer",
            _LAYERS,
            words={"layers": named([worst.layer, *others])},
            busiest=worst.busiest,
            busiest_share=worst.busiest_share,
            utilization=worst.use,
        )


def layer_loads(record: Record) -> list[LayerLoad]:
    """Return the layers of an ``experts`` record; what cannot be understood is left out."""
    layers, loads = record.get("layers"), record.get("load")
    if not isinstance(layers, list) or not isinstance(loads, list):
        return []
    found = []
    for layer, load in zip(layers, loads, strict=False):
        shares = [max(finite(x) or 0.0, 0.0) for x in load] if isinstance(load, list) else []
        if len(shares) >= 2 and sum(shares) > 0:
            most, total = max(shares), sum(shares)
            use = sum(share > 0 for share in shares) / len(shares)
            imbalance, busiest = most / total * len(shares), shares.index(most)
            found.append(LayerLoad(str(layer), imbalance, use, busiest, most / total))
    return found


def _number(values: Iterable[Any]) -> float | None:
    """Return the first positive number."""
    numbers = (finite(value) for value in values if not isinstance(value, bool))
    return next((number for number in numbers if number is not None and number > 0), None)
