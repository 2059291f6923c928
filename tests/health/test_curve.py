import math

import pytest

from epochal.health.curve import Curve
from tests.health.curve_records import noise


def curve_of(values: list[float], *, is_log: bool = False) -> Curve:
    curve = Curve("loss", axis="step", is_log=is_log)
    for position, value in enumerate(values):
        curve.push(position, value)
    return curve


def test_level_and_width_are_those_of_the_points_before() -> None:
    curve = curve_of([10 + around for around in noise(500, 1.0)] + [1000.0])
    assert curve.level == pytest.approx(10, abs=0.5)
    assert curve.width == pytest.approx(1, rel=0.2)
    assert curve.stands_out


def test_a_point_that_stands_out_is_kept_out_of_the_level() -> None:
    curve = curve_of([10 + around for around in noise(300, 1.0)] + [1000.0] * 20 + [10.0])
    assert curve.level == pytest.approx(10, abs=1)


def test_a_lasting_level_is_learned() -> None:
    values = [10 + around for around in noise(300, 1.0)]
    curve = curve_of(values + [value + 990 for value in values])
    assert curve.level == pytest.approx(1000, abs=1)
    assert not curve.stands_out


def test_nothing_stands_out_of_few_points() -> None:
    assert curve_of([1.0] * 10 + [50.0]).level is None


def test_norms_are_judged_by_their_logs() -> None:
    curve = curve_of([math.exp(around) for around in noise(400, 0.3)], is_log=True)
    assert curve.level == pytest.approx(0, abs=0.2)
    assert curve.width == pytest.approx(0.3, rel=0.3)


def test_a_cut_forgets_the_points_from_there_on() -> None:
    curve = curve_of([float(n) for n in range(100)])
    curve.forget_from(60)
    assert curve.count == 60
    assert curve.points[-1] == (59, 59.0)
    assert curve.blocks[-1].last == 59


def falling_by_decades(count: int) -> list[float]:
    return [1e3 * 0.993**n * (1 + around) for n, around in enumerate(noise(count, 0.05))]


def test_noise_shrinks_with_a_loss_that_falls_by_decades() -> None:
    curve = curve_of(falling_by_decades(1000))
    assert curve.level is not None
    assert curve.width == pytest.approx(0.05 * curve.level, rel=0.35)
    assert curve.width_at(1.0) == pytest.approx(0.05, rel=0.35)


def test_a_spike_near_the_floor_of_such_a_loss_stands_out() -> None:
    values = falling_by_decades(1000)
    assert curve_of([*values, 1.8 * values[-1]]).stands_out
    assert not curve_of([*values, 1.1 * values[-1]]).stands_out


def test_noise_that_stays_while_the_level_falls_is_not_taken_for_less() -> None:
    curve = curve_of([0.5 + 10 * 0.95**n + abs(a) for n, a in enumerate(noise(600, 0.1))])
    assert curve.width is not None
    assert curve.width > 0.04


def test_a_curve_that_reaches_zero_keeps_the_noise_it_has_shown() -> None:
    curve = curve_of([1 + around for around in noise(300, 0.1)] + [-0.5, 1.0])
    assert curve.width == pytest.approx(0.1, rel=0.3)


def test_the_first_distances_say_nothing_about_noise() -> None:
    assert not curve_of([4 + 0.2 * n for n in range(22)]).stands_out


def test_an_extreme_of_skipped_points_stands_out_and_leaves_the_curve_as_it_was() -> None:
    values = [10 + around for around in noise(400, 1.0)]
    even, with_extremes = curve_of(values), curve_of(values[:200])
    with_extremes.push_extreme(200, 1000.0)
    assert with_extremes.stands_out
    assert with_extremes.newest == (200, 1000.0)
    for position, value in enumerate(values[200:], 200):
        with_extremes.push_extreme(position, 13.5)
        with_extremes.push_extreme(position, 6.5)
        with_extremes.push(position, value)
    assert (with_extremes.level, with_extremes.width) == (even.level, even.width)
    assert with_extremes.points == even.points
    assert (with_extremes.lowest, with_extremes.highest) == (6.5, 1000.0)


def test_an_extreme_must_be_farther_out_than_those_before_it() -> None:
    curve = curve_of([10 + around for around in noise(300, 1.0)])
    for position in range(300, 320):
        curve.push_extreme(position, 15.0)
    curve.push_extreme(320, 17.0)
    assert not curve.stands_out
    curve.push_extreme(321, 25.0)
    assert curve.stands_out
