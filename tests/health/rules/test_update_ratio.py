from collections.abc import Callable

from epochal.health.rules.update_ratio import UpdateRatio
from epochal.records import Record
from tests.health.machine_records import layers, metrics, noisy, opened, step

RATIOS = "update_ratio/{}"


def watched(ratios: list[float], *, count: int = 20, lr: float = 1e-3) -> list[Record]:
    pairs = (
        (step(100 + n, lr=lr, loss=1.0), metrics(100 + n, layers(n, RATIOS, ratios)))
        for n in range(count)
    )
    return [step(0, lr=1e-3, loss=1.0), *(record for pair in pairs for record in pair)]


def test_updates_of_a_third_of_the_weights_are_found() -> None:
    (found,) = opened(UpdateRatio, watched([1e-3, 0.33, 2e-3]))
    assert found.series == "update_ratio/b"
    assert "33 % now" in found.sentence


def test_updates_that_hardly_change_anything_are_found() -> None:
    (found,) = opened(UpdateRatio, watched([1e-7, 3e-7, 2e-7]))
    assert "Steps hardly change the weights" in found.sentence


def test_one_layer_that_lags_is_named() -> None:
    (found,) = opened(UpdateRatio, watched([1e-3, 3e-7, 2e-3]))
    assert found.sentence.startswith("b hardly changes")


def test_usual_updates_are_left_alone() -> None:
    assert opened(UpdateRatio, watched(noisy(1e-3, 0.3, 8))) == []


def test_small_updates_at_the_end_of_a_schedule_are_left_alone() -> None:
    assert opened(UpdateRatio, watched([3e-6, 8e-6, 5e-6], lr=1e-5)) == []


def test_biases_near_zero_are_left_alone() -> None:
    records = [
        metrics(n, {"update_ratio/fc.bias": 0.5, "update_ratio/fc.weight": 1e-3})
        for n in range(100)
    ]
    assert opened(UpdateRatio, records) == []


def test_a_bias_whose_gradient_is_rounding_does_not_lag() -> None:
    def record(number: int, gradient: float) -> Record:
        ratios = {"update_ratio/a.weight": 1e-3, "update_ratio/a.bias": 1e-10}
        gradients = {"grads/a.weight/norm": 0.5, "grads/a.bias/norm": gradient}
        return metrics(50 * number, {**ratios, **gradients})

    assert opened(UpdateRatio, [record(n, 2e-9) for n in range(20)]) == []
    assert len(opened(UpdateRatio, [record(n, 0.05) for n in range(20)])) == 1


def test_a_layer_that_has_left_zero_is_left_alone() -> None:
    def record(number: int, norm: float) -> Record:
        norms = {"params/a.weight/norm": 5.0, "params/b.weight/norm": norm}
        return metrics(
            number, norms | {"update_ratio/a.weight": 1e-3, "update_ratio/b.weight": 0.2}
        )

    assert opened(UpdateRatio, [record(n, 0.001 + 0.2 * n) for n in range(20)]) == []
    assert len(opened(UpdateRatio, [record(n, 3.0) for n in range(20)])) == 1


def first_steps(
    ratio: Callable[[int], float], losses: Callable[[int], float], *, later_norm: float = 6.0
) -> list[Record]:
    """Every tenth step watched, of four weights with biases that start near zero."""
    records: list[Record] = []
    for n in range(600):
        records.append(step(n, lr=1e-3, loss=losses(n)))
        if n % 10 == 0:
            values = {f"update_ratio/{one}.weight": ratio(n) for one in "abcd"}
            values |= {f"update_ratio/{one}.bias": 0.05 for one in "abcd"}
            norm = later_norm if n else 6.0
            values |= {f"params/{one}.weight/norm": norm for one in "abcd"}
            records.append(metrics(n, values))
    return records


def test_weights_that_hardly_change_are_found_beside_biases_that_do() -> None:
    (found,) = opened(UpdateRatio, first_steps(lambda n: 8e-5, lambda n: 2.0))
    assert "Steps hardly change the weights: from step 0 to step 4" in found.sentence
    assert opened(UpdateRatio, first_steps(lambda n: 3e-4, lambda n: 2.0)) == []


def test_updates_that_shrink_as_a_training_converges_are_left_alone() -> None:
    assert opened(UpdateRatio, first_steps(lambda n: 0.01 * 0.99**n, lambda n: 2.0)) == []


def test_large_updates_of_weights_that_have_grown_are_fine_while_the_loss_falls() -> None:
    learns = first_steps(lambda n: 0.2, lambda n: 4 / (1 + n / 50), later_norm=30.0)
    assert opened(UpdateRatio, learns) == []
    stands = first_steps(lambda n: 0.2, lambda n: 4.0, later_norm=30.0)
    assert len(opened(UpdateRatio, stands)) == 1


def test_updates_that_stop_late_are_found() -> None:
    def ratio(n: int) -> float:
        return 1e-3 if n < 400 else 1e-8

    records = first_steps(ratio, lambda n: 2.0)
    for record in records:
        if "m" in record:
            record["m"] = {k: v for k, v in record["m"].items() if "bias" not in k}
    (found,) = opened(UpdateRatio, records)
    assert "Steps no longer change the weights" in found.sentence
