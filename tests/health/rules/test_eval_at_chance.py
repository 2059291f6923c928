import pytest

from epochal.health.rules.eval_at_chance import EvalAtChance
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_an_accuracy_of_one_in_ten_is_guessing_among_ten(scale: float) -> None:
    accuracies = [scale * a for a in 3 * (0.101, 0.099, 0.104, 0.1, 0.098)]
    records = evals([2.3] * 15, every=50, accuracy=accuracies)
    (found,) = opened(EvalAtChance, records, config={"model": {"num_classes": 10}})
    assert found.severity == "warning"
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


def test_a_model_that_learns_late_is_not_said_to_guess() -> None:
    """At chance for eight evaluations while the loss stands, and then it learns."""
    losses = flat(400, 1.609, width=0.01) + falling(600, start=1.6, floor=0.1)
    accuracies = [*([0.2] * 8), *(min(1.0, 0.2 + 0.1 * n) for n in range(12))]
    records = in_order(steps(losses), evals([1.6] * 20, every=50, accuracy=accuracies))
    assert opened(EvalAtChance, records, config={"num_classes": 5}) == []


def test_the_training_loss_stands_beside_an_accuracy_at_chance() -> None:
    records = in_order(
        steps(flat(800, 1.609, width=0.01)), evals([1.61] * 16, every=50, accuracy=[0.2] * 16)
    )
    (found,) = opened(EvalAtChance, records, config={"num_classes": 5})
    assert "The training loss was 1.6" in found.sentence
    assert found.steps is not None
    assert found.steps[0] == 599


def test_a_hundred_classes_leave_a_guess_more_room() -> None:
    """Four thousand samples stray by a sixth of the chance."""
    records = evals([4.6] * 20, every=50, accuracy=10 * [0.0103, 0.0138])
    assert len(opened(EvalAtChance, records, config={"num_classes": 100})) == 1
    learns = [0.01 + 0.002 * n for n in range(20)]
    records = evals([4.6] * 20, every=50, accuracy=learns)
    assert opened(EvalAtChance, records, config={"num_classes": 100}) == []
