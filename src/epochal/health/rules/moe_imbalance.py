"""Experts that share the work badly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from epochal.format import format_number
from epochal.health.ailing import Ailing
from epochal.health.experts import LayerLoad, Routing, layer_loads
from epochal.health.finding import Severity
from epochal.health.layer_series import named
from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epochal.health.context import Context

_IMBALANCE = "moe/load_imbalance"
_UTILIZATION = "moe/expert_utilization"
_ADVICE = (
    "Raise the balancing loss's weight, or use a balancing bias; add noise to the router, lower "
    "its learning rate, and check that its logits are computed in 32 bits."
)


class MoeImbalance(Rule):
    """A load imbalance that is large for the number of experts, or moves up; idle experts.

    The imbalance is the most loaded expert over the mean. It cannot exceed experts over top-k, so
    that is what it is measured by.
    """

    name: ClassVar[str] = "moe-imbalance"
    kinds: ClassVar[frozenset[str]] = frozenset({"moe", "step", "experts"})
    every_rank: ClassVar[bool] = False
    patience = 2
    release = 5
    cooldown_steps = 100

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        limits = thresholds.machine
        self._routing = Routing()
        self._recent: deque[float] = deque(maxlen=limits.moe_recent)
        self._before: deque[float] = deque(maxlen=limits.moe_window)
        self._ails = False
        self._use: deque[float] = deque(maxlen=limits.moe_recent)
        self._layers = Ailing(needed=3)
        self._loads: dict[str, LayerLoad] = {}
        self._count = 0
        self._step = 0

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Judge the figures of all layers together, and each layer's load where it is known."""
        if seen.kind == "experts":
            self._routing.learn(seen.values, seen.record, context.config)
            if seen.step is not None:
                self._step = seen.step
                yield from self._see_layers(seen)
            return
        imbalance, use = seen.values.get(_IMBALANCE), seen.values.get(_UTILIZATION)
        if imbalance is None and use is None:
            return
        self._routing.learn(seen.values, seen.record, context.config)
        self._count += 1
        if self._count <= self.thresholds.machine.moe_skip:
            return
        if imbalance is not None:
            verdict = self._see_imbalance(imbalance)
            self._ails = verdict is not None and verdict.holds
            if verdict is not None:
                yield verdict
        if use is not None:
            self._use.append(use)
            if len(self._use) == self.thresholds.machine.moe_recent:
                yield self._judge_use(median(self._use))

    def cut(self, step: int, context: Context) -> None:
        """Learn anew what is usual."""
        self._recent.clear()
        self._before.clear()
        self._use.clear()
        self._layers.forget()

    # -- all layers together ----------------------------------------------------------------------

    def _see_imbalance(self, imbalance: float) -> Verdict | None:
        limits = self.thresholds.machine
        if len(self._recent) == limits.moe_recent and not self._ails:
            # What ails does not become the usual.
            self._before.append(self._recent[0])
        self._recent.append(imbalance)
        if len(self._recent) < limits.moe_recent:
            return None
        level = median(self._recent)
        poor, grave = self._routing.bars(limits)
        severity: Severity = "error" if level >= grave else "warning"
        if level >= poor:
            return self._poor(level, severity, f"from {format_number(poor)} on it is poor")
        if len(self._before) < limits.moe_window_min or level < limits.moe_move_floor:
            return Verdict(_IMBALANCE, holds=False)
        usual = median(self._before)
        if level >= limits.moe_doubling * usual:
            return self._poor(level, severity, f"it was {format_number(usual)} before")
        if self._climbs():
            return self._poor(level, severity, "it has been rising steadily")
        return Verdict(_IMBALANCE, holds=False)

    def _climbs(self) -> bool:
        limits = self.thresholds.machine
        values = [*self._before, *self._recent]
        if len(self._before) < limits.moe_window:
            return False
        size = len(values) // limits.moe_climb_blocks
        levels = [median(values[n * size : (n + 1) * size]) for n in range(limits.moe_climb_blocks)]
        rises = all(after > before for before, after in pairwise(levels))
        return rises and levels[-1] >= limits.moe_climb * levels[0]

    def _poor(self, level: float, severity: Severity, why: str) -> Verdict:
        most = self._routing.largest_imbalance
        evidence: dict[str, float | int | str] = {"imbalance": level}
        bound = ""
        if most is not None:
            evidence["largest"] = most
            bound = f"; {format_number(most)} is the most there can be"
        return Verdict(
            _IMBALANCE,
            holds=True,
            severity=severity,
            sentence=f"The busiest expert gets {format_number(level)} times the mean load: "
            f"{why}{bound}.",
            evidence=evidence,
            advice=_ADVICE,
        )

    def _judge_use(self, use: float) -> Verdict:
        limits = self.thresholds.machine
        if use >= limits.moe_utilization:
            return Verdict(_UTILIZATION, holds=False)
        return Verdict(
            _UTILIZATION,
            holds=True,
            severity="error" if use < limits.moe_utilization_grave else "warning",
            sentence=f"{100 * (1 - use):.0f} % of the experts get no tokens at all.",
            evidence={"utilization": use, "healthy_from": limits.moe_utilization},
            advice=_ADVICE,
        )

    # -- layer by layer ---------------------------------------------------------------------------

    def _see_layers(self, seen: Seen) -> Iterable[Verdict]:
        limits = self.thresholds.machine
        poor, _ = self._routing.bars(limits)
        for load in layer_loads(seen.record):
            self._loads[load.layer] = load
            ails = load.imbalance >= poor or load.utilization < limits.moe_utilization_grave
            self._layers.note(load.layer, ails=ails, step=self._step)
        yield from self._layers.verdicts(_layer_subject, self._describe_layers)

    def _describe_layers(self, layers: Sequence[str]) -> Verdict:
        load, since = self._loads[layers[0]], self._layers.since(layers[0])
        return Verdict(
            _layer_subject(layers[0]),
            holds=True,
            sentence=f"In {named(layers)} expert {load.busiest} takes "
            f"{100 * load.busiest_share:.0f} % of the assignments, and "
            f"{100 * (1 - load.utilization):.0f} % of the experts none, since step {since:,}.",
            steps=(since, self._step),
            evidence={
                "imbalance": load.imbalance,
                "utilization": load.utilization,
                "layers": len(layers),
            },
            advice=_ADVICE,
        )


def _layer_subject(layer: str) -> str:
    return f"experts of {layer}"
