from epochal.health.rules.learning_rate import RateEnded
from tests.health.curve_records import flat, steps
from tests.health.machine_records import opened


def test_a_rate_of_0_for_most_of_the_run_is_a_warning() -> None:
    rates = [1e-3] * 40 + [0.0] * 200
    (found,) = opened(RateEnded, steps(flat(240, 2.0), lr=rates))
    assert (found.severity, found.series) == ("warning", "train/lr")
    assert "has been 0 since step 40" in found.sentence


def test_a_schedule_in_epochs_that_steps_by_batches_is_found() -> None:
    rates = [0.1 * 0.1 ** (n // 8) for n in range(200)]
    (found,) = opened(RateEnded, steps(flat(200, 2.0), lr=rates))
    assert "at step 32" in found.sentence
    assert "unit" in found.advice


def test_a_rate_that_never_was_above_0_is_found() -> None:
    (found,) = opened(RateEnded, steps(flat(60, 2.0), lr=0.0))
    assert "has been 0 since step 0" in found.sentence


def test_a_schedule_that_ends_with_the_run_is_fine() -> None:
    rates = [max(0.0, 1e-3 * (1 - n / 950)) for n in range(1000)]
    assert opened(RateEnded, steps(flat(1000, 2.0), lr=rates)) == []


def test_a_warm_up_from_0_is_fine() -> None:
    rates = [0.0] * 20 + [1e-3] * 100
    assert opened(RateEnded, steps(flat(120, 2.0), lr=rates)) == []
