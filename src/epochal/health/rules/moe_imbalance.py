"""Experts that share the work badly."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from epochal.format import format_number
from epochal.health.experts import (
    ImbalanceThresholds,
    LayerLoad,
    Routing,
    is_collapsed,
    layer_loads,
)
from epochal.health.finding import Severity
from epochal.health.layer_series import named
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from epochal.health.context import Context

_IMBALANCE = "moe/load_imbalance"
_UTILIZATION = "moe/expert_utilization"
_ENTROPY = "moe/router_entropy"
_AUX_LOSS = "moe/aux_loss"
_ADVICE = (
    "Raise the balancing loss's weight, or use a balancing bias; add noise to the router, lower "
    "its learning rate, and check that its logits are computed in 32 bits."
)


class MoeImbalance(Rule):
    """A load imbalance that is large for the number of experts, or moves up; idle experts.

    The imbalance is the most loaded expert over the mean. It cannot exceed experts over top-k, so
    that is what it is measured by while there are few experts. A balancing loss far above the least
    it was speaks where the load does not. All of them are silent in a collapse, which has a rule.
    """

    name = "moe-imbalance"
    group = "experts"
    meaning = "A few experts do most of the work."
    healthy = (
        "A load imbalance of 1 to 2.5 for few experts, up to 1.5 × top-k for many. More than 80 "
        "% of the experts in use."
    )
    reports = {
        "warning": (
            "The imbalance reaches the lower of 0.8 × experts / top-k (at least 3) and 2.5 × "
            "top-k (at least 10), for 100 records where the router is nearly even. Or it is 1.8 "
            "times its usual value, or rises steadily by half. "
            "Or utilisation is below 0.8 (0.5 of 8 experts or fewer). Or the balancing loss is "
            "three times its minimum while the load shows nothing."
        ),
        "error": (
            "The imbalance reaches 0.95 of experts / top-k, or twice the limit for many experts. "
            "Or utilisation is below 0.5 (0.3 of 8 experts or fewer)."
        ),
    }
    needs = (
        "Experts and top-k, from `experts` records or the configuration: `num_experts`, "
        "`num_local_experts`, `num_experts_per_tok`, `top_k`, at any depth. The load imbalance "
        "is the largest load of an expert divided by the mean. It cannot exceed experts / top-k."
    )
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"moe", "step", "experts"})
    every_rank = False
    patience = 2
    release = 5
    cooldown_steps = 100

    class Thresholds(ImbalanceThresholds):
        # Once poor, it must fall by a tenth of the bar to be well again, or noise would open it
        # anew.
        release_share: float = 0.9
        utilization: float = 0.8
        # Of few experts a router may leave half idle while the loss falls.
        utilization_few: float = 0.5
        utilization_few_grave: float = 0.3
        window: int = 50
        # Nearly twice what it was within a few records, or half as much again in a steady climb.
        doubling: float = 1.8
        window_min: int = 20
        climb: float = 1.5
        climb_blocks: int = 5
        # Moves below this imbalance are between one healthy state and another.
        move_floor: float = 1.8
        # Of few experts, one is at half of the bar within a batch or two by chance.
        few: float = 8.0
        move_share: float = 0.75
        # A router this even has busy and idle experts because batches are small, or has not decided
        # yet: a poor load counts once it has lasted for so many records.
        even: float = 0.8
        lasts: int = 100
        # The balancing loss is at its least when the load is even, and there it is its weight times
        # the layers: three times the least that was seen is far from even, whatever the weight.
        aux_factor: float = 3.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        limits = thresholds
        self._routing = Routing()
        self._recent: deque[float] = deque(maxlen=limits.recent)
        self._before: deque[float] = deque(maxlen=limits.window)
        self._ails = False
        self._poor_for = 0  # records
        self._use: deque[float] = deque(maxlen=limits.recent)
        self._entropy: deque[float] = deque(maxlen=limits.recent)
        self._aux: deque[float] = deque(maxlen=limits.window_min)
        self._least_aux: float | None = None
        self._has_collapsed = False
        self._layers = StreakCounter(needed=3)
        self._loads: dict[str, LayerLoad] = {}
        self._count = 0
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the figures of all layers together, and each layer's load where it is known."""
        if observation.kind == "experts":
            self._routing.learn(observation.values, observation.record, context.config)
            if observation.step is not None:
                self._step = observation.step
                yield from self._see_layers(observation)
            return
        names = (_IMBALANCE, _UTILIZATION, _ENTROPY, _AUX_LOSS)
        found = {name: observation.values[name] for name in names if name in observation.values}
        if not found:
            return
        self._routing.learn(observation.values, observation.record, context.config)
        self._count += 1
        if self._count > self.thresholds.skip:
            yield from self._see_figures({k: v for k, v in found.items() if math.isfinite(v)})

    def forget_from(self, step: int, context: Context) -> None:
        """Learn the usual value again."""
        self._recent.clear()
        self._before.clear()
        self._use.clear()
        self._entropy.clear()
        self._aux.clear()
        self._least_aux = None
        self._poor_for = 0
        self._layers.forget()

    # -- all layers together ----------------------------------------------------------------------

    def _see_figures(self, found: Mapping[str, float]) -> list[Verdict]:
        verdicts = []
        for name, kept in ((_UTILIZATION, self._use), (_ENTROPY, self._entropy)):
            if name in found:
                kept.append(found[name])
        if _IMBALANCE in found:
            verdict = self._see_imbalance(found[_IMBALANCE])
            self._ails = verdict is not None and verdict.active
            verdicts += [verdict] if verdict is not None else []
        use = _level(self._use)
        if _UTILIZATION in found and use is not None:
            verdicts.append(self._judge_use(use))
        if _AUX_LOSS in found:
            is_reported = any(verdict.active for verdict in verdicts)
            verdicts.append(self._see_aux(found[_AUX_LOSS], is_reported=is_reported))
        self._has_collapsed = use is not None and is_collapsed(
            use,
            imbalance=_level(self._recent),
            entropy=_level(self._entropy),
            thresholds=self.thresholds,
        )
        if self._has_collapsed:
            return [Verdict(verdict.subject, active=False) for verdict in verdicts]
        return verdicts

    def _see_aux(self, aux: float, *, is_reported: bool) -> Verdict:
        limits = self.thresholds
        self._aux.append(aux)
        least = self._least_aux
        if len(self._aux) == limits.window_min:
            usual = median(self._aux)
            self._least_aux = usual if least is None else min(least, usual)
        # Over as many records as the least: batches of few tokens are uneven by chance.
        level = median(self._aux)
        if is_reported or least is None or not 0 < limits.aux_factor * least <= level:
            return Verdict(_AUX_LOSS, active=False)
        return Verdict(
            _AUX_LOSS,
            active=True,
            sentence=f"The balancing loss is {format_number(level)}, {level / least:.3g} times the "
            f"least it was, {format_number(least)}.",
            evidence={"aux_loss": level, "least": least},
            advice="The routers' probabilities move to experts that are loaded already, unless its "
            "weight or the number of micro-steps was raised. " + _ADVICE,
        )

    def _see_imbalance(self, imbalance: float) -> Verdict | None:
        limits = self.thresholds
        if len(self._recent) == limits.recent and not self._ails:
            # What ails does not become the usual.
            self._before.append(self._recent[0])
        self._recent.append(imbalance)
        if len(self._recent) < limits.recent:
            return None
        level = median(self._recent)
        poor, grave = self._routing.bars(limits)
        severity: Severity = "error" if level >= grave else "warning"
        is_poor = level >= (poor * limits.release_share if self._ails else poor)
        self._poor_for = self._poor_for + 1 if is_poor else 0
        if is_poor and (self._poor_for >= limits.lasts or not self._is_even()):
            return self._poor(level, severity, f"from {poor:.3g} on it is poor")
        most = self._routing.largest_imbalance
        is_few = most is not None and most <= limits.few
        floor = limits.move_share * poor if is_few else limits.move_floor
        if len(self._before) < limits.window_min or level < floor or self._is_even():
            return Verdict(_IMBALANCE, active=False)
        usual = median(self._before)
        if level >= limits.doubling * usual:
            return self._poor(level, severity, f"it was {usual:.3g} before")
        if self._climbs():
            return self._poor(level, severity, "it has been rising steadily")
        return Verdict(_IMBALANCE, active=False)

    def _is_even(self) -> bool:
        """Whether the probabilities of the router are about the same for all experts."""
        entropy = _level(self._entropy)
        return entropy is not None and entropy >= self.thresholds.even

    def _climbs(self) -> bool:
        limits = self.thresholds
        values = [*self._before, *self._recent]
        if len(self._before) < limits.window:
            return False
        size = len(values) // limits.climb_blocks
        levels = [median(values[n * size : (n + 1) * size]) for n in range(limits.climb_blocks)]
        rises = all(after > before for before, after in pairwise(levels))
        return rises and levels[-1] >= limits.climb * levels[0]

    def _poor(self, level: float, severity: Severity, why: str) -> Verdict:
        most = self._routing.largest_imbalance
        evidence: dict[str, float | int | str] = {"imbalance": level}
        bound = ""
        if most is not None:
            evidence["largest"] = most
            bound = f"; the maximum is {most:.3g}"
        return Verdict(
            _IMBALANCE,
            active=True,
            severity=severity,
            sentence=f"The busiest expert gets {level:.3g} times the mean load: {why}{bound}.",
            evidence=evidence,
            advice=_ADVICE,
        )

    def _judge_use(self, use: float) -> Verdict:
        limits = self.thresholds
        is_even = self._is_even() and use >= limits.utilization_grave
        most = self._routing.largest_imbalance
        least = limits.utilization_few if most is not None and most <= limits.few else None
        if use >= (limits.utilization if least is None else least) or is_even:
            return Verdict(_UTILIZATION, active=False)
        grave = limits.utilization_grave if least is None else limits.utilization_few_grave
        return Verdict(
            _UTILIZATION,
            active=True,
            severity="error" if use < grave else "warning",
            sentence=f"{100 * (1 - use):.0f} % of the experts get no tokens.",
            evidence={"utilization": use, "healthy_from": limits.utilization},
            advice=_ADVICE,
        )

    # -- layer by layer ---------------------------------------------------------------------------

    def _see_layers(self, observation: Observation) -> Iterable[Verdict]:
        limits = self.thresholds
        poor, _ = self._routing.bars(limits)
        for load in layer_loads(observation.record):
            self._loads[load.layer] = load
            is_poor = load.imbalance >= poor or load.utilization < limits.utilization_grave
            ails = is_poor and not self._has_collapsed
            self._layers.note(load.layer, ails=ails, step=self._step)
        yield from self._layers.verdicts(_layer_subject, self._describe_layers)

    def _describe_layers(self, layers: Sequence[str]) -> Verdict:
        load, since = self._loads[layers[0]], self._layers.since(layers[0])
        return Verdict(
            _layer_subject(layers[0]),
            active=True,
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


def _level(kept: deque[float]) -> float | None:
    return median(kept) if len(kept) == kept.maxlen else None
