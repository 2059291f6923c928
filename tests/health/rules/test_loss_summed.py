from epochal.health.rules.loss_scale import LossSummed
from tests.health.curve_records import evals, falling, in_order, steps
from tests.health.machine_records import opened

EVALS = [5.0, 4.0, 3.4, 3.0, 2.9]
FELL = [falling(250)[n * 50 + 49] for n in range(5)]


def test_a_loss_that_is_a_batch_times_the_evaluation_is_a_warning() -> None:
    losses = [64 * value for value in falling(250)]
    records = in_order(steps(losses), evals(FELL, every=50))
    (found,) = opened(LossSummed, records, config={"train": {"batch_size": 64}})
    assert "as many times as a batch has samples (64)" in found.sentence


def test_the_samples_of_a_step_are_known_too() -> None:
    losses = [32 * value for value in falling(250)]
    records = in_order(steps(losses, step_tokens=32), evals(FELL, every=50))
    assert len(opened(LossSummed, records)) == 1


def test_two_means_are_fine() -> None:
    records = in_order(steps(falling(250)), evals(EVALS, every=50))
    assert opened(LossSummed, records, config={"batch_size": 64}) == []


def test_a_ratio_that_comes_late_is_no_sum() -> None:
    figures = [5.0, 3.0, 1.0, 0.3, 0.1, 0.06, 0.05, 0.05, 0.05]
    records = in_order(steps(falling(450)), evals(figures, every=50))
    assert opened(LossSummed, records, config={"batch_size": 64}) == []
