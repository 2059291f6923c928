import math

from epochal.health.rules.loss_scale import LossSign
from tests.health.curve_records import evals, falling, flat, in_order, steps
from tests.health.machine_records import opened


def test_a_loss_that_is_the_negative_of_the_evaluation_is_an_error() -> None:
    losses = [-value for value in flat(200, 2.3)]
    records = in_order(steps(losses), evals([2.3, 2.31, 2.33, 2.36], every=50))
    (found,) = opened(LossSign, records)
    assert found.severity == "error"
    assert "sign" in found.sentence


def test_a_loss_that_falls_without_end_is_an_error_where_it_cannot_be_negative() -> None:
    losses = [-2.3 * 1.08**n for n in range(60)]
    norms = [0.5 * 1.1**n for n in range(60)]
    (found,) = opened(LossSign, steps(losses, norm=norms))
    assert (found.severity, "faster and faster" in found.sentence) == ("warning", True)
    (sure,) = opened(LossSign, steps(losses, norm=norms), config={"num_classes": 10})
    assert sure.severity == "error"


def test_a_density_that_falls_ever_more_slowly_is_fine() -> None:
    losses = [-0.5 - 12 * math.log1p(n / 100) for n in range(600)]
    norms = [0.5 * (1 + n / 20) for n in range(600)]
    assert opened(LossSign, steps(losses, norm=norms)) == []


def test_a_likelihood_that_improves_is_fine() -> None:
    losses = [value - 9 for value in falling(400)]
    records = in_order(steps(losses, norm=1.0), evals([-3.5, -4.0, -5.0, -6.0], every=100))
    assert opened(LossSign, records) == []


def test_a_policy_gradient_is_fine() -> None:
    losses = [-1.0 * 1.05**n for n in range(60)]
    records = steps(losses, norm=[1.06**n for n in range(60)])
    for record in records:
        record["m"] = {"return": 3.0}
    assert opened(LossSign, records) == []


def test_a_density_that_sharpens_is_fine() -> None:
    losses = [-0.3 * 1.03**n for n in range(60)]
    norms = [0.5 * 1.04**n for n in range(60)]
    assert opened(LossSign, steps(losses, norm=norms)) == []
    assert len(opened(LossSign, steps(losses, norm=norms), config={"num_classes": 10})) == 1


def test_a_game_whose_loss_explodes_below_zero_has_the_wrong_sign() -> None:
    losses = [-1.0 * 1.3**n for n in range(60)]
    records = steps(losses, norm=[1.3**n for n in range(60)])
    for record in records:
        record["m"] = {"return": 3.0}
    assert len(opened(LossSign, records)) == 1
