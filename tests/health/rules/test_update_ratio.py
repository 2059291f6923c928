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
    (found,) = opened(UpdateRatio, watched([1e-3, 0.33, 2e-3], count=60))
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


def test_large_updates_of_a_table_are_fine_while_the_loss_falls() -> None:
    # A table of a few rows beside a large one, as of the relations of a knowledge graph.
    def run(losses: list[float]) -> list[Record]:
        records: list[Record] = []
        for n, loss in enumerate(losses):
            records.append(step(n, lr=0.1, loss=loss))
            if n % 20 == 0:
                ratios = {"update_ratio/names.weight": 0.04, "update_ratio/verbs.weight": 0.15}
                norms = {"params/names.weight/norm": 90.0, "params/verbs.weight/norm": 6.5}
                records.append(metrics(n, ratios | norms))
        return records

    falls = [5.7 - 0.004 * n + around for n, around in enumerate(noisy(0.05, 1.0, 400))]
    assert opened(UpdateRatio, run(falls)) == []
    # As low as ever: larger steps would do no harm.
    stays = [
        max(4.0, value) + around for value, around in zip(falls, noisy(0.05, 1.0, 400), strict=True)
    ]
    assert opened(UpdateRatio, run(stays)) == []
    (found,) = opened(UpdateRatio, run([5.7 + around for around in noisy(0.05, 1.0, 400)]))
    assert "Each step changes verbs.weight" in found.sentence
    rises = [max(4.0, value) if n < 300 else 6.0 for n, value in enumerate(falls + falls)]
    assert len(opened(UpdateRatio, run(rises))) == 1


def test_tables_that_leave_a_small_start_may_take_large_steps() -> None:
    # The loss of products of tables falls late and slowly at first.
    def loss(n: int) -> float:
        return 5.7 - 0.008 * max(n - 50, 0)

    records: list[Record] = []
    for n in range(300):
        records.append(step(n, lr=0.1, loss=loss(n) + 0.03 * (-1) ** n))
        if n % 20 == 0:
            ratios = {"update_ratio/names.weight": 0.2, "update_ratio/verbs.weight": 0.25}
            grown = {"params/names.weight/norm": 14.0 + n / 2, "params/verbs.weight/norm": 3.0 + n}
            records.append(metrics(n, ratios | grown))
    assert opened(UpdateRatio, records) == []


def test_updates_that_stop_late_are_found() -> None:
    def ratio(n: int) -> float:
        return 1e-3 if n < 400 else 1e-8

    records = first_steps(ratio, lambda n: 2.0)
    for record in records:
        if "m" in record:
            record["m"] = {k: v for k, v in record["m"].items() if "bias" not in k}
    (found,) = opened(UpdateRatio, records)
    assert "Steps no longer change the weights" in found.sentence


def test_small_updates_are_too_small_while_the_loss_falls_in_a_straight_line() -> None:
    def run(losses: list[float], *, warm_up: int = 1) -> list[Record]:
        records = []
        for n, loss in enumerate(losses):
            records.append(step(n, lr=1e-4 * min(1.0, (n + 1) / warm_up), loss=loss))
            if n % 10 == 0:
                records.append(metrics(n, layers(n, RATIOS, [2e-4, 2e-4, 3e-4])))
        return records

    straight = [2.8 - 0.003 * n + around for n, around in enumerate(noisy(0.02, 1.0, 300))]
    (found,) = opened(UpdateRatio, run(straight))
    assert "Raise the learning rate" in found.advice
    assert opened(UpdateRatio, run(straight, warm_up=300)) == []
    (found,) = opened(UpdateRatio, run(straight, warm_up=100))
    assert "from step 100 to" in found.sentence
    bent = [1 + 1.8 * 0.98**n + around for n, around in enumerate(noisy(0.02, 1.0, 300))]
    assert opened(UpdateRatio, run(bent)) == []


def test_an_expert_without_tokens_does_not_lag() -> None:
    def record(number: int, *, idle: str) -> Record:
        names = [f"{idle}.{n}.{part}" for n in range(4) for part in ("w1", "w2")]
        ratios = {f"update_ratio/{one}": 1e-9 if ".2." in one else 1e-3 for one in names}
        return metrics(50 * number, ratios)

    assert opened(UpdateRatio, [record(n, idle="moe.experts") for n in range(20)]) == []
    assert len(opened(UpdateRatio, [record(n, idle="layers") for n in range(20)])) == 1
