import math

from epochal.health.rules.weight_norm import WeightNorm
from epochal.records import Record
from tests.health.machine_records import metrics, opened


def watched(norms: list[float], others: float = 20.0) -> list[Record]:
    return [
        metrics(100 * n, {"params/a/norm": norm, "params/b/norm": others})
        for n, norm in enumerate(norms)
    ]


def test_weights_that_blow_up_are_found() -> None:
    found, *_ = opened(WeightNorm, watched([10.0] * 10 + [10 * 1.2**n for n in range(20)]))
    assert "The weights of a grow without slowing down" in found.sentence


def test_a_slow_blow_up_is_found_too() -> None:
    found, *_ = opened(WeightNorm, watched([10 * 1.02**n for n in range(200)]))
    assert found.series == "params/a/norm"


def test_weights_that_fade_away_are_found() -> None:
    found, *_ = opened(WeightNorm, watched([10 * 0.85**n for n in range(20)]))
    assert "shrink" in found.sentence


def test_growth_like_a_root_of_time_is_healthy() -> None:
    assert opened(WeightNorm, watched([5 * math.sqrt(1 + n / 5) for n in range(500)])) == []


def test_biases_that_leave_zero_are_healthy() -> None:
    assert opened(WeightNorm, watched([0.001 * 2**n for n in range(9)], others=50.0)) == []


def test_the_norm_of_the_whole_model_is_judged_as_well() -> None:
    found, *_ = opened(WeightNorm, [metrics(n, {"weight_norm": 3 * 1.3**n}) for n in range(12)])
    assert "The weights of the model" in found.sentence


def test_weights_that_double_from_the_first_step_on_are_found() -> None:
    found, *_ = opened(WeightNorm, watched([10.0 * 2**n for n in range(10)]))
    assert "The weights of a grow without slowing down" in found.sentence
