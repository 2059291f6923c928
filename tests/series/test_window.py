import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.window import LossTrend, SpikeBaseline


def steady(count: int) -> SpikeBaseline:
    baseline = SpikeBaseline()
    for _ in range(count):
        assert not baseline.observe(1.0)
    return baseline


@pytest.mark.parametrize("count", [10, 50, 100, 101, 1000])
def test_spike_is_measured_against_the_values_before_it(count: int) -> None:
    assert not steady(count).observe(4.99)
    assert steady(count).observe(5.01)


def test_nothing_is_a_spike_among_the_first_values() -> None:
    assert not steady(9).observe(1000.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_a_spike_and_is_forgotten(value: float) -> None:
    baseline = steady(200)
    assert baseline.observe(value)
    assert not baseline.observe(1.0)
    assert baseline.observe(5.01)


def test_one_spike_does_not_hide_the_next() -> None:
    baseline = steady(200)
    assert baseline.observe(1e30)
    assert baseline.observe(8.0)


def test_a_lasting_change_of_level_is_learned() -> None:
    baseline = steady(200)
    assert baseline.observe(100.0)
    for _ in range(30):
        baseline.observe(100.0)
    assert not baseline.observe(100.0)


def test_a_baseline_of_zero_marks_nothing() -> None:
    baseline = SpikeBaseline()
    assert not any(baseline.observe(0.0) for _ in range(50))
    assert not baseline.observe(1.0)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="factor"):
        SpikeBaseline(0)


def marks(slope: float, *, noise: float, count: int = 1000) -> list[str]:
    draw, trend = random.Random(7), LossTrend()
    return [trend.observe(3 + slope * step + draw.gauss(0, noise)) for step in range(count)]


@pytest.mark.parametrize(("slope", "mark"), [(-0.001, "\\"), (0.001, "/"), (0.0, " ")])
def test_mark_shows_a_trend_under_noise_and_nothing_on_noise_alone(slope: float, mark: str) -> None:
    assert marks(slope, noise=0.05).count(mark) > 900


def test_mark_is_there_after_a_few_falling_values_and_blank_when_nothing_changes() -> None:
    assert marks(-0.1, noise=0.0, count=5)[-1] == "\\"
    assert set(marks(0.0, noise=0.0, count=50)) == {" "}


def test_mark_turns_when_the_loss_turns() -> None:
    trend = LossTrend()
    losses = [3 - 0.01 * step for step in range(100)] + [2 + 0.01 * step for step in range(150)]
    seen = [trend.observe(loss) for loss in losses]
    assert seen[99] == "\\"
    assert seen[-1] == "/"


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_mark_goes_a_few_values_after_the_loss_turned(noise: float) -> None:
    draw, trend = random.Random(7), LossTrend()
    losses = [3 - 0.01 * step for step in range(100)] + [2 + 0.01 * step for step in range(30)]
    seen = [trend.observe(loss + draw.gauss(0, noise)) for loss in losses]
    assert "\\" not in seen[107:]


def test_mark_ignores_values_that_are_not_finite() -> None:
    plain, broken = LossTrend(), LossTrend()
    for step in range(50):
        expected = plain.observe(3 - 0.01 * step)
        assert broken.observe(3 - 0.01 * step) == expected
        assert broken.observe((math.nan, math.inf, -math.inf)[step % 3]) == expected


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_windows_take_any_float(values: list[float]) -> None:
    baseline, trend = SpikeBaseline(), LossTrend()
    for value in values:
        assert baseline.observe(value) in (True, False)
        assert trend.observe(value) in ("\\", "/", " ")
