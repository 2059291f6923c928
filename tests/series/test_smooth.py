import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.smooth import ema

weights = st.floats(min_value=0, max_value=0.9999)
any_floats = st.lists(
    st.floats(min_value=-1e6, max_value=1e6) | st.sampled_from([math.nan, math.inf, -math.inf]),
    max_size=300,
)


def ema_one_by_one(values: list[float], weight: float) -> list[float]:
    total, gathered, smoothed = 0.0, 0.0, []
    for value in values:
        if math.isfinite(value):
            total = weight * total + (1 - weight) * value
            gathered = weight * gathered + (1 - weight)
        smoothed.append(total / gathered if math.isfinite(value) else value)
    return smoothed


@given(any_floats, weights)
def test_ema_is_the_recurrence(values: list[float], weight: float) -> None:
    expected = np.array(ema_one_by_one(values, weight))
    np.testing.assert_allclose(ema(values, weight), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 4096, 4097, 10_000])
def test_ema_joins_its_blocks(count: int) -> None:
    values = np.random.default_rng(0).normal(size=count)
    np.testing.assert_allclose(ema(values, 0.99), ema_one_by_one(list(values), 0.99), atol=1e-12)


@given(st.floats(min_value=-1e6, max_value=1e6), weights, st.integers(min_value=1, max_value=500))
def test_ema_of_a_constant_is_that_constant(value: float, weight: float, count: int) -> None:
    np.testing.assert_allclose(ema([value] * count, weight), value, rtol=1e-9, atol=1e-300)


def test_a_weight_of_zero_changes_nothing() -> None:
    values = [1.0, math.nan, 3.0]
    np.testing.assert_array_equal(ema(values, 0), values)


def test_the_input_is_left_alone() -> None:
    values = np.array([1.0, 5.0, 2.0])
    ema(values, 0.5)
    np.testing.assert_array_equal(values, [1.0, 5.0, 2.0])


def test_empty_series_stay_empty() -> None:
    assert ema([], 0.5).size == 0


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="weight"):
        ema([1.0], 1.0)
    with pytest.raises(ValueError, match="values"):
        ema([[1.0]], 0.5)
