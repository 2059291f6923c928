from epochal.health.rules.too_good import TooGood
from epochal.records import Record
from tests.health.curve_records import START, evals, falling, in_order, steps
from tests.health.data_records import epoch
from tests.health.machine_records import opened, updated


def test_a_perfect_first_evaluation_is_a_warning() -> None:
    records = in_order(steps(falling(100)), evals([0.15], every=50, accuracy=[0.999]))
    (found,) = opened(TooGood, records)
    assert found.severity == "warning"
    assert "labels among the inputs" in found.advice


def test_an_evaluation_loss_of_next_to_nothing_is_one_too() -> None:
    records = in_order(steps(falling(100)), evals([0.001], every=50))
    assert [finding.series for finding in opened(TooGood, records)] == ["eval/loss"]


def test_what_took_its_time_is_fine() -> None:
    accuracies = [0.3, 0.7, 0.9, 0.97, 0.995, 0.999]
    losses = [2.0, 1.0, 0.5, 0.2, 0.05, 0.001]
    records = in_order(steps(falling(400)), evals(losses, every=50, accuracy=accuracies))
    assert opened(TooGood, records) == []


def test_a_loss_blown_up_at_the_start_is_not_what_it_is_measured_by() -> None:
    losses = [2.31, 40.0, 900.0, 600.0, 300.0, 250.0, 240.0, 230.0, 200.0, *([2.4] * 100)]
    records = in_order(steps(losses), evals([2.41], every=50))
    assert opened(TooGood, records) == []


def test_nothing_is_too_good_while_training_is_worse_than_at_its_beginning() -> None:
    losses = [2.0, *([50.0] * 99)]
    assert opened(TooGood, in_order(steps(losses), evals([0.03], every=50))) == []


def test_an_error_that_falls_by_decades_all_along_took_its_time() -> None:
    losses = [100 * 0.95**n for n in range(200)]
    records = in_order(steps(losses), evals([losses[99], losses[199]], every=100))
    assert opened(TooGood, records) == []


def test_one_that_is_gone_at_once_did_not() -> None:
    losses = [max(100 * 0.5**n, 0.01) for n in range(200)]
    records = in_order(steps(losses), evals([0.01], every=100))
    assert len(opened(TooGood, records, config={"num_classes": 10})) == 1


def test_a_regression_may_be_learned_at_once() -> None:
    losses = [max(5 * 0.64**n, 0.0025) for n in range(200)]
    records = in_order(steps(losses), evals([0.0026, 0.0025], every=100))
    assert opened(TooGood, records) == []


def test_what_a_later_evaluation_knows_was_learned_in_between() -> None:
    accuracies = [0.93, 0.995, 0.999]
    records = in_order(steps(falling(400)), evals([0.15] * 3, every=100, accuracy=accuracies))
    assert opened(TooGood, records) == []


def test_a_first_evaluation_after_many_steps_is_late() -> None:
    records = in_order(steps(falling(1000)), evals([0.15], every=900, accuracy=[0.993]))
    assert opened(TooGood, records) == []


def test_what_was_too_good_stays_so_while_it_stays_good() -> None:
    records = in_order(steps(falling(400)), evals([0.15] * 4, every=100, accuracy=[0.999] * 4))
    assert [finding.state for finding in updated(TooGood, records)] == ["open"]


def test_within_the_first_steps_a_later_evaluation_counts_too() -> None:
    records = in_order(steps(falling(50)), evals([0.15] * 2, every=20, accuracy=[0.8, 0.999]))
    assert len(opened(TooGood, records)) == 1


def test_an_epoch_of_unknown_length_must_be_perfect() -> None:
    def epochs(accuracy: float) -> list[Record]:
        metrics = {"loss": 0.3, "val_accuracy": accuracy}
        return [{"log": "epoch", "t": START, "epoch": 1, "duration_s": 9.0, "m": metrics}]

    assert opened(TooGood, epochs(0.992)) == []
    assert len(opened(TooGood, epochs(1.0))) == 1


def test_what_is_no_number_is_not_good() -> None:
    nan = float("nan")
    records = in_order(steps(falling(100)), evals([nan], every=50, accuracy=[nan]))
    assert opened(TooGood, records) == []


def test_masks_that_are_perfect_at_once_are_found() -> None:
    records = in_order(steps([0.6] * 60, lr=1e-3), evals([0.02], every=40, iou=[0.996]))
    (found,) = opened(TooGood, records)
    assert found.series is not None
    assert found.series.endswith("iou")


def test_a_rare_class_makes_a_high_accuracy_easy() -> None:
    losses = falling(60, start=0.69, floor=0.05)
    rare = epoch(1, range(400), labels={"0": 1985, "1": 15})
    even = epoch(1, range(400), labels={"0": 1000, "1": 1000})
    told = evals([0.03], every=50, accuracy=[0.993])
    config = {"num_classes": 2}
    assert opened(TooGood, [rare, *in_order(steps(losses), told)], config=config) == []
    assert len(opened(TooGood, [even, *in_order(steps(losses), told)], config=config)) == 1


def test_one_answer_among_the_inputs_is_one_finding() -> None:
    losses = [2.3 if n < 5 else 0.01 for n in range(200)]
    told = evals([0.01, 0.008, 0.007], every=50, accuracy=[1.0, 1.0, 1.0])
    found = opened(TooGood, in_order(steps(losses), told), config={"num_classes": 10})
    assert len(found) == 1


def test_an_easy_task_is_known_early_but_by_small_margins() -> None:
    training = steps(falling(100, start=2.3, floor=1.1))
    easy = evals([0.28], every=50, accuracy=[0.992])
    given = evals([0.02], every=50, accuracy=[0.992])
    assert opened(TooGood, in_order(training, easy)) == []
    assert len(opened(TooGood, in_order(training, given))) == 1
    at_once = steps([max(2.3 * 0.5**n, 0.001) for n in range(100)])
    assert len(opened(TooGood, in_order(at_once, given))) == 1


def test_an_easy_task_without_the_label_among_its_inputs_is_fine() -> None:
    records = in_order(steps(falling(100)), evals([0.01], every=50, accuracy=[0.999]))
    targets = {"samples": 400, "classes": 4, "entropy": 1.38}
    clean = epoch(1, range(8), name="eval", targets=targets)
    assert opened(TooGood, [clean, *records]) == []
    told = {"samples": 400, "classes": 4, "features": [7]}
    assert len(opened(TooGood, [{**clean, "telling": told}, *records])) == 1
