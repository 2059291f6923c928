"""Whatever a run records, every rule answers: no record, field or value is too odd for them."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.base.guard import Fault, Guard
from epochal.health.engine import Health
from epochal.health.registry import RULES
from epochal.records import KINDS, ROLE_GUESSES, Record
from epochal.records.kinds.events import EVENTS

ODD = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, 1e12)
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"num_classes": 10, "num_experts": 8, "num_experts_per_tok": 2, "world_size": 2},
    {
        "num_classes": "many",
        "num_experts": None,
        "top_k": 5e-324,
        "model": {"num_experts": 10**400},
    },
)
WRITERS = (("loop", 0), ("loop", 0), ("rank-0001", 1), ("telemetry-node", 0), ("findings", 0))
NAMES = (
    *(name for names in ROLE_GUESSES.values() for name in names),
    *("params/a/norm", "grads/a/norm", "update_ratio/a", "accuracy", "auc", "eval/accuracy"),
    *("phase/data", "phase/forward", "moe/load_imbalance", "a", ""),
)


class Strict(Guard):
    """A guard that passes every fault on."""

    def note(self, member: str, error: BaseException, *, where: str = "") -> Fault:
        raise AssertionError(member) from error


FIELDS = {kind.name: sorted(kind.by_name) for kind in KINDS.values()}
EVENT_NAMES = [event.name for event in EVENTS]
FACTS = sorted({field.name for event in EVENTS for field in event.fields})
numbers = st.one_of(
    st.sampled_from((*ODD, 2**63, -(2**63), 10**400, -(10**400), 1, 8, 0.5)),
    st.floats(),
    st.integers(),
)
plain = st.one_of(
    numbers, numbers, st.none(), st.booleans(), st.sampled_from(NAMES), st.text(max_size=5)
)
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)
metrics = st.one_of(st.dictionaries(st.sampled_from(NAMES), values, max_size=5), values)
words = st.dictionaries(
    st.sampled_from((*NAMES, *FIELDS["step"])), st.sampled_from(("nan", "inf", "-inf")), max_size=3
)


@st.composite
def odd_records(draw: st.DrawFn) -> Record:
    """One record of any kind with any of its fields, and any value in each."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    fields = (*FIELDS[kind], *NAMES, *(FACTS if kind == "event" else ()))
    record: Record = {"log": kind, **draw(st.dictionaries(st.sampled_from(fields), values))}
    if kind == "event":
        record["name"] = draw(st.sampled_from(EVENT_NAMES))
    for field, strategy in (("t", values), ("step", values), ("m", metrics), ("nonfinite", words)):
        if draw(st.booleans()):
            record[field] = draw(strategy)
    return record


def usual_records(chance: random.Random, *, oddness: float, count: int) -> Iterator[Record]:
    """A run as it might be, some of its numbers odd."""
    t, step, attempt = 1e9, 0, 1

    def some(value: float) -> float:
        return chance.choice(ODD) if chance.random() < oddness else value

    def table(**given: float) -> Record:
        return {name: some(value) for name, value in given.items()}

    yield {"log": "run", "t": t, "attempt": 1, "config": {"lr": some(1e-3)}}
    for n in range(count):
        t += chance.choice((0.01, 1, 1, 60)) - 10 * (chance.random() < 0.01)
        step += chance.choice((1, 1, 1, 0, 10))
        common = {"t": t, "step": step}
        kind = chance.choice(("step",) * 8 + ("eval", "metrics", "gpu", "system", "moe", "rest"))
        if kind == "step":
            taken = table(loss=3 * 0.99**n, norm=1, lr=1e-3, duration_ms=1e3, epoch=n / 50, sol=50)
            taken |= table(norm_clipped=1, tokens_per_second=1e5, step_tokens=1e5, moe_z_loss=1)
            yield {"log": "step", **common, **taken}
        elif kind == "eval":
            yield {"log": "eval", **common, "loss": some(2), "m": table(accuracy=0.5)}
        elif kind == "metrics":
            names = ("params/a/norm", "grads/a/norm", "update_ratio/a", "auc")
            yield {"log": "metrics", **common, "m": {name: some(1) for name in names}}
        elif kind == "gpu":
            taken = table(gpu_util=90, clock=1500, max_clock=1980, dram_used=1e10, dram_total=8e10)
            taken |= table(dram_free=1e10, temperature=80, interval_s=10)
            yield {"log": "gpu", "t": t, "id": 0, "throttle": "power cap", **taken}
        elif kind == "system":
            taken = table(cpu_pct=3, ram_used=1e9, ram_total=6e9, rss=1e9, children_rss=1e8)
            yield {"log": "system", "t": t, **taken}
        elif kind == "moe":
            taken = table(aux_loss=0.01, load_imbalance=1.2, expert_utilization=1, active_experts=8)
            yield {"log": "moe", **common, **taken, **table(router_entropy=1, load_cv=0.1)}
        else:
            load = [[some(0.125) for _ in range(8)]]
            yield {"log": "experts", **common, "layers": ["a"], "load": load, "top_k": 2}
            phases = {"phase/data": some(10), "phase/forward": some(40)}
            yield {"log": "phases", **common, "steps": 50, "wall_ms": some(100), "m": phases}
            epoch = {"epoch": n // 50, "duration_s": some(60), "m": table(loss=1, val_loss=2)}
            yield {"log": "epoch", "t": t, **epoch}
            if chance.random() < 0.3:
                attempt += 1
                step = max(0, step - chance.randint(0, 100))
                yield {"log": "run", "t": t, "attempt": attempt}
                yield {"log": "resume", "t": t, "attempt": attempt, "step": step}
    yield {"log": "finish", "t": t, "status": "finished", "last_step": step}


def judge(
    health: Health, records: Iterator[tuple[Record, str, int]], chance: random.Random
) -> None:
    for record, writer, rank in records:
        health.feed(record, rank=rank, writer=writer)
        if chance.random() < 0.05:
            health.tick(health.context.now + 300 * chance.random())
            health.renotify()
    health.close()
    health.renotify(is_over=True)
    for finding in health.open_findings:
        assert finding.sentence
        assert finding.record()["log"] == "finding"


@pytest.mark.parametrize("oddness", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_no_number_is_too_odd(seed: int, oddness: float) -> None:
    chance = random.Random(seed)
    health = Health(config=chance.choice(CONFIGS), guard=Strict())
    records = (
        (record, *chance.choice(WRITERS))
        for record in usual_records(chance, oddness=oddness, count=400)
    )
    judge(health, records, chance)


@given(
    seed=st.integers(0, 2**32),
    odd=st.lists(st.tuples(odd_records(), st.sampled_from(WRITERS)), max_size=12),
    config=st.one_of(st.sampled_from(CONFIGS), st.dictionaries(st.sampled_from(NAMES), values)),
)
def test_no_record_is_too_odd(
    seed: int, odd: list[tuple[Record, tuple[str, int]]], config: dict[str, Any]
) -> None:
    chance = random.Random(seed)
    health = Health(config=config, guard=Strict())
    stream = [(record, "loop", 0) for record in usual_records(chance, oddness=0.02, count=60)]
    for record, (writer, rank) in odd:
        stream.insert(chance.randrange(len(stream)), (record, writer, rank))
    judge(health, iter(stream), chance)


@given(st.lists(st.tuples(odd_records(), st.sampled_from(WRITERS)), max_size=20))
def test_no_record_is_too_odd_for_a_rule_alone(odd: list[tuple[Record, tuple[str, int]]]) -> None:
    for rule in RULES:
        health = Health(rules=[rule], guard=Strict())
        judge(health, ((record, *writer) for record, writer in odd), random.Random(0))


def test_experts_that_cannot_be_counted_are_no_fault() -> None:
    health = Health(guard=Strict())
    record = {"log": "moe", "t": 1.0, "step": 0, "expert_utilization": 5e-324, "active_experts": 8}
    assert health.feed(record) == []
