import math

import pytest

from epochal.health.rules.loss import NeverFell
from tests.health.curve_records import evals, falling, flat, in_order, noise, steps
from tests.health.machine_records import opened


def test_a_loss_that_stays_where_it_began_is_a_warning() -> None:
    found = opened(NeverFell, steps(flat(1500, 2.303, width=0.01)))
    assert [finding.severity for finding in found] == ["warning"]
    assert found[0].evidence["points"] == 600


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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("floor", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("per_step", [0.6, 0.9, 0.96, 0.99])
def test_a_regression_falls_however_fast_it_does(per_step: float, floor: float, seed: int) -> None:
    """Squared errors of small batches scatter by a quarter of their level."""
    around = noise(600, 0.25, seed)
    losses = [(5 * per_step**n + floor) * math.exp(share) for n, share in enumerate(around)]
    assert opened(NeverFell, steps(losses)) == []


@pytest.mark.slow
def test_its_figures_never_contradict_it() -> None:
    for seed in range(20):
        spiked = [2.0 * math.exp(share) for share in noise(900, 0.3, seed)]
        for place in range(0, 300, 37):  # a first third full of far points
            spiked[place] *= 40
        for found in opened(NeverFell, steps(spiked)):
            assert float(found.evidence["now"]) > 0.7 * float(found.evidence["first"])


def test_a_loss_that_rose_far_is_told_as_it_is_now() -> None:
    losses = [0.5] * 150 + [40.0] * 290 + [25.0] * 160
    found = opened(NeverFell, steps(losses))
    assert all("25.00" in one.sentence or "40.00" not in one.sentence for one in found)


def test_a_loss_that_stands_while_the_evaluation_learns_is_fine() -> None:
    """A loss of pairs or of an opponent need not fall."""
    losses = steps(flat(1000, 3.4657, width=0.003))
    learns = evals([2.0 * 0.97**n for n in range(20)], every=50)
    assert opened(NeverFell, in_order(losses, learns)) == []


def test_a_loss_that_falls_just_now_or_has_risen_is_not_said_to_stand() -> None:
    falls = flat(560, 0.13, width=0.01) + [0.13 * 0.99**n for n in range(60)]
    assert opened(NeverFell, steps(falls)) == []
    rises = [0.7 + 0.8 * min(1.0, n / 300) for n in range(1000)]
    assert opened(NeverFell, steps(rises)) == []


def test_a_loss_around_zero_need_not_fall() -> None:
    assert opened(NeverFell, steps(noise(1000, 0.3))) == []


def test_a_loss_above_its_first_level_may_have_a_rate_too_high() -> None:
    stands = [*flat(500, 2.0, width=0.002), *flat(1000, 2.1, width=0.002)]
    above, where_it_was = (
        opened(NeverFell, steps(stands)),
        opened(NeverFell, steps(flat(1500, 2.0))),
    )
    assert "3 to 10 times lower" in above[-1].advice
    assert "lower" not in where_it_was[0].advice
