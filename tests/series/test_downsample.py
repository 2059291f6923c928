import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.downsample import Buckets, buckets
from tests.series.points import Points, assert_exact

value = st.floats(min_value=-1e9, max_value=1e9) | st.sampled_from([math.nan, math.inf, -math.inf])
points = st.lists(st.tuples(st.integers(-10_000, 10_000), value), max_size=300).map(
    lambda drawn: sorted(drawn, key=lambda point: point[0])
)
pixels = st.integers(min_value=1, max_value=100)


def cut(
    series: Points, pixels: int, *, lo: float | None = None, hi: float | None = None
) -> Buckets:
    steps = np.array([step for step, _ in series], dtype=np.int64)
    values = np.array([value for _, value in series], dtype=np.float64)
    return buckets(steps, values, pixels=pixels, lo=lo, hi=hi)


@given(points, pixels)
def test_every_point_is_counted_once(series: Points, pixels: int) -> None:
    result = cut(series, pixels)
    strange = [point for point in series if not math.isfinite(point[1])]
    assert len(result) <= pixels
    assert result.count.sum() == len(series)
    assert result.nonfinite.sum() == len(strange)
    assert result.nonfinite_steps.tolist() == [step for step, _ in strange]
    np.testing.assert_array_equal(result.nonfinite_values, [value for _, value in strange])


@given(points, pixels)
def test_each_slice_is_exact(series: Points, pixels: int) -> None:
    assert_exact(cut(series, pixels), series)


@given(points, pixels)
def test_the_extremes_of_the_series_survive(series: Points, pixels: int) -> None:
    finite = [value for _, value in series if math.isfinite(value)]
    result = cut(series, pixels)
    if finite and not result.raw:
        assert np.nanmin(result.min) == min(finite)
        assert np.nanmax(result.max) == max(finite)


@given(st.integers(min_value=0, max_value=99_999), pixels)
def test_one_spike_among_many_points_is_kept(spike: int, pixels: int) -> None:
    values = np.zeros(100_000)
    values[spike] = 1.0
    result = buckets(np.arange(values.size), values, pixels=pixels)
    assert result.max_step[result.max.argmax()] == spike


@given(points)
def test_no_more_points_than_pixels_come_back_unchanged(series: Points) -> None:
    result = cut(series, max(len(series), 1))
    assert result.raw
    for steps, values in ((result.first_step, result.first), (result.min_step, result.max)):
        assert steps.tolist() == [step for step, _ in series]
        np.testing.assert_array_equal(values, [value for _, value in series])


@given(points, pixels, st.integers(-12_000, 12_000), st.integers(0, 12_000))
def test_a_range_holds_its_points_and_no_others(
    series: Points, pixels: int, lo: int, width: int
) -> None:
    hi = lo + width
    inside = [point for point in series if lo <= point[0] <= hi]
    result = cut(series, pixels, lo=lo, hi=hi)
    assert result.count.sum() == len(inside)
    assert result.raw == (len(inside) <= pixels)


def test_slices_are_equal_parts_of_the_axis_and_empty_ones_are_left_out() -> None:
    steps = [0, 1, 2, 3, 4, 90, 99, 100]
    result = buckets(steps, [float(step) for step in steps], pixels=4)
    assert result.count.tolist() == [5, 3]
    assert result.first_step.tolist() == [0, 90]
    assert result.last_step.tolist() == [4, 100]


def test_slices_follow_the_range_asked_for_beyond_the_data() -> None:
    result = buckets(range(10), np.zeros(10), pixels=2, lo=0, hi=100)
    assert result.count.tolist() == [10]
    assert len(buckets(range(10), np.zeros(10), pixels=2, lo=0, hi=1e300)) == 1


def test_seconds_serve_as_steps() -> None:
    seconds = np.linspace(0.0, 1.0, 101)
    result = buckets(seconds, np.arange(101.0), pixels=2)
    assert result.count.tolist() == [50, 51]
    assert result.last_step[-1] == 1.0


def test_many_points_at_one_step_make_one_slice() -> None:
    result = buckets([7] * 10, np.arange(10.0), pixels=3)
    assert (result.count.tolist(), result.min.tolist(), result.max.tolist()) == ([10], [0], [9])


def test_a_slice_of_nothing_finite_is_nan_in_its_place() -> None:
    result = buckets(range(4), [1.0, 2.0, math.nan, math.inf], pixels=2)
    np.testing.assert_array_equal(result.max, [2.0, math.nan])
    assert (result.first_step.tolist(), result.last_step.tolist()) == ([0, 2], [1, 3])
    assert result.nonfinite.tolist() == [0, 2]


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="pixels"):
        buckets([0], [1.0], pixels=0)
    with pytest.raises(ValueError, match="hi"):
        buckets([0], [1.0], pixels=1, hi=math.inf)
    with pytest.raises(ValueError, match="lo not above hi"):
        buckets([0], [1.0], pixels=1, lo=2, hi=1)


def test_steps_must_ascend() -> None:
    with pytest.raises(AssertionError, match="ascend"):
        buckets([1, 0], [1.0, 2.0], pixels=5)
