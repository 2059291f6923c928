from __future__ import annotations

import numpy as np
import pytest

from epochal.series.aggregate import aggregate, numbers_of, positions, stride, values_at
from tests.series.points import points


def test_numbers_at_each_step_are_those_of_numpy() -> None:
    values = np.random.default_rng(0).normal(size=(7, 50))
    members = [points(range(50), row) for row in values]
    found = aggregate(members, positions(members))
    assert found.n.tolist() == [7] * 50
    for name, expected in {
        "mean": values.mean(axis=0),
        "median": np.median(values, axis=0),
        "std": values.std(axis=0, ddof=1),
        "se": values.std(axis=0, ddof=1) / np.sqrt(7),
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "q25": np.quantile(values, 0.25, axis=0),
        "q75": np.quantile(values, 0.75, axis=0),
    }.items():
        np.testing.assert_allclose(getattr(found, name), expected, rtol=0, atol=1e-12)
    # 2.4469… is the quantile of t with 6 degrees of freedom.
    np.testing.assert_allclose(found.high - found.mean, 2.4469118511449692 * found.se, atol=1e-9)
    np.testing.assert_allclose(found.mean - found.low, found.high - found.mean, atol=1e-12)


def test_members_that_end_or_turn_nan_are_counted_and_not_averaged() -> None:
    whole, dead = points(range(4), [1, 2, 3, 4]), points(range(2), [3, 4])
    broken = points(range(4), [5, np.nan, np.inf, np.nan])
    found = aggregate([whole, dead, broken], range(4))
    assert found.n.tolist() == [3, 2, 1, 1]
    assert found.nonfinite.tolist() == [0, 1, 1, 1]
    assert found.ended.tolist() == [0, 0, 1, 1]
    assert found.mean.tolist() == [3, 3, 3, 4]
    assert np.isnan(found.std[2:]).all()


def test_a_value_lasts_for_less_than_the_members_own_stride() -> None:
    member = points([0, 10, 20, 50, 60], [1, 2, 3, 4, 5])
    at = np.array([-1, 0, 9, 10, 29, 30, 49, 50, 60, 61], dtype=float)
    values, is_there = values_at(member, at)
    assert is_there.tolist() == [False, True, True, True, True, False, False, True, True, False]
    assert values[is_there].tolist() == [1, 1, 2, 3, 4, 5]


def test_members_with_other_strides_meet_at_every_step_of_either() -> None:
    members = [points([0, 4, 8], [0, 4, 8]), points([0, 3, 6, 9], [0, 3, 6, 9])]
    found = aggregate(members, positions(members))
    assert found.at.tolist() == [0, 3, 4, 6, 8, 9]
    assert found.n.tolist() == [2, 2, 2, 2, 2, 1]
    assert found.mean.tolist() == [0, 1.5, 3.5, 5, 7, 9]


def test_many_positions_are_thinned_to_real_ones_with_every_end() -> None:
    members = [points(range(10_000), np.zeros(10_000)), points(range(4321), np.zeros(4321))]
    at = positions(members, most=100)
    assert 100 <= at.size <= 103
    assert {0, 4320, 9999} <= set(at.tolist())
    assert np.isin(at, members[0].at).all()
    logarithmic = positions(members, most=100, is_log=True)
    assert set(range(10)) <= set(logarithmic.tolist())
    assert positions(members, lo=10, hi=12).tolist() == [10, 11, 12]
    assert positions([]).size == 0


def test_thinned_numbers_are_those_of_the_whole() -> None:
    values = np.random.default_rng(1).normal(size=(3, 1000))
    members = [points(range(1000), row) for row in values]
    thin = aggregate(members, positions(members, most=10))
    np.testing.assert_allclose(thin.mean, values.mean(axis=0)[thin.at.astype(int)], atol=1e-12)


def test_one_value_of_each_member_is_aggregated() -> None:
    numbers = numbers_of([1.0, 2.0, 6.0])
    assert (numbers["n"], numbers["mean"], numbers["median"]) == (3, 3.0, 2.0)
    assert numbers["std"] == pytest.approx(np.std([1, 2, 6], ddof=1))
    assert numbers_of([])["n"] == 0


@pytest.mark.parametrize(
    ("at", "expected"),
    [([], 0.0), ([5], 0.0), ([0, 50, 100], 50.0), ([0, 1, 2, 9], 1.0), ([0, 1, 4], 2.0)],
)
def test_the_stride_is_the_median_distance(at: list[float], expected: float) -> None:
    assert stride(points(at, at)) == expected
