"""How many experts a mixture has and how many a token takes, and what imbalance is too much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochal.health.thresholds import RuleThresholds
from epochal.records import Record, finite

# Names in the configurations of published models, and plain ones.
_NUM_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "top_k", "moe_top_k", "experts_per_token", "num_selected_experts")


class CollapseThresholds(RuleThresholds):
    """When a router has given up on most of its experts."""

    utilization_grave: float = 0.5
    skip: int = 10  # routers start from random weights
    recent: int = 5
    # With half of the experts idle the others get twice the mean at least.
    collapse_imbalance: float = 2.2
    # Entropy over ln(experts): a router that hardly doubts no longer explores.
    entropy: float = 0.25


class ImbalanceThresholds(CollapseThresholds):
    """From which load imbalance on the routing is poor, and from which it is grave."""

    # The load imbalance (most loaded over mean) cannot exceed experts/top-k, when every token
    # takes the same experts. So the bars are shares of that, and at least what is poor for few
    # experts.
    least: float = 3.0
    share: float = 0.8
    cap: float = 0.9
    grave: float = 0.95
    # With many experts that most is far away: 64 or 128 of them with 4 per token show 3 to 6 in
    # health, 128 with 8 per token twice that. So poor is two and a half times the experts per
    # token, from 10 on, and grave twice as much.
    many: float = 10.0
    per_choice: float = 2.5
    twice: float = 2.0
    # Without knowing experts and top-k: beyond what 128 experts with 8 per token show in health.
    unknown: float = 13.0


@dataclass(frozen=True, slots=True)
class LayerLoad:
    """One layer's routing, from the shares of its experts."""

    layer: str
    imbalance: float
    utilization: float
    busiest: int
    busiest_share: float


class Routing:
    """The routing of a model: experts and experts per token, from records or configuration."""

    def __init__(self) -> None:
        self.num_experts: float | None = None
        self.top_k: float | None = None

    def learn(self, values: Mapping[str, float], record: Record, config: Mapping[str, Any]) -> None:
        """Take in a record of kind ``step``, ``moe`` or ``experts``."""
        if record.get("log") == "experts":
            loads = record.get("load")
            if isinstance(loads, list) and loads and isinstance(loads[0], list):
                self.num_experts = float(len(loads[0]))
            self.top_k = _number(record.get("top_k")) or self.top_k
        if self.num_experts is None:
            self.num_experts = _found(config, _NUM_EXPERTS) or _counted(values)
        if self.top_k is None:
            self.top_k = _found(config, _TOP_K)

    @property
    def largest_imbalance(self) -> float | None:
        """Experts over top-k: the imbalance when every token takes the same; None if unknown."""
        if not self.num_experts or not self.top_k or self.top_k > self.num_experts:
            return None  # a "top_k" above the number of experts is that of sampling text
        return self.num_experts / self.top_k

    def bars(self, thresholds: ImbalanceThresholds) -> tuple[float, float]:
        """The imbalances from which it is poor, and from which it is grave."""
        largest = self.largest_imbalance
        if largest is None:
            poor = thresholds.unknown
            return poor, thresholds.twice * poor
        share = max(thresholds.least, thresholds.share * largest)
        many = thresholds.per_choice * (self.top_k or 0.0)
        many = max(thresholds.many, many)
        poor = max(1.0, min(share, many, thresholds.cap * largest))
        grave = thresholds.twice * many
        return poor, max(poor, min(grave, thresholds.grave * largest))


def is_collapsed(
    use: float, *, imbalance: float | None, entropy: float | None, thresholds: CollapseThresholds
) -> bool:
    """Whether a router has given up on its idle experts, rather than being unevenly loaded."""
    is_uneven = imbalance is not None and imbalance >= thresholds.collapse_imbalance
    is_certain = entropy is not None and entropy <= thresholds.entropy
    return use < thresholds.utilization_grave and (is_uneven or is_certain)


def layer_loads(record: Record) -> list[LayerLoad]:
    """The layers of an ``experts`` record; what cannot be understood is left out."""
    layers, loads = record.get("layers"), record.get("load")
    if not isinstance(layers, list) or not isinstance(loads, list):
        return []
    found = [_layer_load(str(layer), load) for layer, load in zip(layers, loads, strict=False)]
    return [load for load in found if load is not None]


def _layer_load(layer: str, load: Any) -> LayerLoad | None:
    if not isinstance(load, list) or len(load) < 2:
        return None
    shares = [number if (number := _number(share)) is not None else 0.0 for share in load]
    total = sum(shares)
    if total <= 0:
        return None
    most = max(shares)
    return LayerLoad(
        layer=layer,
        imbalance=most / total * len(shares),
        utilization=sum(share > 0 for share in shares) / len(shares),
        busiest=shares.index(most),
        busiest_share=most / total,
    )


def _counted(values: Mapping[str, float]) -> float | None:
    active, used = values.get("moe/active_experts"), values.get("moe/expert_utilization")
    if not active or not used or not 0 < used <= 1:
        return None
    counted = active / used
    return float(round(counted)) if active >= 1 and counted < float("inf") else None


def _found(config: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    """The first of the names in a configuration, at any depth."""
    for name in names:
        number = _number(config.get(name))
        if number is not None:
            return number
    for key, value in config.items():
        if isinstance(value, Mapping):
            number = _found(value, names)
            if number is not None:
                return number
        elif str(key).rpartition(".")[2] in names and _number(value) is not None:
            return _number(value)
    return None


def _number(value: Any) -> float | None:
    number = None if isinstance(value, bool) else finite(value)
    return number if number is not None and number >= 0 else None
