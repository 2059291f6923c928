import pytest

from epochal.health.experts import ImbalanceThresholds, Routing, layer_loads


def routing(config: dict[str, object]) -> Routing:
    known = Routing()
    known.learn({}, {"log": "moe"}, config)
    return known


@pytest.mark.parametrize(
    "config",
    [
        {"num_experts": 8, "num_experts_per_tok": 2},
        {"model": {"num_local_experts": 8, "top_k": 2}},
        {"model.n_routed_experts": 8, "model.moe_top_k": 2},
    ],
)
def test_experts_are_found_in_a_configuration(config: dict[str, object]) -> None:
    assert routing(config).largest_imbalance == 4


def test_experts_are_counted_from_their_use() -> None:
    known = Routing()
    values = {"moe/active_experts": 6.0, "moe/expert_utilization": 0.75}
    known.learn(values, {"log": "moe"}, {"top_k": 2})
    assert known.largest_imbalance == 4


def test_the_top_k_of_sampling_is_not_that_of_a_router() -> None:
    assert routing({"num_experts": 8, "top_k": 50}).largest_imbalance is None


@pytest.mark.parametrize(
    ("experts", "top_k"), [(4, 2), (8, 1), (8, 2), (64, 4), (128, 4), (128, 8), (256, 8), (8, 8)]
)
def test_bars_can_be_reached(experts: int, top_k: int) -> None:
    poor, grave = routing({"num_experts": experts, "top_k": top_k}).bars(ImbalanceThresholds())
    assert 1 <= poor <= grave <= experts / top_k


@pytest.mark.parametrize(
    ("experts", "top_k", "expected"),
    [(8, 2, 3.2), (64, 4, 10.0), (128, 4, 10.0), (128, 8, 12.8), (256, 8, 20.0)],
)
def test_an_imbalance_is_poor_by_experts_and_choices(
    experts: int, top_k: int, expected: float
) -> None:
    poor, _ = routing({"num_experts": experts, "top_k": top_k}).bars(ImbalanceThresholds())
    assert poor == pytest.approx(expected)


def test_a_layer_tells_its_busiest_expert() -> None:
    record = {"log": "experts", "layers": ["a"], "load": [[0.1, 0.6, 0.3, 0.0]], "top_k": 1}
    (load,) = layer_loads(record)
    assert (load.layer, load.busiest, load.utilization) == ("a", 1, 0.75)
    assert load.imbalance == pytest.approx(2.4)


@pytest.mark.parametrize("load", [None, [None], [[]], [["x", "y"]], [[0.0, 0.0]], [[None, None]]])
def test_what_cannot_be_understood_is_left_out(load: object) -> None:
    assert layer_loads({"log": "experts", "layers": ["a"], "load": load}) == []
