from collections.abc import Callable

from epochal.health.rules.steps_too_large import StepsTooLarge
from epochal.records import Record
from tests.health.machine_records import metrics, opened, step


def watched(growth: list[float], *, with_bias: bool = True) -> list[Record]:
    """A watched model of four layers every sixteen steps, whose weights grow."""
    records = []
    for n, factor in enumerate(growth):
        norms = {f"params/{layer}.weight/norm": factor * 6.0 for layer in "abcd"}
        if with_bias:
            norms |= {f"params/{layer}.bias/norm": 0.5 for layer in "abcd"}
        records += [metrics(16 * n, norms)]
        records += [step(16 * n + k, lr=0.03, loss=2.0) for k in range(0, 16, 4)]
    return records


def test_weights_that_double_at_once_are_a_warning() -> None:
    (found,) = opened(StepsTooLarge, watched([1.0, 2.4, 2.6, 2.8, 2.8, 2.8, 2.8, 2.8]))
    assert "the learning rate of 0.03" in found.sentence
    assert "the loss is no lower than before" in found.sentence


def test_weights_that_grow_slowly_are_fine() -> None:
    assert opened(StepsTooLarge, watched([1.0 + 0.02 * n for n in range(30)])) == []


def test_weights_before_a_normalisation_may_grow_more() -> None:
    growth = [1.0 + 0.15 * n for n in range(10)]
    assert opened(StepsTooLarge, watched(growth, with_bias=False)) == []
    assert opened(StepsTooLarge, watched(growth)) != []


def test_a_model_that_is_watched_late_is_not_judged() -> None:
    late = watched([1.0, *[2.4] * 9])
    before = [step(n, loss=2.0) for n in range(-40, -20)]
    assert opened(StepsTooLarge, [*before, *late]) == []


def test_weights_that_were_made_small_by_hand_may_grow_more() -> None:
    small = watched([1.0, 1.2, 1.5, 1.8, 2.1, 2.1, 2.1, 2.1])
    for record in small:
        for name in record.get("m", {}):
            if name.endswith("bias/norm"):
                record["m"][name] = 0.0
    assert opened(StepsTooLarge, small) == []
    assert opened(StepsTooLarge, watched([1.0, 1.2, 1.5, 1.8, 2.1, 2.1, 2.1, 2.1])) != []


def test_tables_of_vectors_start_at_any_size() -> None:
    growth = [1.0, 8.0, *[20.0] * 6]
    tables = watched(growth, with_bias=False)
    assert opened(StepsTooLarge, tables) == []
    for record in tables:
        if "m" in record:
            record["m"] |= {"params/n.weight/norm": 8.0, "params/n.bias/norm": 0.0}
    assert opened(StepsTooLarge, tables) != []


def learning(losses: Callable[[int], float], growth: float) -> list[Record]:
    """A watched model whose weights grow evenly in 160 steps, beside a loss of each step."""
    records = []
    for n in range(161):
        records.append(step(n, lr=0.05, loss=losses(n)))
        if n % 8 == 0:
            norm = 6.0 * (1 + (growth - 1) * n / 160)
            norms = {f"params/{one}.weight/norm": norm for one in "abcd"}
            norms |= {f"params/{one}.bias/norm": 0.5 for one in "abcd"}
            records.append(metrics(n, norms))
    return records


def test_weights_may_double_while_the_loss_falls() -> None:
    assert opened(StepsTooLarge, learning(lambda n: 10 * 0.97**n + 0.5, 2.8)) == []
    assert opened(StepsTooLarge, learning(lambda n: 2.3 - 0.006 * n, 2.0)) == []


def test_a_loss_that_fell_at_once_and_stands_does_not_excuse_large_steps() -> None:
    (found,) = opened(StepsTooLarge, learning(lambda n: 3.0 if n < 10 else 1.0 - n / 2000, 2.8))
    assert "the loss is still 9" in found.sentence


def with_updates(ratios: list[float], *, left: float = 0.999) -> list[Record]:
    """A watched model whose steps are these shares of its weights; what each leaves of the loss."""
    records = []
    for n, ratio in enumerate(ratios):
        norms = {f"params/{layer}.weight/norm": 6.0 for layer in "abcd"}
        norms |= {f"update_ratio/{layer}.weight": ratio for layer in "abcd"}
        records += [metrics(16 * n, norms)]
        records += [step(16 * n + k, lr=0.09, loss=2.0 * left**n) for k in range(0, 16, 4)]
    return records


def test_a_first_step_of_half_the_weights_is_noted() -> None:
    (found,) = opened(StepsTooLarge, with_updates([0.45, *[0.01] * 20]))
    assert found.severity == "info"
    assert "The first step changes the weights by 45 %" in found.sentence
    assert opened(StepsTooLarge, with_updates([0.15, *[0.01] * 20])) == []


def test_the_first_step_of_rmsprop_is_ten_times_its_rate() -> None:
    config = {"optimizer": "RMSprop"}
    assert opened(StepsTooLarge, with_updates([1.4, *[0.03] * 20]), config=config) == []
    assert opened(StepsTooLarge, with_updates([5.0, *[0.03] * 20]), config=config) != []


def test_weights_grow_more_by_the_first_steps_of_rmsprop() -> None:
    config, growth = {"optimizer": "RMSprop"}, [1.0, 3.4, 3.6, *[3.8] * 5]
    assert opened(StepsTooLarge, watched(growth)) != []
    assert opened(StepsTooLarge, watched(growth), config=config) == []
    assert opened(StepsTooLarge, watched([1.0, *[6.0] * 7]), config=config) != []


def test_the_first_step_of_adagrad_is_its_largest() -> None:
    config = {"optimizer": "Adagrad"}
    assert opened(StepsTooLarge, with_updates([0.6, *[0.03] * 20]), config=config) == []
    assert opened(StepsTooLarge, with_updates([1.8, *[0.03] * 20]), config=config) != []


def test_first_steps_that_all_are_large_are_noted() -> None:
    (found,) = opened(StepsTooLarge, with_updates([0.01, *[0.08] * 20]))
    assert "may be too high" in found.sentence
    assert opened(StepsTooLarge, with_updates([0.01, *[0.03] * 20])) == []
    assert opened(StepsTooLarge, with_updates([0.01, *[0.08] * 20], left=0.96)) == []


def test_a_large_first_step_after_which_the_loss_soon_falls_by_half_is_fine() -> None:
    assert opened(StepsTooLarge, with_updates([0.45, *[0.01] * 20], left=0.9)) == []
