from epochal.health.rules.evaluation import Overfitting
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import opened


def test_a_rising_evaluation_under_a_falling_loss_is_a_warning() -> None:
    losses = [3 - n / 10 for n in range(10)] + [2.1 * 1.03**n for n in range(8)]
    records = in_order(steps(falling(900)), evals(losses, every=50))
    (found,) = opened(Overfitting, records)
    assert found.severity == "warning"
    assert found.steps is not None
    assert found.steps[0] in (499, 549)
    assert "Keep the checkpoint of step" in found.advice


def test_a_training_loss_that_hardly_falls_memorises_nothing() -> None:
    train = [6.42 - 0.24 * n / 900 for n in range(900)]
    losses = [6.3 - n / 100 for n in range(6)] + [6.25 * 1.03**n for n in range(12)]
    (found,) = opened(Overfitting, in_order(steps(train), evals(losses, every=50)))
    assert found.severity == "warning"
    assert "memorises" not in found.sentence


def test_an_evaluation_that_wanders_is_fine() -> None:
    losses = [2 + around for around in noise(60, 0.01)]
    assert opened(Overfitting, in_order(steps(falling(3000)), evals(losses, every=50))) == []


def test_a_small_rise_beside_a_training_that_stands_is_fine() -> None:
    losses = [1.42 - n / 50 for n in range(4)] + [1.365 + n / 120 for n in range(12)]
    stands = [1.5 - n / 1000 for n in range(150)] + [1.348 - n / 200_000 for n in range(650)]
    assert opened(Overfitting, in_order(steps(stands), evals(losses, every=50))) == []
    falls = [1.5 - n / 2000 + around for n, around in enumerate(noise(800, 0.02))]
    (found,) = opened(Overfitting, in_order(steps(falls), evals(losses, every=50)))
    assert found.severity == "warning"


def test_evaluations_that_end_a_little_above_their_best_are_fine() -> None:
    losses = [1.92 - n / 40 for n in range(5)] + [1.82 + n / 400 for n in range(16)]
    records = in_order(steps(falling(1050, floor=1.7)), evals(losses, every=50))
    assert opened(Overfitting, records) == []


def test_where_both_rise_it_is_not_overfitting() -> None:
    train = falling(500) + [2.5 + n / 100 for n in range(400)]
    losses = [3 - n / 10 for n in range(10)] + [2.1 * 1.1**n for n in range(8)]
    assert opened(Overfitting, in_order(steps(train), evals(losses, every=50))) == []


def test_a_growing_gap_alone_is_fine() -> None:
    losses = [3 * 0.99**n for n in range(40)]
    train = flat(2000, 1.0)
    assert opened(Overfitting, in_order(steps(train), evals(losses, every=50))) == []


def test_a_training_that_memorised_everything_is_noted() -> None:
    losses = [0.3 * 0.98**n for n in range(600)]
    (found,) = opened(Overfitting, in_order(steps(losses), evals([0.163] * 12, every=50)))
    assert found.severity == "info"
    assert "memorised" in found.sentence
    # Losses that are measured differently from the beginning.
    gains = [100 * losses[50 * n + 49] for n in range(12)]
    assert opened(Overfitting, in_order(steps(losses), evals(gains, every=50))) == []


def test_an_energy_that_swings_around_zero_is_no_overfitting() -> None:
    losses = [0.01 - 0.00001 * n for n in range(1000)]
    swing = [-0.01 + 0.0002 * max(0, n - 8) + 0.02 * (n == 0) for n in range(20)]
    records = in_order(steps(losses), evals(swing, every=50))
    assert opened(Overfitting, records) == []


def test_an_evaluation_that_never_improved_points_at_the_labels() -> None:
    losses = [6.1 - n / 100 for n in range(4)] + [6.07 * 1.02**n for n in range(12)]
    (found,) = opened(Overfitting, in_order(steps(falling(800)), evals(losses, every=50)))
    assert found.severity == "warning"
    assert "its own label" in found.advice
