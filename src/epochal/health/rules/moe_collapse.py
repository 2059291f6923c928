"""A router that has settled on a few experts and left the others out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from statistics import median
from typing import TYPE_CHECKING

from epochal.health.experts import CollapseThresholds, is_collapsed, layer_loads
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict

if TYPE_CHECKING:
    from epochal.health.context import Context

_FIGURES = ("expert_utilization", "load_imbalance", "router_entropy")
_SUBJECT = "moe/expert_utilization"


class MoeCollapse(Rule):
    """Fewer than half of the experts used, together with a large imbalance or no doubt left.

    Half of the experts idle is a matter of balance; the rest says that it will not mend itself.
    """

    name = "moe-collapse"
    group = "experts"
    meaning = "The router never chooses most experts. The model has become a smaller one."
    healthy = "At least 80 % of the experts in use, even if the router is very confident."
    reports = {
        "error": (
            "Utilisation is below 0.5, and the imbalance is above 2.2 or the router's entropy "
            "below 0.25. A router with an entropy of 0.5 or more may still be settling: then this "
            "must last for 100 records. `moe-imbalance` is silenced meanwhile. The evidence names "
            "the layer with the lowest utilisation."
        )
    }
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"moe", "step", "experts"})
    every_rank = False
    patience = 2
    release = 5
    cooldown_steps = 100

    class Thresholds(CollapseThresholds):
        """What a collapse is: ``moe-imbalance`` is silent for as long as it lasts."""

        # Of the entropy: a router that has not decided, as in its first steps. Small batches leave
        # experts out meanwhile. If it lasts for so many records, it is a collapse none the less.
        even: float = 0.5
        lasts: int = 100

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._recent = {name: deque[float](maxlen=thresholds.recent) for name in _FIGURES}
        self._idlest: tuple[str, float] | None = None  # the layer that uses least, and how much
        self._count = 0
        self._streak = 0  # records in a row that look like a collapse

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check by the medians of the last records."""
        limits = self.thresholds
        if observation.kind == "experts":
            uses = [(load.layer, load.utilization) for load in layer_loads(observation.record)]
            self._idlest = min(uses, key=itemgetter(1), default=None)
            return
        found = {name: observation.values.get(f"moe/{name}") for name in _FIGURES}
        if all(value is None for value in found.values()):
            return
        self._count += 1
        for name, value in found.items():
            if value is not None and value == value:
                self._recent[name].append(value)
        use = self._level("expert_utilization")
        if self._count <= limits.skip or use is None:
            return
        yield self._judge(use, self._level("load_imbalance"), self._level("router_entropy"))

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the last records."""
        for kept in self._recent.values():
            kept.clear()
        self._idlest = None
        self._streak = 0

    def _level(self, name: str) -> float | None:
        kept = self._recent[name]
        return median(kept) if len(kept) == kept.maxlen else None

    def _judge(self, use: float, imbalance: float | None, entropy: float | None) -> Verdict:
        limits = self.thresholds
        looks_so = is_collapsed(use, imbalance=imbalance, entropy=entropy, thresholds=limits)
        self._streak = self._streak + 1 if looks_so else 0
        may_settle = entropy is not None and entropy >= limits.even and self._streak < limits.lasts
        if not looks_so or may_settle:
            return Verdict(_SUBJECT, active=False)
        evidence: dict[str, float | int | str] = {"utilization": use}
        parts = []
        if imbalance is not None:
            evidence["imbalance"] = imbalance
            parts.append(f"the busiest gets {imbalance:.3g} times the mean load")
        if entropy is not None:
            evidence["router_entropy"] = entropy
            parts.append(f"the router's entropy is {100 * entropy:.0f} % of its maximum")
        if self._idlest is not None and self._idlest[1] < limits.utilization_grave:
            evidence["worst_layer"], evidence["worst_utilization"] = self._idlest
        return Verdict(
            _SUBJECT,
            active=True,
            severity="error",
            sentence=f"Routing has collapsed: only {100 * use:.0f} % of the experts get tokens, "
            f"{' and '.join(parts)}.",
            evidence=evidence,
            advice="Go back to a checkpoint from before, with a larger weight of the balancing and "
            "z losses, a lower rate for the router, or noise on its logits: a collapsed router "
            "gives the idle experts no gradient to come back by.",
        )
