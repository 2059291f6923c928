"""Whatever a run records, the rules answer: no number is too odd for them."""

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.record import Record

ODD = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, 1e12)
CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"num_classes": 10, "num_experts": 8, "num_experts_per_tok": 2, "world_size": 2},
    {"num_classes": "many", "num_experts": None},
)


def records(chance: random.Random, *, oddness: float, count: int) -> Iterator[Record]:
    t, step = 1e9, 0

    def some(value: float) -> float:
        return chance.choice(ODD) if chance.random() < oddness else value

    def table(**values: float) -> Record:
        return {name: some(value) for name, value in values.items()}

    for n in range(count):
        t += chance.choice((0.01, 1, 1, 60)) - 10 * (chance.random() < 0.01)
        step += chance.choice((1, 1, 1, 0, 10))
        common = {"t": t, "step": step}
        kind = chance.choice(("step",) * 8 + ("eval", "metrics", "gpu", "system", "moe", "rest"))
        if kind == "step":
            values = table(loss=3 * 0.99**n, norm=1, lr=1e-3, duration_ms=1e3, epoch=n / 50, sol=50)
            yield {"log": "step", **common, **values}
        elif kind == "eval":
            yield {"log": "eval", **common, "loss": some(2), "m": table(accuracy=0.5)}
        elif kind == "metrics":
            names = ("params/a/norm", "grads/a/norm", "update_ratio/a", "auc")
            yield {"log": "metrics", **common, "m": {name: some(1) for name in names}}
        elif kind == "gpu":
            values = table(gpu_util=90, clock=1500, max_clock=1980, dram_used=1e10, dram_total=8e10)
            yield {"log": "gpu", "t": t, "id": 0, "throttle": "power cap", **values}
        elif kind == "system":
            yield {
                "log": "system",
                "t": t,
                **table(cpu_pct=3, ram_used=1e9, ram_total=6e9, rss=1e9),
            }
        elif kind == "moe":
            values = table(aux_loss=0.01, load_imbalance=1.2, expert_utilization=1)
            yield {"log": "moe", **common, **values}
        else:
            load = [[some(0.125) for _ in range(8)]]
            yield {"log": "experts", **common, "layers": ["a"], "load": load, "top_k": 2}
            phases = {"phase/data": some(10), "phase/forward": some(40)}
            yield {"log": "phases", **common, "steps": 50, "wall_ms": some(100), "m": phases}
            step = max(0, step - chance.randint(0, 100))
            yield {"log": "start", "t": t, "attempt": 2, "resume_step": step}


@pytest.mark.parametrize("oddness", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_no_record_is_too_odd(seed: int, oddness: float) -> None:
    chance = random.Random(seed)
    health = Health(config=chance.choice(CONFIGS))
    for record in records(chance, oddness=oddness, count=400):
        rank = chance.choice((0, 0, 0, 1))
        health.feed(record, rank=rank, writer=f"rank-{rank:04d}")
        if chance.random() < 0.05:
            health.tick(record["t"] + 300 * chance.random())
    health.close()
    for finding in health.open_findings:
        assert finding.sentence
        assert finding.record()["log"] == "finding"
