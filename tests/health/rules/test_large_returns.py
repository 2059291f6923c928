from epochal.health.rules.loss_scale import LargeReturns
from epochal.records import Record
from tests.health.curve_records import flat, steps
from tests.health.machine_records import opened


def playing(losses: list[float]) -> list[Record]:
    return [{**record, "m": {"return": -20.0}} for record in steps(losses)]


def test_a_loss_of_millions_with_returns_is_a_warning() -> None:
    (found,) = opened(LargeReturns, playing(flat(300, 4e7)))
    assert "Rewards" in found.sentence


def test_a_loss_of_tens_is_fine() -> None:
    assert opened(LargeReturns, playing(flat(300, 40.0))) == []


def test_a_regression_on_prices_is_fine() -> None:
    assert opened(LargeReturns, steps(flat(300, 4e9))) == []
