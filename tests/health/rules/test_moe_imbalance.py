from epochal.health.rules.moe_imbalance import MoeImbalance
from epochal.record import Record
from tests.health.machine_records import START, noisy, opened

EIGHT = {"num_experts": 8, "num_experts_per_tok": 1}
WIDE = {"num_experts": 128, "num_experts_per_tok": 8}


def moe(values: list[float], *, use: float = 1.0) -> list[Record]:
    return [
        {
            "log": "moe",
            "t": START + n,
            "step": n,
            "load_imbalance": value,
            "expert_utilization": use,
        }
        for n, value in enumerate(values)
    ]


def experts(load: list[float], *, count: int = 6) -> list[Record]:
    even = [1 / len(load)] * len(load)
    record = {"log": "experts", "layers": ["h.0", "h.1"], "load": [even, load], "top_k": 1}
    return [{**record, "t": START + n, "step": n} for n in range(count)]


def test_a_crowded_expert_is_found() -> None:
    (found,) = opened(MoeImbalance, moe(noisy(7.0, 0.02, 40)), config=EIGHT)
    assert "8.0000 is the most there can be" in found.sentence


def test_what_is_usual_for_many_experts_is_left_alone() -> None:
    assert opened(MoeImbalance, moe(noisy(10.0, 0.05, 2000)), config=WIDE) == []


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
    (found,) = opened(MoeImbalance, moe([2.0] * 40, use=0.7), config=EIGHT)
    assert found.sentence.startswith("30 % of the experts get no tokens")


def test_the_layer_that_is_crowded_is_named() -> None:
    (found,) = opened(MoeImbalance, experts([0.9, *[0.1 / 7] * 7]))
    assert found.sentence.startswith("In h.1 expert 0 takes 90 %")


def test_natural_skew_is_left_alone() -> None:
    records = experts([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], count=100)
    assert opened(MoeImbalance, records) == []


def test_routers_may_start_unevenly() -> None:
    assert opened(MoeImbalance, moe([7.0] * 8 + noisy(1.5, 0.05, 200)), config=EIGHT) == []
