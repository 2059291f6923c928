import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.downsample import summarise
from epochal.series.summary import Summary


def test_summary_of_a_series() -> None:
    assert summarise([0, 10, 20, 30], [3.0, 1.0, math.nan, 2.0]) == Summary(
        count=4,
        nonfinite=1,
        first=3.0,
        last=2.0,
        last_step=30,
        min=1.0,
        min_step=10,
        max=3.0,
        max_step=0,
        mean=2.0,
    )


def test_last_is_shown_even_if_it_is_not_finite() -> None:
    summary = summarise([0, 1], [1.0, math.inf])
    assert (summary.last, summary.last_step, summary.max) == (math.inf, 1, 1.0)


def test_whole_steps_stay_whole() -> None:
    assert isinstance(summarise([5], [1.0]).last_step, int)


def test_empty_series_have_no_figures() -> None:
    summary = summarise([], [])
    assert summary.count == 0
    assert (summary.first, summary.last, summary.mean, summary.best("min")) == (None,) * 4


def test_series_without_a_finite_point_have_no_best() -> None:
    summary = summarise([0], [-math.inf])
    assert (summary.first, summary.min, summary.best("max")) == (-math.inf, None, None)


def test_best_follows_the_goal_and_takes_the_first_of_equals() -> None:
    summary = summarise([1, 2, 3, 4], [0.5, 0.25, 0.25, 0.5])
    assert summary.best("min") == (2, 0.25)
    assert summary.best("max") == (1, 0.5)
    with pytest.raises(ValueError, match="goal"):
        summary.best("lower")  # type: ignore[arg-type]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1))
def test_summary_of_any_floats_is_consistent(values: list[float]) -> None:
    summary = summarise(range(len(values)), values)
    finite = [value for value in values if math.isfinite(value)]
    assert summary.count - summary.nonfinite == len(finite)
    if finite:
        assert (summary.min, summary.max) == (min(finite), max(finite))
        assert summary.mean is not None
        assert math.isfinite(summary.mean)
