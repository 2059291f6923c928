import math

from epochal.health.rules.double_softmax import DoubleSoftmax
from tests.health.curve_records import evals, flat, in_order, steps
from tests.health.machine_records import opened

ACCURACIES = [0.3, 0.45, 0.5, 0.53, 0.53, 0.54]
FLOOR = math.log(1 + 9 / math.e)


def test_a_loss_that_the_accuracy_decides_is_a_warning() -> None:
    losses = [FLOOR + 1 - accuracy + 0.01 for accuracy in ACCURACIES]
    records = evals(losses, every=50, accuracy=ACCURACIES)
    (found,) = opened(DoubleSoftmax, records, config={"num_classes": 10})
    assert "softmax" in found.sentence


def test_a_loss_that_falls_further_is_fine() -> None:
    records = evals([2.0, 1.6, 1.4, 1.3, 1.25, 1.2], every=50, accuracy=ACCURACIES)
    assert opened(DoubleSoftmax, records, config={"num_classes": 10}) == []


def test_guessing_is_no_double_softmax() -> None:
    records = evals([2.30] * 8, every=50, accuracy=[0.12] * 8)
    assert opened(DoubleSoftmax, records, config={"num_classes": 10}) == []


def test_first_losses_that_all_guess_tell_the_number_of_classes() -> None:
    train = steps([3.178 + 0.001 * (n % 3) for n in range(20)] + flat(400, 2.95, width=0.01))
    expected = [math.log1p(23 / math.e) + 1 - share for share in (0.3, 0.31, 0.3, 0.3, 0.31, 0.3)]
    shares = [0.3, 0.31, 0.3, 0.3, 0.31, 0.3]
    (found,) = opened(DoubleSoftmax, in_order(train, evals(expected, every=50, accuracy=shares)))
    assert "24 classes" in found.sentence
    # Logits make first losses that differ.
    rough = steps([3.178 + 0.1 * (n % 3) for n in range(20)] + flat(400, 2.95, width=0.01))
    assert opened(DoubleSoftmax, in_order(rough, evals(expected, every=50, accuracy=shares))) == []


def test_a_loss_at_the_floor_is_noted_without_an_accuracy() -> None:
    train = steps([5.546 - 0.001 * n for n in range(20)] + flat(400, 4.6, width=0.005))
    floor = math.log1p(255 / math.e)
    (found,) = opened(DoubleSoftmax, in_order(train, evals([floor + 0.05] * 8, every=50)))
    assert found.severity == "info"
    assert "softmax before the loss" in found.sentence
    assert opened(DoubleSoftmax, in_order(train, evals([floor - 0.1] * 8, every=50))) == []


def test_a_model_that_is_as_sure_as_it_is_right_is_a_warning_too() -> None:
    accuracies = [0.34, 0.64, 0.74, 0.83, 0.87, 0.88, 0.89]
    losses = [2.14, 1.92, 1.80, 1.75, 1.69, 1.67, 1.66]
    records = evals(losses, every=50, accuracy=accuracies)
    (found,) = opened(DoubleSoftmax, records, config={"num_classes": 10})
    assert "It cannot fall below 1.46" in found.sentence


def test_a_model_that_is_unsure_of_few_answers_is_fine() -> None:
    # With an accuracy of 30 % logits may cost as much.
    records = evals([2.24] * 8, every=50, accuracy=[0.3] * 8)
    assert opened(DoubleSoftmax, records, config={"num_classes": 10}) == []


def test_a_loss_that_passes_by_within_a_few_steps_is_fine() -> None:
    accuracies = [0.73, 0.74, 0.75, 0.76, 0.77, 0.78]
    losses = [FLOOR + 1 - accuracy + 0.02 for accuracy in accuracies]
    records = evals(losses, every=5, accuracy=accuracies)
    assert opened(DoubleSoftmax, records, config={"num_classes": 10}) == []


def test_a_loss_that_logits_of_that_accuracy_have_too_is_fine() -> None:
    records = evals([1.338] * 8, every=50, accuracy=[0.4] * 8)
    assert opened(DoubleSoftmax, records, config={"num_classes": 4}) == []
