import math
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.health.rules.experts import MoeImbalance, layer_loads
from epochal.records import Record
from tests.health.machine_records import START, noisy, opened, updated

EIGHT = {"num_experts": 8, "num_experts_per_tok": 1}
WIDE = {"num_experts": 128, "num_experts_per_tok": 8}


def moe(imbalance: list[float], **fields: Any) -> list[Record]:
    """Records with an imbalance each; a list among the fields has a value for each record."""
    return [
        {
            "log": "moe",
            "t": START + n,
            "step": n,
            "load_imbalance": value,
            "expert_utilization": 1.0,
            **{name: each[n] if isinstance(each, list) else each for name, each in fields.items()},
        }
        for n, value in enumerate(imbalance)
    ]


def experts(load: list[float], *, count: int = 6) -> list[Record]:
    even = [1 / len(load)] * len(load)
    record = {"log": "experts", "layers": ["h.0", "h.1"], "load": [even, load], "top_k": 1}
    return [{**record, "t": START + n, "step": n} for n in range(count)]


@pytest.mark.parametrize(
    ("config", "healthy", "poor", "grave"),
    [
        (EIGHT, 4.5, 7.0, 7.9),
        ({"model": {"num_local_experts": 8, "top_k": 2}}, 2.5, 3.5, 3.95),
        ({"model.n_routed_experts": 64, "model.moe_top_k": 4}, 6.0, 11.0, None),
        ({"num_experts": 128, "top_k": 4}, 6.0, 11.0, 24.0),
        (WIDE, 9.0, 14.0, None),
        ({"num_experts": 256, "num_experts_per_tok": 8}, 12.0, 24.0, None),
        ({}, 2.5, 6.0, 25.0),
        ({"num_experts": 8, "top_k": 50}, 2.5, 6.0, 25.0),  # the top-k of sampling text
    ],
)
def test_the_limit_depends_on_experts_and_choices(
    config: dict[str, Any], healthy: float, poor: float, grave: float | None
) -> None:
    assert opened(MoeImbalance, moe(noisy(healthy, 0.02, 600)), config=config) == []
    (found,) = opened(MoeImbalance, moe(noisy(poor, 0.005, 60)), config=config)
    assert (found.series, found.severity) == ("moe/load_imbalance", "warning")
    if grave is not None:
        (found,) = opened(MoeImbalance, moe(noisy(grave, 0.005, 60)), config=config)
        assert found.severity == "error"


def test_an_imbalance_near_the_limit_is_one_finding() -> None:
    config = {"num_experts": 256, "num_experts_per_tok": 8}
    assert len(opened(MoeImbalance, moe(noisy(20.0, 0.03, 1500)), config=config)) == 1


def test_a_router_that_uses_few_experts_has_collapsed() -> None:
    (found,) = opened(MoeImbalance, moe([2.0] * 120, expert_utilization=0.4), config=WIDE)
    assert (found.severity, found.evidence) == ("error", {"utilization": 0.4, "imbalance": 2.0})
    # A router may try its experts one after the other at first. Of few experts half may be idle.
    assert opened(MoeImbalance, moe([2.0] * 90, expert_utilization=0.4), config=WIDE) == []
    few = moe(noisy(2.0, 0.02, 60), expert_utilization=0.5)
    assert opened(MoeImbalance, few, config=EIGHT) == []


@pytest.mark.parametrize(("name", "level"), [("aux_loss", 5.0), ("z_loss", 0.5)])
def test_large_losses_of_the_router_are_found(name: str, level: float) -> None:
    (alone,) = opened(MoeImbalance, [{**one, name: level} for one in moe([2.8] * 40)])
    assert (alone.series, alone.severity) == (f"moe/{name}", "warning")
    (even,) = opened(MoeImbalance, moe([1.5] * 40, **{name: level}))
    assert even.severity == "info"
    assert opened(MoeImbalance, moe([1.5] * 40, **{name: level / 50})) == []


def test_a_balancing_loss_that_follows_the_load_is_not_reported_as_well() -> None:
    aux = noisy(0.01, 0.05, 100) + noisy(0.05, 0.05, 100)
    records = moe(noisy(1.5, 0.05, 100) + noisy(7.0, 0.05, 100), aux_loss=aux)
    (found,) = opened(MoeImbalance, records, config=EIGHT)
    assert found.series == "moe/load_imbalance"


def test_values_that_are_not_numbers_say_nothing_of_the_load() -> None:
    values = noisy(0.05, 0.05, 100) + [math.nan] * 50
    assert opened(MoeImbalance, moe(values, aux_loss=values), config=EIGHT) == []


def test_routers_may_start_unevenly_and_take_time_to_decide() -> None:
    assert opened(MoeImbalance, moe([7.0] * 8 + noisy(1.5, 0.05, 200)), config=EIGHT) == []
    undecided = noisy(6.6, 0.01, 60) + noisy(2.0, 0.05, 100)
    assert opened(MoeImbalance, moe(undecided, router_entropy=0.9), config=EIGHT) == []
    lasting = noisy(6.6, 0.01, 160)
    assert opened(MoeImbalance, moe(lasting, router_entropy=0.9), config=EIGHT) != []


def collapsing(length: int, *, at: int, entropy: float = 0.05) -> list[Record]:
    return moe(
        [1.8 if n < at else 7.0 for n in range(length)],
        expert_utilization=[1.0 if n < at else 0.25 for n in range(length)],
        router_entropy=[0.6 if n < at else entropy for n in range(length)],
    )


def test_a_sudden_collapse_is_one_error_of_all_rules() -> None:
    load = [0.875, 0.125, *[0.0] * 6]
    records = collapsing(120, at=60) + experts(load, count=120)[60::10]
    health = Health(config=EIGHT)
    news = [f for one in sorted(records, key=lambda r: r["t"]) for f in health.feed(one)]
    (found,) = [finding for finding in news if finding.state == "open"]
    assert (found.rule, found.severity) == ("moe-imbalance", "error")
    assert "collapsed: only 25 % of the experts" in found.sentence
    (grown,) = health.open_findings
    assert grown.evidence["imbalance"] == 7.0


def test_a_collapse_names_the_layer_that_uses_least() -> None:
    (found,) = opened(MoeImbalance, [*experts([1.0, *[0.0] * 7], count=1), *collapsing(30, at=0)])
    assert found.evidence["worst_layer"] == "h.1"


def test_a_router_that_has_not_decided_yet_may_settle() -> None:
    assert opened(MoeImbalance, collapsing(60, at=0, entropy=0.9), config=EIGHT) == []
    assert len(opened(MoeImbalance, collapsing(200, at=0, entropy=0.9), config=EIGHT)) == 1


def test_a_sure_router_that_uses_all_experts_is_healthy() -> None:
    assert opened(MoeImbalance, moe([2.0] * 500, router_entropy=0.1)) == []


def test_step_records_are_checked_as_well_and_the_finding_closes() -> None:
    records = [
        {
            "log": "step",
            "t": START + n,
            "step": n,
            "moe_expert_utilization": 0.2 if n < 60 else 1.0,
            "moe_load_imbalance": 5.0 if n < 60 else 1.2,
        }
        for n in range(100)
    ]
    assert [f.state for f in updated(MoeImbalance, records)] == ["open", "closed"]


def test_a_crowded_layer_is_named() -> None:
    (found,) = opened(MoeImbalance, experts([0.9, *[0.1 / 7] * 7]))
    assert found.sentence.startswith("In h.1 expert 0 takes 90 %")
    natural = experts([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], count=100)
    assert opened(MoeImbalance, natural) == []


@pytest.mark.parametrize("load", [None, [None], [[]], [["x", "y"]], [[0.0, 0.0]], [[None, None]]])
def test_what_cannot_be_understood_is_left_out(load: object) -> None:
    assert layer_loads({"log": "experts", "layers": ["a"], "load": load}) == []
