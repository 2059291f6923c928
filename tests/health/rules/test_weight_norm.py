import math

from epochal.health.rules.weight_norm import WeightNorm
from epochal.records import Record
from tests.health.curve_records import falling, flat
from tests.health.machine_records import START, metrics, opened


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


def test_a_learned_scale_may_shrink() -> None:
    norms = [10 * 0.85**n for n in range(20)]
    for name in ("scale", "head.logit_scale", "blocks.0.gate", "log_sigma"):
        records = [metrics(100 * n, {f"params/{name}/norm": v}) for n, v in enumerate(norms)]
        assert opened(WeightNorm, records) == []


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


def learning(norms: list[float], losses: list[float], *, bias: bool = False) -> list[Record]:
    """A watched table, or layer with a bias, every twenty steps of a training."""
    records: list[Record] = []
    for n, loss in enumerate(losses):
        records.append({"log": "step", "t": START + n, "step": n, "loss": loss, "lr": 0.1})
        if n % 20 == 0:
            values = {"params/a.weight/norm": norms[n // 20], "params/b.weight/norm": 20.0}
            records.append(metrics(n, values | ({"params/a.bias/norm": 1.0} if bias else {})))
    return records


def test_tables_may_grow_while_the_loss_falls() -> None:
    losses = [max(0.2, 2.0 - n / 400) for n in range(800)]
    norms = [2.0 * 1.15**n for n in range(40)]
    assert opened(WeightNorm, learning(norms, losses)) == []
    assert opened(WeightNorm, learning(norms, flat(800, 2.0))) != []
    explodes = [2.0 * 1.6**n for n in range(40)]
    assert opened(WeightNorm, learning(explodes, losses, bias=True)) != []


def test_growth_on_a_plateau_is_a_note_until_it_is_fourfold() -> None:
    losses = [*falling(600), *flat(600, 2.1)]
    norms = [10.0] * 30 + [10 * 1.02 ** (n - 29) for n in range(30, 60)]
    found = opened(WeightNorm, learning(norms, losses, bias=True))
    assert {one.severity for one in found} <= {"info"}


def test_a_bias_that_doubles_on_a_plateau_is_left_alone() -> None:
    records = learning([20.0] * 60, [*falling(600), *flat(600, 2.1)])
    for n, record in enumerate(one for one in records if "m" in one):
        record["m"]["params/a.bias/norm"] = 2.0 * (1.0 if n < 30 else 1.02 ** (n - 29))
    assert opened(WeightNorm, records) == []


def test_a_table_that_doubles_while_the_loss_is_as_low_as_ever_is_left_alone() -> None:
    norms = [5.0] * 10 + [5.0 * 1.18**n for n in range(6)] + [13.0] * 44
    assert opened(WeightNorm, learning(norms, falling(1200), bias=True)) == []
    lost = falling(200) + flat(1000, 9.0)
    assert opened(WeightNorm, learning(norms, lost, bias=True)) != []


def test_a_bias_may_go_through_zero() -> None:
    records = learning([20.0] * 40, falling(800))
    for n, record in enumerate(one for one in records if "m" in one):
        record["m"]["params/a.bias/norm"] = abs(3.0 - 0.1 * n)
    assert opened(WeightNorm, records) == []


def test_weights_may_grow_tenfold_for_targets_in_large_units() -> None:
    """The loss has fallen by half over a window, though it has stopped for a moment."""
    losses = [20_000 * 0.995**n * (1.1 if n % 100 > 70 else 1.0) for n in range(600)]
    norms = [2.0 * 1.55 ** min(n, 12) for n in range(30)]
    assert opened(WeightNorm, learning(norms, losses, bias=True)) == []


def test_tables_may_leave_a_small_start_before_the_loss_falls() -> None:
    norms = [14.0, 14.8, 19.9, 34.6, 58.9, 79.0, 91.0, 96.9, 100.0, 101.5, 103.0]
    losses = [5.7 + 0.02 * (-1) ** n for n in range(140)] + [5.7 - 0.01 * n for n in range(60)]
    assert opened(WeightNorm, learning(norms, losses)) == []
    rises = [5.7 + 0.02 * (-1) ** n + 0.02 * n for n in range(140)]
    assert len(opened(WeightNorm, learning(norms, rises))) == 1
    assert len(opened(WeightNorm, learning(norms, losses, bias=True))) == 1
