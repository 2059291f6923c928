"""A finding is resolved only by as much evidence as opened it, whichever rule it is of.

Each case is a run in parts: a step, an epoch, or an evaluation with the steps before it. The parts
with a fault are fed until the finding opens, then healthy ones until it is resolved. That takes at
least as many.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.health.registry import RULES
from epochal.health.rule import Rule
from epochal.records import Record
from tests.health.curve_records import START, falling, flat, noise
from tests.health.data_records import epoch
from tests.health.machine_records import GIB, noisy

Part = Sequence[Record | tuple[int, Record]]
MOST = 3000  # parts that a finding may take to open, or to be resolved


@dataclass(frozen=True)
class Case:
    """The nth part with the fault, the nth healthy one after it, and what comes before both."""

    bad: Callable[[int], Part]
    well: Callable[[int], Part]
    before: Sequence[Part] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    every_s: float = 1.0


class Replay:
    """Feeds the parts of a run to one rule; a step and a time are given to what has none."""

    def __init__(self, rule: type[Rule], case: Case) -> None:
        thresholds = {rule.name: dict(case.thresholds)}
        self._health = Health(rules=[rule], config=case.config, thresholds=thresholds)
        self._every_s = case.every_s
        self._number = self._step = 0
        for part in case.before:
            self.feed(part)
        assert not self.open, "it must open by the fault"

    @property
    def open(self) -> set[str]:
        """The ids of the open findings."""
        return {finding.id for finding in self._health.open_findings}

    def feed(self, part: Part) -> None:
        for place, entry in enumerate(part):
            rank, record = entry if isinstance(entry, tuple) else (0, entry)
            self._step += record["log"] == "step" and rank == 0
            at = self._number + place / len(part)
            stamped = {"t": START + self._every_s * at, "step": self._step, **record}
            is_telemetry = record["log"] in ("gpu", "system")
            writer = "telemetry-node" if is_telemetry else "loop" if rank == 0 else f"rank-{rank}"
            self._health.feed(stamped, rank=rank, writer=writer)
        self._number += 1
        assert not self._health.guard.faults

    def open_by(self, bad: Callable[[int], Part]) -> int:
        """How many parts open a finding."""
        for number in range(MOST):
            self.feed(bad(number))
            if self.open:
                return number + 1
        raise AssertionError("it did not open")

    def resolve_by(self, well: Callable[[int], Part]) -> int:
        """How many parts resolve the findings that are open."""
        for number in range(MOST):
            self.feed(well(number))
            if not self.open:
                return number + 1
        raise AssertionError("it was not resolved")


# -- parts -----------------------------------------------------------------------------------------


def step(loss: float = 1.0, **fields: Any) -> Part:
    return [{"log": "step", "loss": loss, **fields}]


def evaluation(loss: float, *, train: float = 1.0, count: int = 30, **metrics: float) -> Part:
    """Steps, and an evaluation after them."""
    steps = [{"log": "step", "loss": train} for _ in range(count)]
    return [*steps, {"log": "eval", "loss": loss, "m": metrics}]


def event(name: str, **fields: Any) -> Record:
    return {"log": "event", "name": name, **fields}


def watched(**values: float) -> Part:
    """A step of a watched model; ``a__b`` stands for ``a/b``."""
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return [{"log": "step", "m": named}]


def passes(dropouts: int) -> Part:
    logged = {"log": "eval", "loss": 1.0}
    return [*step(), logged, event("evaluation-passes", dropouts=dropouts, batchnorms=0)]


def shuffled(number: int) -> Part:
    return [epoch(100 + number, range(100), orders=[[4, 100, number]])]


def labelled(number: int, highest: int) -> Part:
    return [epoch(number + 1, range(40), labels={"1": 40}, label_range=[1, highest])]


def compared(number: int, first: int) -> Part:
    """An epoch of training, and one of an evaluation with samples from ``first`` on."""
    samples = range(first, first + 2000 if first else 40)
    return [epoch(number, range(100)), epoch(number, samples, name="eval")]


def seen(mode: str, std: float) -> Part:
    facts = {"at_step": 1, "mode": mode, "where": "model", "after_norm": False}
    return [event("inputs", mean=0.1, std=std, min=-3 * std, max=3 * std, **facts)]


def of_ranks(family: str, values: Sequence[float]) -> Part:
    """A metric of four ranks at one step."""
    parts: list[Record | tuple[int, Record]] = list(step())
    return [*parts, *((n, {"log": "metrics", "m": {family: one}}) for n, one in enumerate(values))]


def phases(*works: float) -> Part:
    """Phases of ranks that work for so many milliseconds, and wait for the rest."""
    known = {"log": "phases", "wall_ms": 200.0, "steps": 50}
    return [(n, {**known, "m": {"phase/sync": 200.0 - work}}) for n, work in enumerate(works)]


def waits(data_ms: float) -> Part:
    metrics = {"phase/data": data_ms, "phase/forward": 60.0}
    return [*step(), {"log": "phases", "steps": 50, "wall_ms": 60.0 + data_ms, "m": metrics}]


def clock(mhz: float, throttle: str) -> Part:
    state = {"clock": mhz, "max_clock": 1980, "gpu_util": 95.0, "throttle": throttle}
    return [{"log": "gpu", "id": 0, "interval_s": 10.0, **state}]


def steps_of(losses: Sequence[float], **fields: Any) -> list[Part]:
    return [step(loss, **fields) for loss in losses]


FALLEN = steps_of(falling(600))
LEVEL = falling(600)[-1]
FLAT = flat(MOST, LEVEL)
AROUND = noise(MOST, 0.003)
NOISY = noisy(1000, 0.03, MOST)
FLOOR = math.log1p(9 / math.e)
ADAM = [event("optimizer", at_step=0, optimizer="AdamW", parameters=6, groups=[{}])]
REWARD = [{"log": "metrics", "m": {"reward": 1.0}}]
STUCK = [2.3 - 0.02 * min(n, 20) + around for n, around in enumerate(noise(MOST, 0.01))]


# -- a case for each rule --------------------------------------------------------------------------

# By the name of a rule; what follows a comma tells several cases of one rule apart.
CASES: dict[str, Case] = {
    "nonfinite": Case(lambda n: step(math.nan), lambda n: step(), [step()] * 20),
    "log-order": Case(lambda n: step(t=START - 100 * n), lambda n: step(), [step()] * 20),
    "loss-spike": Case(lambda n: step(9 * LEVEL), lambda n: step(FLAT[n]), FALLEN),
    "plateau": Case(
        lambda n: step(FLAT[n]),
        lambda n: step(LEVEL * 0.999**n * (1 + AROUND[n])),
        steps_of([9.0 - (9.0 - LEVEL) * n / 300 for n in range(300)]),
    ),
    "never-fell": Case(
        lambda n: step(2.3 * (1 + AROUND[n])), lambda n: step(0.5 + 1.8 * 0.98**n + AROUND[n])
    ),
    "divergence": Case(lambda n: step(12 + AROUND[n]), lambda n: step(FLAT[n]), FALLEN),
    "loss-summed": Case(
        lambda n: evaluation(1.0, train=64.0), lambda n: evaluation(1.0), config={"batch_size": 64}
    ),
    "large-returns": Case(lambda n: step(4e7), lambda n: step(40.0), [REWARD]),
    "equal-rewards": Case(
        lambda n: watched(reward=0.0, reward_std=0.0), lambda n: watched(reward=0.0, reward_std=0.1)
    ),
    "policy-collapse": Case(
        lambda n: watched(reward=0.2, kl=50.0),
        lambda n: watched(reward=1.0, kl=0.1),
        [watched(reward=min(1.0, n / 50), kl=0.1) for n in range(80)],
    ),
    "gradient-explosion": Case(
        lambda n: step(9.0, norm=60.0), lambda n: step(LEVEL, norm=1.0), steps_of(FLAT, norm=1.0)
    ),
    "gradient-vanishing": Case(
        lambda n: step(2.3, norm=1e-4),
        lambda n: step(2.3, norm=1.0),
        steps_of([2.3] * 300, norm=1.0),
    ),
    "always-clipped": Case(
        lambda n: step(norm=10.0, norm_clipped=1.0), lambda n: step(norm=0.5, norm_clipped=0.5)
    ),
    "lr-too-high, thrown up": Case(
        lambda n: step([2.3, 2.4, 3.0, 30.0][n] if n < 4 else 2.4, lr=0.3),
        lambda n: step(1.0, lr=0.3),
    ),
    "lr-too-high, unusual": Case(
        lambda n: step(STUCK[n], lr=0.03), lambda n: step(2.3 * 0.998**n, lr=0.03), [ADAM]
    ),
    "lr-too-low, in a straight line": Case(
        lambda n: step(2.3 * (1 - 0.04 * n / 500) + AROUND[n], lr=1e-6),
        lambda n: step(2.2 * 0.99**n + 0.1 + AROUND[n], lr=1e-6),
    ),
    "rate-ended": Case(lambda n: step(lr=0.0), lambda n: step(lr=1e-3), [step(lr=1e-3)] * 60),
    "double-softmax": Case(
        lambda n: evaluation(FLOOR + 0.47 + 0.001 * (n % 2), count=40, accuracy=0.53),
        lambda n: evaluation(1.2, accuracy=0.53),
        config={"num_classes": 10},
    ),
    "eval-flat": Case(lambda n: evaluation(2.31071), lambda n: evaluation(2.1713 - n / 99)),
    "eval-gap": Case(
        lambda n: evaluation(2.5, train=1.2 * 0.6**n),
        lambda n: evaluation(0.3, train=0.25),
        [evaluation(2.5, train=2.0)],
    ),
    "eval-mode": Case(lambda n: passes(2), lambda n: passes(0)),
    "no-better-than-baseline": Case(
        lambda n: evaluation(2.303, train=2.303, count=50, accuracy=0.1),
        lambda n: evaluation(1.0, train=1.0, count=50, accuracy=0.6),
        config={"num_classes": 10},
    ),
    "overfitting": Case(
        lambda n: evaluation(3.0 + n / 9, train=2.0 * 0.98**n),
        lambda n: evaluation(2.0, train=1.5),
        [evaluation(3 - n / 10, train=3 - n / 10) for n in range(10)],
    ),
    "stale-batchnorm": Case(
        lambda n: watched(running_stats__a__norm=4.0),
        lambda n: watched(running_stats__a__norm=5.0 + n),
        [watched(running_stats__a__norm=4.0)],
    ),
    "too-good": Case(
        lambda n: evaluation(0.01, train=2.0, count=10, accuracy=1.0),
        lambda n: evaluation(1.0, train=1.5, count=10, accuracy=0.5),
    ),
    "data-labels": Case(
        lambda n: labelled(n, 10), lambda n: labelled(n + 9, 9), config={"num_classes": 10}
    ),
    "data-leak": Case(lambda n: compared(n + 1, 0), lambda n: compared(n + 9, 10_000 * (n + 1))),
    "data-order": Case(lambda n: [epoch(n + 2, range(100))], shuffled, [[epoch(1, range(100))]]),
    "data-order, in parts": Case(
        lambda n: [epoch(n + 2, range(100), orders=[[4, 50, 7], [8, 100, 8]])],
        lambda n: [epoch(50 + n, range(50), orders=[[4, 50, 100 + n]])],
        [[epoch(1, range(100), orders=[[4, 50, 7], [8, 100, 8]])]],
    ),
    "data-repeated": Case(
        lambda n: [epoch(n + 1, [*range(90), 5, 6, 7, 8, 9])],
        lambda n: [epoch(50 + n // 2, range(50 * (n % 2), 50 * (n % 2) + 50), ended=n % 2 == 1)],
    ),
    "data-shift": Case(
        lambda n: seen("eval", 250.0), lambda n: seen("eval", 1.0), [seen("train", 1.0)] * 3
    ),
    "data-values": Case(
        lambda n: [epoch(1, range(25), dataset_samples=100, nonfinite_samples=1, ended=False)],
        lambda n: [epoch(1 + (n + 1) // 4, range(25), dataset_samples=100, ended=False)],
    ),
    "input-scale": Case(lambda n: seen("train", 250.0), lambda n: seen("train", 1.0)),
    "dead-layer": Case(
        lambda n: watched(grads__a__norm=0.5, grads__b__norm=0.0, grads__c__norm=0.3),
        lambda n: watched(grads__a__norm=0.5, grads__b__norm=0.1, grads__c__norm=0.3),
    ),
    "dead-layer, units": Case(
        lambda n: watched(grads__a__norm=0.5, grads__a__dead=0.99),
        lambda n: watched(grads__a__norm=0.5, grads__a__dead=0.1),
    ),
    "replica-drift": Case(
        lambda n: of_ranks("params/a/norm", [10.0, 10.0, 10.0, 10.5]),
        lambda n: of_ranks("params/a/norm", [10.0] * 4),
        [of_ranks("params/a/norm", [10.0] * 4)] * 20,
    ),
    "untrained-parameters": Case(
        lambda n: watched(update_ratio__a=1e-3, update_ratio__b=0.0, grads__b__norm=0.4),
        lambda n: watched(update_ratio__a=1e-3, update_ratio__b=1e-3, grads__b__norm=0.4),
    ),
    "gpu-throttling": Case(
        lambda n: clock(1200, "thermal cap"), lambda n: clock(1975, ""), every_s=10.0
    ),
    "input-bound": Case(lambda n: waits(40.0), lambda n: waits(2.0), [waits(2.0)] * 3),
    "input-bound, between steps": Case(
        lambda n: step(duration_ms=300.0), lambda n: step(duration_ms=950.0)
    ),
    "low-sol": Case(lambda n: step(sol=40.0), lambda n: step(sol=80.0), [step(sol=80.0)] * 100),
    "straggler": Case(lambda n: phases(100, 101, 160, 99), lambda n: phases(100, 101, 102, 99)),
    "throughput-drop": Case(
        lambda n: step(tokens_per_second=0.6 * NOISY[n]),
        lambda n: step(tokens_per_second=NOISY[n]),
        [step(tokens_per_second=one) for one in NOISY[:200]],
    ),
    "memory-growth": Case(
        lambda n: [{"log": "system", "rss": 4 * GIB + 10e6 * n}],
        lambda n: [{"log": "system", "rss": 5 * GIB}],
        [step()],
        every_s=10.0,
    ),
    "moe-imbalance": Case(
        lambda n: [{"log": "moe", "load_imbalance": 7.0, "expert_utilization": 1.0}],
        lambda n: [{"log": "moe", "load_imbalance": 1.5, "expert_utilization": 1.0}],
        [[{"log": "moe", "load_imbalance": 1.5, "expert_utilization": 1.0}]] * 20,
        config={"num_experts": 8, "num_experts_per_tok": 1},
    ),
    "condition": Case(
        lambda n: step(5.0),
        lambda n: step(1.0),
        thresholds={"conditions": [{"when": "loss > 3 for 9 points"}]},
    ),
}
# These are facts of the program or of a rank, which one record settles: nothing more is needed.
CERTAIN = {"preflight", "silent-run", "training-mode"}


def rule_of(name: str) -> type[Rule]:
    return next(rule for rule in RULES if rule.name == name.partition(",")[0])


@pytest.mark.parametrize("name", CASES)
def test_recovery_takes_as_long_as_the_fault(name: str) -> None:
    case, rule = CASES[name], rule_of(name)
    replay = Replay(rule, case)
    took = replay.open_by(case.bad)
    opened = replay.open
    for number in range(took - 1):
        replay.feed(case.well(number))
        assert opened <= replay.open, f"{rule.name} was resolved by {number + 1} of {took} parts"
    replay.resolve_by(lambda number: case.well(took - 1 + number))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_that_can_resolve_a_finding_has_a_case(rule: type[Rule]) -> None:
    own = [kind for kind in rule.__mro__ if kind.__module__.startswith("epochal.health.rules")]
    source = "".join(map(inspect.getsource, own))
    can_resolve = any(call in source for call in ("Verdict(", ".verdicts(", "self.row("))
    has_case = any(rule_of(name) is rule for name in CASES) or rule.name in CERTAIN
    assert has_case or not can_resolve, f"add a case to CASES for the rule {rule.name}"
