import math

import pytest

from epochal.health.rules.moe_imbalance import MoeImbalance
from epochal.records import Record
from tests.health.machine_records import START, noisy, opened

EIGHT = {"num_experts": 8, "num_experts_per_tok": 1}
WIDE = {"num_experts": 128, "num_experts_per_tok": 8}


def moe(values: list[float], *, use: float = 1.0, entropy: float | None = None) -> list[Record]:
    return [
        {
            "log": "moe",
            "t": START + n,
            "step": n,
            "load_imbalance": value,
            "expert_utilization": use,
            **({} if entropy is None else {"router_entropy": entropy}),
        }
        for n, value in enumerate(values)
    ]


def experts(load: list[float], *, count: int = 6) -> list[Record]:
    even = [1 / len(load)] * len(load)
    record = {"log": "experts", "layers": ["h.0", "h.1"], "load": [even, load], "top_k": 1}
    return [{**record, "t": START + n, "step": n} for n in range(count)]


def test_a_crowded_expert_is_found() -> None:
    (found,) = opened(MoeImbalance, moe(noisy(7.0, 0.02, 40)), config=EIGHT)
    assert "; the maximum is 8." in found.sentence


def test_what_is_usual_for_many_experts_is_left_alone() -> None:
    assert opened(MoeImbalance, moe(noisy(10.0, 0.05, 2000)), config=WIDE) == []


@pytest.mark.parametrize(
    ("experts", "top_k", "imbalance"), [(64, 4, 11), (128, 4, 11), (256, 8, 24)]
)
def test_many_experts_are_not_measured_by_the_most_there_can_be(
    experts: int, top_k: int, imbalance: float
) -> None:
    config = {"num_experts": experts, "num_experts_per_tok": top_k}
    (found,) = opened(MoeImbalance, moe(noisy(imbalance, 0.03, 600)), config=config)
    assert found.severity == "warning"
    healthy = moe(noisy(1.5 * top_k, 0.05, 2000))
    assert opened(MoeImbalance, healthy, config=config) == []


def test_three_quarters_of_the_tokens_in_one_of_many_experts_is_grave() -> None:
    config = {"num_experts": 128, "num_experts_per_tok": 4}
    (found,) = opened(MoeImbalance, moe(noisy(24.0, 0.03, 40)), config=config)
    assert found.severity == "error"


def test_an_imbalance_at_the_bar_is_one_finding() -> None:
    config = {"num_experts": 256, "num_experts_per_tok": 8}
    assert len(opened(MoeImbalance, moe(noisy(20.0, 0.03, 1500)), config=config)) == 1


def test_a_doubling_is_found_below_the_bar() -> None:
    values = noisy(2.0, 0.05, 100) + noisy(4.5, 0.05, 20)
    (found,) = opened(MoeImbalance, moe(values), config=WIDE)
    assert "before" in found.sentence


def test_a_doubling_does_not_become_usual() -> None:
    values = noisy(2.0, 0.05, 100) + noisy(4.5, 0.05, 500)
    assert len(opened(MoeImbalance, moe(values), config=WIDE)) == 1


def test_a_steady_climb_is_found() -> None:
    values = [2.0 + 0.04 * n for n in range(120)]
    found, *_ = opened(MoeImbalance, moe(values), config=WIDE)
    assert "rising steadily" in found.sentence


def test_idle_experts_are_found() -> None:
    (found,) = opened(MoeImbalance, moe([2.0] * 40, use=0.7), config=WIDE)
    assert found.sentence.startswith("30 % of the experts get no tokens")


def with_aux(values: list[float], imbalance: list[float]) -> list[Record]:
    records = moe(imbalance)
    return [{**record, "aux_loss": aux} for record, aux in zip(records, values, strict=True)]


@pytest.mark.parametrize("length", [1, 600])
def test_a_balancing_loss_that_grows_is_found_where_the_load_says_nothing(length: int) -> None:
    growth = [min(50.0, 1 + 49 * max(0, n - 200) / length) for n in range(1000)]
    aux = [noise * times for noise, times in zip(noisy(0.01, 0.05, 1000), growth, strict=True)]
    (found,) = opened(MoeImbalance, with_aux(aux, noisy(1.5, 0.05, 1000)), config=EIGHT)
    assert found.series == "moe/aux_loss"
    assert "times the least it was" in found.sentence


def test_a_balancing_loss_that_only_follows_the_load_is_not_told_of_as_well() -> None:
    aux = noisy(0.01, 0.05, 100) + noisy(0.05, 0.05, 100)
    records = with_aux(aux, noisy(1.5, 0.05, 100) + noisy(7.0, 0.05, 100))
    (found,) = opened(MoeImbalance, records, config=EIGHT)
    assert found.series == "moe/load_imbalance"


def test_a_balancing_loss_may_double_as_experts_specialise() -> None:
    aux = [noise * min(2.0, 1 + n / 500) for n, noise in enumerate(noisy(0.01, 0.1, 2000))]
    assert opened(MoeImbalance, with_aux(aux, noisy(1.5, 0.05, 2000)), config=EIGHT) == []


def test_a_balancing_loss_of_few_tokens_varies() -> None:
    aux = noisy(0.0103, 0.02, 100) + noisy(0.027, 0.12, 900)
    assert opened(MoeImbalance, with_aux(aux, noisy(1.5, 0.05, 1000)), config=EIGHT) == []


def test_a_collapse_is_left_to_its_own_rule() -> None:
    records = [
        *with_aux([0.01] * 50, [1.5] * 50),
        *({**record, "expert_utilization": 0.25} for record in with_aux([0.04] * 80, [6.0] * 80)),
    ]
    load = [0.75, 0.25, *[0.0] * 6]
    collapsed = [{**one, "t": START + n, "step": n} for n, one in enumerate(records)]
    collapsed += [{**experts(load)[0], "t": START + n, "step": n} for n in range(60, 130, 10)]
    collapsed.sort(key=lambda record: record["t"])
    assert opened(MoeImbalance, collapsed, config=EIGHT) == []


def test_figures_that_are_no_numbers_say_nothing_of_the_load() -> None:
    values = noisy(1.5, 0.05, 100) + [math.nan] * 50
    assert opened(MoeImbalance, with_aux(values, values), config=EIGHT) == []


def test_the_layer_that_is_crowded_is_named() -> None:
    (found,) = opened(MoeImbalance, experts([0.9, *[0.1 / 7] * 7]))
    assert found.sentence.startswith("In h.1 expert 0 takes 90 %")


def test_natural_skew_is_left_alone() -> None:
    records = experts([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], count=100)
    assert opened(MoeImbalance, records) == []


def test_routers_may_start_unevenly() -> None:
    assert opened(MoeImbalance, moe([7.0] * 8 + noisy(1.5, 0.05, 200)), config=EIGHT) == []


def test_a_router_that_has_not_decided_yet_may_crowd_one_expert_for_a_while() -> None:
    for_a_while = moe([*noisy(6.6, 0.01, 60), *noisy(2.0, 0.05, 100)], entropy=0.9)
    assert opened(MoeImbalance, for_a_while, config=EIGHT) == []
    assert opened(MoeImbalance, moe(noisy(6.6, 0.01, 60), entropy=0.4), config=EIGHT) != []
    assert opened(MoeImbalance, moe(noisy(6.6, 0.01, 160), entropy=0.9), config=EIGHT) != []


def test_of_few_experts_half_may_be_idle() -> None:
    assert opened(MoeImbalance, moe(noisy(2.0, 0.02, 60), use=0.5), config=EIGHT) == []
    few = opened(MoeImbalance, moe(noisy(2.1, 0.02, 60), use=0.4), config=EIGHT)
    assert [one.severity for one in few] == ["warning"]
