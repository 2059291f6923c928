"""Where two curves part, on drawn curves whose noise is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from epochal.series.parting import end_of, noise_between, parting
from epochal.series.series import Series
from tests.series.points import points


def curve(
    seed: int,
    *,
    num_steps: int = 2000,
    every: int = 1,
    lasting: float = 0.0,
    gap: float = 0.0,
    gap_from: int = 1000,
) -> Series:
    """A loss that falls from 5 to 2 with noise of 5 %, which may last, and a gap from a step on."""
    at = np.arange(0, num_steps, every)
    noise = np.random.default_rng(seed).normal(size=at.size)
    for index in range(1, at.size):
        noise[index] = lasting * noise[index - 1] + math.sqrt(1 - lasting**2) * noise[index]
    values = (2 + 3 * np.exp(-at / 400)) * (1 + 0.05 * noise)
    return points(at, values + gap * (at >= gap_from))


def false_alarms(lasting: float, *, every: int = 1) -> tuple[int, int]:
    """How many of 40 pairs of equal trainings part, and how many end apart."""
    parted = apart = 0
    for seed in range(40):
        left, right = (curve(2 * seed + one, lasting=lasting, every=every) for one in (0, 1))
        found = parting(left, right, "min")
        assert found is not None
        parted += found.parted_at is not None
        ends = end_of(left), end_of(right)
        apart += abs(ends[0].value - ends[1].value) > noise_between(left, right)
    return parted, apart


@pytest.mark.parametrize(("lasting", "every"), [(0.0, 1), (0.5, 1), (0.9, 1), (0.0, 100)])
def test_noise_is_no_gap_also_where_it_lasts(lasting: float, every: int) -> None:
    parted, apart = false_alarms(lasting, every=every)
    assert parted <= 2
    assert apart <= 1


def test_curves_part_where_the_gap_begins() -> None:
    places = []
    for seed in range(20):
        found = parting(curve(2 * seed), curve(2 * seed + 1, gap=0.2), "min")
        assert found is not None
        assert found.parted_at is not None
        places.append(found.parted_at)
    assert np.median(places) == pytest.approx(1000, abs=60)


def test_a_gap_that_closes_again_is_no_parting() -> None:
    left, right = curve(0), curve(1, gap=1.0, gap_from=500)
    right.values[1200:] -= 1.0
    found = parting(left, right, "min")
    assert found is not None
    assert found.parted_at is None


def test_equal_curves_part_where_one_begins_to_differ() -> None:
    left, right = curve(0), curve(0)
    right.values[600:] *= 1.02  # far below the noise of either curve
    found = parting(left, right, "min")
    assert found is not None
    assert found.parted_at == pytest.approx(600, abs=50)


def test_a_curve_that_turns_nan_parts_there() -> None:
    left, right = curve(0), curve(1)
    left.values[700:] = math.nan
    for pair in ((left, right), (right, left)):
        found = parting(*pair, "min")
        assert found is not None
        assert found.parted_at == pytest.approx(700, abs=50)
    assert math.isnan(end_of(left).value)


def test_a_loss_that_explodes_parts_where_it_begins_to_grow() -> None:
    left, right = curve(0), curve(1)
    left.values[300:] *= 1.3 ** np.arange(1700)
    found = parting(left, right, "min")
    assert found is not None
    assert found.parted_at == pytest.approx(300, abs=50)


def test_curves_are_compared_where_both_have_steps() -> None:
    found = parting(curve(0, num_steps=500), curve(1, every=10), "min")
    assert found is not None
    assert (found.first, found.last) == (0, 499)
    later = points(np.arange(3000.0, 3100.0), np.ones(100))
    assert parting(curve(0), later, "min") is None


def test_few_points_need_a_large_gap() -> None:
    first, near, far = (
        points(np.arange(2.0), np.array([3.0, value])) for value in (1.0, 1.04, 1.2)
    )
    assert math.isnan(end_of(first).error)
    assert 0.04 < noise_between(first, near) < noise_between(first, far) < 0.2


def test_a_trend_that_both_curves_follow_is_no_noise() -> None:
    at = np.arange(0.0, 120.0, 20.0)
    course, noise = 2 + 2.5 * np.exp(-at / 60), np.random.default_rng(0)
    left, right = (points(at, course + noise.normal(scale=0.005, size=6)) for _ in range(2))
    assert noise_between(left, right) < 0.05
