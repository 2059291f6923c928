import math
import statistics
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.trend import Goal, Trend, TrendGroup

whole = st.integers(min_value=-1000, max_value=1000)
any_floats = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20)
moderate = st.floats(min_value=-1e6, max_value=1e6)


def test_values_come_back_as_they_were_given() -> None:
    trend = Trend([1, math.inf])
    trend.append(2.5)
    assert trend.values() == [1.0, math.inf, 2.5]
    assert trend.last(2) == [math.inf, 2.5]
    assert trend.last(9) == trend.values()
    assert trend.last(0) == []
    assert len(trend) == 3


def test_an_empty_trend_has_no_figures() -> None:
    trend = Trend()
    figures = (trend.latest(), trend.mean(), trend.min(), trend.max(), trend.slope())
    assert all(math.isnan(figure) for figure in figures)
    assert trend.best() is None


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan]])
def test_too_few_points_decide_nothing(values: list[float]) -> None:
    trend = Trend(values)
    assert not trend.improving()
    assert not trend.stalled(0, 1.0)
    assert not trend.converged(0, 1.0)


def test_fewer_points_than_the_window_are_never_settled() -> None:
    trend = Trend([1.0] * 9)
    assert not trend.stalled(10, 1e-4)
    assert not trend.converged(10, 1e-4)
    trend.append(1.0)
    assert trend.stalled(10, 1e-4)
    assert trend.converged(10, 1e-4)


@given(whole, st.lists(st.booleans(), min_size=2, max_size=60).filter(lambda kept: sum(kept) > 1))
def test_slope_of_a_line_with_gaps_is_exact(step: int, kept: list[bool]) -> None:
    assert Trend(step * x if there else math.nan for x, there in enumerate(kept)).slope() == step


@given(st.lists(moderate, min_size=2, max_size=50))
def test_slope_is_that_of_least_squares(values: list[float]) -> None:
    expected = statistics.linear_regression(range(len(values)), values).slope
    assert Trend(values).slope() == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_slope_of_a_window_looks_only_at_its_points() -> None:
    trend = Trend([9.0, 0.0, 1.0, 2.0, 3.0])
    assert trend.slope(4) == 1.0
    assert trend.slope(100) == trend.slope()


@pytest.mark.parametrize(("goal", "improving"), [("min", True), ("max", False)])
def test_improving_follows_the_goal(goal: Goal, improving: bool) -> None:
    assert Trend([3.0, 2.0, 1.0], goal=goal).improving() is improving


def test_stalled_compares_the_slope() -> None:
    trend = Trend([1.0, 1.1, 1.2])
    assert trend.stalled(3, 0.11)
    assert not trend.stalled(3, 0.09)


def test_relative_tolerance_does_not_depend_on_the_scale() -> None:
    for scale in (1e-6, 1.0, 1e6):
        trend = Trend([100 * scale, 101 * scale, 102 * scale])
        assert trend.stalled(3, 0.02, relative=True)
        assert not trend.stalled(3, 0.005, relative=True)
        assert trend.converged(3, 0.02, relative=True)
        assert not trend.converged(3, 0.005, relative=True)


def test_zeros_are_settled_at_any_scale() -> None:
    trend = Trend([0.0, 0.0, 0.0])
    assert trend.stalled(3, 1e-4, relative=True)
    assert trend.converged(3, 1e-4, relative=True)


def test_converged_compares_the_population_variance() -> None:
    trend = Trend([1.0, 3.0])
    assert trend.converged(2, 1.1)
    assert not trend.converged(2, 1.0)


def test_points_that_are_not_finite_are_left_out_of_the_figures() -> None:
    trend = Trend([4.0, math.nan, 2.0, math.inf])
    assert (trend.mean(), trend.min(), trend.max()) == (3.0, 2.0, 4.0)
    assert trend.slope() == -1.0
    assert trend.latest() == math.inf


@pytest.mark.parametrize(("goal", "best"), [("min", (1, 1.0)), ("max", (3, 5.0))])
def test_best_is_the_first_of_equals(goal: Goal, best: tuple[int, float]) -> None:
    assert Trend([math.nan, 1.0, 1.0, 5.0, 5.0], goal=goal).best() == best


@given(any_floats)
def test_trend_takes_any_float(values: list[float]) -> None:
    trend = Trend(values)
    trend.mean(), trend.slope(), trend.best()
    assert trend.stalled(0, 1e-3) in (True, False)
    assert trend.converged(0, 1e-3, relative=True) in (True, False)
    if any(math.isfinite(value) for value in values):
        assert trend.min() <= trend.max()


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="goal"):
        Trend(goal="lower")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="window"):
        Trend([1.0]).slope(-1)
    with pytest.raises(ValueError, match="tol"):
        Trend([1.0]).stalled(1, -1.0)
    with pytest.raises(ValueError, match="count"):
        Trend([1.0]).last(-1)


def group(*series: list[float]) -> TrendGroup:
    return TrendGroup({f"head_{index}": Trend(values) for index, values in enumerate(series)})


def test_group_asks_all_or_any() -> None:
    mixed = group([2.0, 1.0], [1.0, 1.0])
    assert (mixed.any_improving(), mixed.all_improving()) == (True, False)
    assert (mixed.any_stalled(2, 0.1), mixed.all_stalled(2, 0.1)) == (True, False)
    assert (mixed.any_converged(2, 0.1), mixed.all_converged(2, 0.1)) == (True, False)
    agreed = group([2.0, 1.0], [4.0, 3.0])
    assert agreed.all_improving(2)
    assert agreed.all_stalled(2, 2.0)
    assert agreed.all_converged(2, 2.0)


def test_an_empty_group_agrees_to_nothing() -> None:
    empty = group()
    assert not empty.all_improving()
    assert not empty.all_stalled(0, 1.0)
    assert not empty.all_converged(0, 1.0)
    assert math.isnan(empty.mean_slope())
    assert len(empty) == 0


def test_group_slopes_by_name_and_their_mean() -> None:
    heads = group([0.0, 1.0], [0.0, 3.0], [7.0])
    assert list(heads) == heads.names() == ["head_0", "head_1", "head_2"]
    assert heads.get("loss") is None
    assert heads.slopes()["head_1"] == 3.0
    assert heads["head_1"].latest() == 3.0
    assert heads.mean_slope() == 2.0


def test_what_runs_beside_training_does_not_load_numpy() -> None:
    probe = (
        "import sys, epochal.records.format, epochal.series.trend, epochal.series.window;"
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
