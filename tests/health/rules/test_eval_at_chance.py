import pytest

from epochal.health.rules.eval_at_chance import EvalAtChance
from tests.health.curve_records import evals
from tests.health.machine_records import opened


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_an_accuracy_of_one_in_ten_is_guessing_among_ten(scale: float) -> None:
    accuracies = [scale * a for a in 3 * (0.101, 0.099, 0.104, 0.1, 0.098)]
    records = evals([2.3] * 15, every=50, accuracy=accuracies)
    note, found = opened(EvalAtChance, records, config={"model": {"num_classes": 10}})
    assert (note.severity, found.severity) == ("info", "warning")
    assert "guessing among 10 classes (10 %), at 12 evaluations in a row" in found.sentence


def test_one_evaluation_at_chance_is_the_start() -> None:
    records = evals([2.3, 2.0, 1.5, 1.2, 1.0], every=50, accuracy=[0.1, 0.2, 0.4, 0.5, 0.6])
    assert opened(EvalAtChance, records, config={"num_classes": 10}) == []


def test_without_the_number_of_classes_nothing_is_known() -> None:
    assert opened(EvalAtChance, evals([2.3] * 5, every=50, accuracy=[0.1] * 5)) == []


def test_a_perfect_accuracy_is_not_one_per_cent() -> None:
    records = evals([0.01] * 5, every=50, accuracy=[0.999, 0.998, 1.0, 0.997, 0.999])
    assert opened(EvalAtChance, records, config={"num_classes": 100}) == []


def test_masks_that_overlap_with_nothing_are_found() -> None:
    records = evals([0.3] * 8, every=50, iou=[0.02, *([0.0] * 7)])
    (found,) = opened(EvalAtChance, records)
    assert "the model finds nothing" in found.sentence
    assert "labels and inputs belong together" in found.advice


def test_rare_classes_that_are_learned_late_are_left_alone() -> None:
    overlaps = [0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 0.5, 0.6]
    assert opened(EvalAtChance, evals([0.3] * 8, every=50, iou=overlaps)) == []
