from epochal.health.rules.never_fell import NeverFell
from tests.health.curve_records import falling, flat, noise, steps
from tests.health.machine_records import opened


def test_a_loss_that_stays_where_it_began_is_a_warning() -> None:
    found = opened(NeverFell, steps(flat(1500, 2.303, width=0.01)))
    assert [finding.severity for finding in found] == ["info", "warning"]
    assert found[0].evidence["points"] == 300


def test_a_loss_that_fell_is_fine() -> None:
    assert opened(NeverFell, steps(falling(2000))) == []


def test_a_loss_that_fell_at_once_and_then_no_more_is_fine() -> None:
    losses = [6 - n / 5 for n in range(20)] + flat(2000, 2.0)
    assert opened(NeverFell, steps(losses)) == []


def test_rewards_need_not_fall() -> None:
    found = opened(NeverFell, steps(noise(4000, 0.3)))
    assert [finding for finding in found if finding.severity != "info"] == []


def test_a_loss_that_fell_and_came_back_is_another_fault() -> None:
    losses = falling(200) + [2.5 + n * 0.02 for n in range(400)]
    assert opened(NeverFell, steps(losses)) == []
