"""Rules on the sign of a loss, and on its scale."""

import math
from typing import Any

import pytest

from epochal.health.rules.loss_scale import LargeReturns, LossSign, LossSummed
from epochal.records import Record
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened

CLASSES = {"num_classes": 10}


def played(records: list[Record]) -> list[Record]:
    return [{**record, "m": {"return": -20.0}} for record in records]


def grown(start: float, by: float, norms_by: float) -> list[Record]:
    """A loss and a norm that grow by a factor each step."""
    norms = [0.5 * norms_by**n for n in range(60)]
    return steps([start * by**n for n in range(60)], norm=norms)


def test_a_loss_that_is_the_negative_of_the_evaluation_is_an_error() -> None:
    losses = steps([-value for value in flat(200, 2.3)])
    (found,) = opened(LossSign, in_order(losses, evals([2.3, 2.31, 2.33, 2.36], every=50)))
    assert (found.rule, found.severity, found.evidence["eval_loss"]) == ("loss-sign", "error", 2.31)


def test_a_loss_that_falls_without_end_is_an_error_with_classes() -> None:
    (found,) = opened(LossSign, grown(-2.3, 1.08, 1.1))
    assert found.severity == "warning"
    (sure,) = opened(LossSign, grown(-2.3, 1.08, 1.1), config=CLASSES)
    assert sure.severity == "error"
    assert sure.steps is not None
    assert found.steps is not None
    assert sure.steps[1] < found.steps[1]


def test_a_density_may_fall_below_zero() -> None:
    slower = [-0.5 - 12 * math.log1p(n / 100) for n in range(600)]
    norms = [0.5 * (1 + n / 20) for n in range(600)]
    assert opened(LossSign, steps(slower, norm=norms)) == []
    assert opened(LossSign, grown(-0.3, 1.03, 1.04)) == []
    assert len(opened(LossSign, grown(-0.3, 1.03, 1.04), config=CLASSES)) == 1
    likelihood = steps([value - 9 for value in falling(400)], norm=1.0)
    assert opened(LossSign, in_order(likelihood, evals([-3.5, -4.0, -5.0, -6.0], every=100))) == []


def test_the_loss_of_a_game_may_too_unless_it_explodes() -> None:
    assert opened(LossSign, played(grown(-1.0, 1.05, 1.06))) == []
    assert len(opened(LossSign, played(grown(-1.0, 1.3, 1.3)))) == 1


MEANS = [falling(450)[n * 50 + 49] for n in range(9)]


def summed(samples: int, **columns: Any) -> list[Record]:
    losses = [samples * value for value in falling(250)]
    return in_order(steps(losses, **columns), evals(MEANS[:5], every=50))


def test_a_loss_that_is_a_batch_times_the_evaluation_is_a_warning() -> None:
    (found,) = opened(LossSummed, summed(64), config={"train": {"batch_size": 64}})
    assert (found.rule, found.severity, found.evidence["batch_size"]) == (
        "loss-summed",
        "warning",
        64,
    )
    assert found.evidence["ratio"] == pytest.approx(64, rel=0.1)
    assert len(opened(LossSummed, summed(32, step_tokens=32))) == 1


def test_two_means_are_fine_and_so_is_a_ratio_that_comes_late() -> None:
    assert opened(LossSummed, summed(1), config={"batch_size": 64}) == []
    late = evals([5.0, 3.0, 1.0, 0.3, 0.1, 0.06, 0.05, 0.05, 0.05], every=50)
    assert opened(LossSummed, in_order(steps(falling(450)), late), config={"batch_size": 64}) == []


def test_a_loss_of_millions_with_returns_is_a_warning() -> None:
    (found,) = opened(LargeReturns, played(steps(flat(300, 4e7))))
    assert (found.rule, found.severity) == ("large-returns", "warning")
    assert found.evidence["size"] == pytest.approx(math.sqrt(4e7), rel=0.1)


def test_a_loss_of_tens_and_a_regression_on_prices_are_fine() -> None:
    assert opened(LargeReturns, played(steps(flat(300, 40.0)))) == []
    assert opened(LargeReturns, steps(flat(300, 4e9))) == []
