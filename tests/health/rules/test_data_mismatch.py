from collections.abc import Sequence
from typing import Any

from epochal.health.rules.data_mismatch import DataMismatch
from epochal.records import Record
from tests.health.curve_records import evals, flat, in_order, steps
from tests.health.data_records import epoch
from tests.health.machine_records import opened

STANDS = [1.4, 1.41, 1.39, 1.4, 1.4, 1.41, 1.4, 1.39, 1.4, 1.4, 1.41, 1.4, 1.4, 1.39]


def association(correlation: float, nearest: float, *, batches: int = 64) -> dict[str, float]:
    errors = {"error": 0.04 / batches**0.5, "nearest_error": 0.06 / batches**0.5}
    return {"batches": batches, "correlation": correlation, "nearest": nearest, **errors}


def read(found: dict[str, float], *, name: str = "train", size: int = 9000) -> Record:
    figures: dict[str, Any] = {"targets": {"samples": 2000, "entropy": 1.4}, "association": found}
    return epoch(1, range(8), name=name, dataset_samples=size, **figures)


def run(data: Sequence[Record], losses: Sequence[float], train: float = 1.4) -> list[Record]:
    return [*data, *in_order(steps(flat(700, train)), evals(list(losses), every=50))]


APART = read(association(0.002, -0.003))
TOGETHER = read(association(0.4, 0.2), name="eval")


def test_training_data_without_the_association_of_the_evaluation_data_is_a_warning() -> None:
    (found,) = opened(DataMismatch, run([APART, TOGETHER], STANDS))
    assert found.severity == "warning"
    assert "Near inputs have no nearer targets in 'train' (0.0020 ± 0.0050)" in found.sentence
    assert "labels of the training data do not belong to their inputs" in found.sentence
    assert "labels belong to their inputs" in found.advice


def test_an_evaluation_without_a_loss_is_enough() -> None:
    records = [*steps(flat(300, 1.4)), APART, TOGETHER]
    assert opened(DataMismatch, records) == []
    assert len(opened(DataMismatch, [*records, epoch(3, range(8), name="eval")])) == 1


def test_targets_that_depend_on_their_inputs_are_fine() -> None:
    data = [read(association(0.05, 0.002)), TOGETHER]
    assert opened(DataMismatch, run(data, STANDS)) == []


def test_an_evaluation_loss_that_falls_shows_that_labels_belong() -> None:
    losses = [1.4 - 0.08 * n for n in range(14)]
    assert opened(DataMismatch, run([APART, TOGETHER], losses)) == []


def test_a_small_dataset_says_too_little() -> None:
    other = read(association(0.1, 0.05), name="eval")
    losses = [1 + one for one in STANDS]
    assert len(opened(DataMismatch, run([APART, other], losses, train=2.4))) == 1
    data = [read(association(0.002, -0.003), size=80), other]
    assert opened(DataMismatch, run(data, losses, train=2.4)) == []


def test_one_batch_over_and_over_says_nothing() -> None:
    same = {"batches": 64, "correlation": 0.0, "error": 0.0, "nearest": 0.0, "nearest_error": 0.0}
    assert opened(DataMismatch, run([read(same), TOGETHER], STANDS)) == []


def test_a_loss_at_what_a_constant_answer_costs_is_a_note() -> None:
    (found,) = opened(DataMismatch, run([APART], STANDS))
    assert found.severity == "info"
    assert "Always answering with the average target of 'train' costs 1.4000" in found.sentence


def test_memorised_samples_beside_evaluations_at_the_constant_are_a_warning() -> None:
    (found,) = opened(DataMismatch, run([APART], STANDS, train=0.6))
    assert found.severity == "warning"
    assert "the evaluation loss is 1.4000 and the training loss 0.5986" in found.sentence


def test_a_loss_below_the_constant_is_fine_without_an_association() -> None:
    losses = [1.3, *[1.2] * 13]
    assert opened(DataMismatch, run([APART], losses, train=1.2)) == []


def test_a_loss_in_another_unit_is_not_compared() -> None:
    losses = [20.0 + one for one in STANDS]
    assert opened(DataMismatch, run([APART], losses, train=21.4)) == []


def test_records_of_older_runs_say_nothing() -> None:
    old = [epoch(1, range(8)), epoch(1, range(8), name="eval")]
    assert opened(DataMismatch, run(old, STANDS)) == []
