import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from epochal.errors import UsageError
from epochal.series.smooth import Smoothing, SmoothingKind, parse_smoothing


def smooth(kind: SmoothingKind, amount: float, values: ArrayLike) -> NDArray[np.float64]:
    return Smoothing(kind, amount).apply(values, range(len(np.asarray(values))))


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
    np.testing.assert_allclose(smooth("ema", weight, values), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 4096, 4097, 10_000])
def test_ema_joins_its_blocks(count: int) -> None:
    values = np.random.default_rng(0).normal(size=count)
    np.testing.assert_allclose(
        smooth("ema", 0.99, values), ema_one_by_one(list(values), 0.99), atol=1e-12
    )


@given(st.floats(min_value=-1e6, max_value=1e6), weights, st.integers(min_value=1, max_value=500))
def test_ema_of_a_constant_is_that_constant(value: float, weight: float, count: int) -> None:
    np.testing.assert_allclose(
        smooth("ema", weight, [value] * count), value, rtol=1e-9, atol=1e-300
    )


def test_a_weight_of_zero_changes_nothing() -> None:
    values = [1.0, math.nan, 3.0]
    np.testing.assert_array_equal(smooth("ema", 0, values), values)


def test_the_input_is_left_alone() -> None:
    values = np.array([1.0, 5.0, 2.0])
    smooth("ema", 0.5, values)
    np.testing.assert_array_equal(values, [1.0, 5.0, 2.0])


def test_empty_series_stay_empty() -> None:
    assert smooth("ema", 0.5, []).size == 0


def time_ema_one_by_one(values: list[float], at: list[float], weight: float) -> list[float]:
    known = [place for value, place in zip(values, at, strict=True) if math.isfinite(value)]
    distances = [b - a for a, b in itertools.pairwise(known) if b > a]
    spacing = float(np.median(distances)) if distances else 0.0
    total, gathered, last, smoothed = 0.0, 0.0, None, []
    for value, place in zip(values, at, strict=True):
        if math.isfinite(value):
            power = 1.0 if spacing == 0 or last is None else (place - last) / spacing
            total = weight**power * total + value
            gathered = weight**power * gathered + 1
            last = place
        smoothed.append(total / gathered if math.isfinite(value) else value)
    return smoothed


@pytest.mark.parametrize("weight", [0.01, 0.5, 0.9, 0.999])
def test_a_time_weighted_average_forgets_by_distance(weight: float) -> None:
    rng = np.random.default_rng(1)
    at = np.cumsum(rng.choice([0.0, 1.0, 2.0, 500.0], size=3000, p=[0.1, 0.6, 0.28, 0.02]))
    values = rng.normal(size=3000)
    values[[5, 6, 100]] = [math.nan, math.inf, -math.inf]
    expected = time_ema_one_by_one(values.tolist(), at.tolist(), weight)
    np.testing.assert_allclose(
        Smoothing("time-ema", weight).apply(values, at), expected, rtol=1e-9, atol=1e-12
    )


def test_at_equal_distances_the_time_weighted_average_is_the_plain_one() -> None:
    values = np.random.default_rng(2).normal(size=5000)
    at = np.arange(5000) * 10.0
    np.testing.assert_allclose(
        Smoothing("time-ema", 0.9).apply(values, at),
        smooth("ema", 0.9, values),
        rtol=1e-9,
        atol=1e-12,
    )


def test_a_gaussian_and_a_mean_look_at_both_sides_and_not_beyond_the_ends() -> None:
    values = [1.0, 2.0, math.nan, 4.0, 100.0]
    np.testing.assert_allclose(smooth("mean", 3, values), [1.5, 1.5, math.nan, 52.0, 52.0])
    np.testing.assert_allclose(smooth("mean", 1, values), values)
    one = math.exp(-0.5)
    two, three, four = math.exp(-2.0), math.exp(-4.5), math.exp(-8.0)
    first = (1 + 2 * one + 4 * three + 100 * four) / (1 + one + three + four)
    np.testing.assert_allclose(smooth("gaussian", 1.0, values)[0], first)
    second = (1 * one + 2 + 4 * two + 100 * three) / (one + 1 + two + three)
    np.testing.assert_allclose(smooth("gaussian", 1.0, values)[1], second)


def test_a_kernel_longer_than_most_gives_the_same_average() -> None:
    values, places = np.random.default_rng(3).normal(size=9000), np.arange(9000)
    weights = [np.exp(-0.5 * ((places - i) / 1300) ** 2) for i in range(0, 9000, 500)]
    weights = [np.where(np.abs(places - 500 * i) <= 5200, one, 0) for i, one in enumerate(weights)]
    expected = [np.average(values, weights=one) for one in weights]
    np.testing.assert_allclose(smooth("gaussian", 1300, values)[::500], expected, atol=1e-9)


@pytest.mark.parametrize("points", [2, 60, 4096, 20_000])
def test_a_running_mean_is_exact_and_a_spike_stays_within_it(points: int) -> None:
    values, half = np.random.default_rng(3).normal(size=9000), points // 2
    values[4500] = 1e15
    expected = [values[max(0, i - half) : i + half + 1].mean() for i in range(9000)]
    np.testing.assert_allclose(smooth("mean", points, values), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["ema", "time-ema"])
def test_the_state_continues_the_average(kind: str) -> None:
    smoothing = parse_smoothing(f"{kind}:0.9")
    assert smoothing is not None
    rng = np.random.default_rng(4)
    at, values = np.arange(400) * 2.0, rng.normal(size=400)
    state = smoothing.state(values[:399], at[:399])
    assert state is not None
    total, gathered, last, spacing = state
    kept = 0.9 if spacing == 0 else 0.9 ** ((at[399] - last) / spacing)
    expected = (total * kept + values[399]) / (gathered * kept + 1)
    assert smoothing.apply(values, at)[399] == pytest.approx(expected, abs=1e-12)


def test_kinds_that_look_ahead_have_no_state() -> None:
    assert Smoothing("gaussian", 3.0).state([1.0, 2.0], [0, 1]) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [(0.6, Smoothing("ema", 0.6)), ("gaussian:12", Smoothing("gaussian", 12.0)), ("ema:0", None)],
)
def test_smoothing_is_read_from_a_text_or_a_weight(
    given: str | float, expected: Smoothing | None
) -> None:
    assert parse_smoothing(given) == expected


@pytest.mark.parametrize("given", ["box:3", "ema", "ema:1", 1.0, "mean:-2", "gaussian:nan", "0.9"])
def test_smoothing_that_is_not_known_raises(given: str | float) -> None:
    with pytest.raises(UsageError, match="smooth="):
        parse_smoothing(given)
