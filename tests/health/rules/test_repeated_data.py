from epochal.health.rules.repeated_data import RepeatedData
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened

CLIFF = falling(300) + flat(300, falling(300)[-1] * 0.7)
EPOCHS = [n / 300 for n in range(600)]


def test_a_cliff_where_an_epoch_ends_is_a_warning() -> None:
    losses = falling(300) + flat(300, falling(300)[-1] * 0.7)
    epochs = [n / 300 for n in range(600)]
    (found,) = opened(RepeatedData, steps(losses, epoch=epochs))
    assert found.severity == "warning"
    assert found.steps is not None
    assert found.steps[0] == 300


def test_records_of_epochs_mark_the_end_as_well() -> None:
    records = [*steps(falling(300)), {"log": "epoch", "t": 1.7e9 + 299.5, "epoch": 1}]
    records += steps(flat(300, falling(300)[-1] * 0.7), first=300)
    assert len(opened(RepeatedData, records)) == 1


def test_a_small_drop_at_each_end_is_natural() -> None:
    losses = [loss * 0.97 ** (n // 300) for n, loss in enumerate(falling(1500))]
    epochs = [n / 300 for n in range(1500)]
    assert opened(RepeatedData, steps(losses, epoch=epochs)) == []


def test_a_cliff_within_an_epoch_is_not_of_its_end() -> None:
    losses = falling(200) + flat(400, falling(200)[-1] * 0.7)
    epochs = [n / 300 for n in range(600)]
    assert opened(RepeatedData, steps(losses, epoch=epochs)) == []


def test_a_rate_cut_at_the_end_of_an_epoch_explains_it() -> None:
    losses = falling(300) + flat(300, falling(300)[-1] * 0.7)
    epochs = [n / 300 for n in range(600)]
    rates = [0.1] * 300 + [0.01] * 300
    assert opened(RepeatedData, steps(losses, epoch=epochs, lr=rates)) == []


def test_a_cliff_that_noise_hides_at_first_shows_over_more_points() -> None:
    losses = flat(300, 1.0, width=0.3) + flat(300, 0.68, width=0.3, seed=2)
    epochs = [n / 300 for n in range(600)]
    (found,) = opened(RepeatedData, steps(losses, epoch=epochs))
    assert found.steps == (300, 360)


def test_noise_at_an_epochs_end_is_no_cliff() -> None:
    losses = flat(3000, 1.0, width=0.3)
    epochs = [n / 300 for n in range(3000)]
    assert opened(RepeatedData, steps(losses, epoch=epochs)) == []


def test_epochs_that_step_down_are_healthy_while_evaluations_are_no_worse() -> None:
    stands = evals(flat(24, 2.8, width=0.002), every=25)
    worse = evals([2.8] * 12 + [3.0 + 0.05 * n for n in range(12)], every=25)
    training = steps(CLIFF, epoch=EPOCHS)
    noisy = evals(flat(24, 2.8, width=0.05), every=25)
    assert opened(RepeatedData, in_order(training, stands)) == []
    assert opened(RepeatedData, in_order(training, noisy)) == []
    assert len(opened(RepeatedData, in_order(training, worse))) == 1


def test_a_loss_that_comes_back_from_a_rise_knows_nothing_by_heart() -> None:
    losses = falling(280) + flat(20, 9.0) + flat(300, 4.5)  # another task begins at step 280
    assert opened(RepeatedData, steps(losses, epoch=EPOCHS)) == []


def test_a_change_shortly_before_the_border_is_not_of_the_epoch() -> None:
    losses = falling(292) + flat(308, falling(300)[-1] * 0.7)
    assert opened(RepeatedData, steps(losses, epoch=EPOCHS)) == []


def test_one_evaluation_an_epoch_or_one_that_turns_late_is_enough() -> None:
    losses = falling(300) + [level for n in range(1, 5) for level in flat(300, 3.5 * 0.7**n)]
    training = steps(losses, epoch=[n / 300 for n in range(1500)])
    rare = evals([2.8, 3.1, 3.4, 3.7, 4.0], every=290)
    late = evals([2.8] * 14 + [2.8 + 0.1 * n for n in range(16)], every=50)
    for evaluations in (rare, late):
        assert len(opened(RepeatedData, in_order(training, evaluations))) == 1
