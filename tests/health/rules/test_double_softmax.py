import math

from epochal.health.rules.double_softmax import DoubleSoftmax
from tests.health.curve_records import evals
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
