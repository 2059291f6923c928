"""The time left, on simulated clocks: a training is a list of step ends and the time of its end."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.eta import Eta, remaining_of

STEPS = 1000


def no_time(step: int) -> float:
    return 0.0


def ratios(
    step_s: Callable[[int], float],
    between_s: Callable[[int], float] = no_time,
    *,
    first: int = 0,
    total: int = STEPS,
) -> dict[int, float]:
    """Estimated by true time left after each step of a training; `between_s` follows each step."""
    clock, ends = 50.0, []
    for step in range(first, total):
        clock += step_s(step)
        ends.append(clock)
        clock += between_s(step)
    eta, found = Eta(total), {}
    for step, at in enumerate(ends, first):
        eta.observe(step + 1, at)
        left_s = eta.remaining_s()
        if left_s:
            found[step] = left_s / (clock - at)
    return found


def worst(found: dict[int, float], *, after: float = 0.1, before: float = 0.9) -> float:
    """The largest error between these shares of the run."""
    first, last = min(found), STEPS
    steps = range(round(first + after * (last - first)), round(first + before * (last - first)))
    return max(abs(found[step] - 1) for step in steps)


def every(period: int, seconds: float) -> Callable[[int], float]:
    return lambda step: seconds if step % period == period - 1 else 0.0


@pytest.mark.parametrize("period", [5, 10, 20, 40, 50])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_evaluations_count_as_wall_time(period: int, share: float) -> None:
    assert worst(ratios(lambda step: 1.0, every(period, share * period))) < 0.25


_DURATIONS = random.Random(7)


@pytest.mark.parametrize(
    ("found", "most"),
    [
        (ratios(lambda step: 1.0, every(20, 100.0)), 0.25),  # evaluations take most of the time
        (ratios(lambda step: 1.0, lambda s: every(20, 10.0)(s) + every(50, 15.0)(s)), 0.25),
        (ratios(lambda step: 0.1 if step % 10 == 0 else 0.01), 0.1),
        (ratios(lambda step: {0: 60.0, 1: 30.0}.get(step, 0.1)), 0.1),  # a slow start
        (ratios(lambda step: _DURATIONS.lognormvariate(0.0, 0.8)), 0.25),
        (ratios(lambda step: 1.0, every(10, 5.0), first=700), 0.25),  # a new attempt
    ],
)
def test_trainings_of_every_sort_are_estimated(found: dict[int, float], most: float) -> None:
    assert worst(found) < most


def test_a_change_of_speed_is_learnt() -> None:
    slower = ratios(lambda step: 1.0 if step < 300 else 2.0)
    assert abs(slower[700] - 1) < 0.25


@pytest.mark.parametrize("pause_s", [600.0, 3600.0])
def test_one_pause_does_not_count(pause_s: float) -> None:
    paused = ratios(lambda step: 1.0, lambda step: pause_s if step == 200 else 0.0)
    assert max(abs(paused[step] - 1) for step in range(201, 900)) < 0.05


def test_a_first_evaluation_that_looks_like_a_pause_counts_once_it_recurs() -> None:
    heavy = ratios(lambda step: 1.0, every(20, 200.0))
    assert max(abs(heavy[step] - 1) for step in range(100, 900)) < 0.25


def test_the_time_left_is_unknown_before_two_observations() -> None:
    eta = Eta(100)
    assert eta.remaining_s() is None
    eta.observe(1, at=5.0)
    assert eta.remaining_s() is None


def test_the_duration_of_the_first_unit_is_enough() -> None:
    eta = Eta(10)
    eta.observe(1, at=100.0, took_s=3.0)
    assert eta.remaining_s() == pytest.approx(27.0)
    eta.observe(2, at=105.0, took_s=3.0)
    assert eta.remaining_s() == pytest.approx((3.0 + 3 * 5.0) / 4 * 8)


def test_without_a_total_nothing_is_known_and_at_the_total_nothing_is_left() -> None:
    endless, done = Eta(None), Eta(10)
    for at in (9, 10):
        endless.observe(at, at=float(at))
        done.observe(at, at=float(at))
    assert (endless.remaining_s(), done.remaining_s()) == (None, 0.0)


@given(st.integers(min_value=1, max_value=50))
def test_it_does_not_matter_how_often_steps_are_logged(period: int) -> None:
    eta = Eta(10_000)
    for step in range(0, 1000, period):
        eta.observe(step, at=step * 0.5)
    step = range(0, 1000, period)[-1]
    assert eta.remaining_s() == pytest.approx((10_000 - step) * 0.5)


def test_tokens_beyond_32_bits() -> None:
    eta = Eta(10_000_000_000)
    eta.observe(5_000_000_000, at=0.0)
    eta.observe(6_000_000_000, at=60.0)
    assert eta.remaining_s() == pytest.approx(240.0)


def test_it_starts_anew_when_the_run_goes_back() -> None:
    eta = Eta(100)
    eta.observe(50, at=0.0)
    eta.observe(20, at=1.0)
    assert eta.remaining_s() is None
    eta.observe(21, at=3.0)
    assert eta.remaining_s() == pytest.approx(79 * 2.0)


def test_what_is_done_again_after_a_rollback_is_left() -> None:
    eta = Eta(100)
    for step in range(51):
        eta.observe(step, at=float(step))
    for step in range(20, 31):
        eta.observe(step, at=40.0 + step)
    assert eta.remaining_s() == pytest.approx(70.0)


def test_records_out_of_order_change_nothing() -> None:
    eta = Eta(100)
    for step in range(1, 51):
        eta.observe(step, at=float(step))
        eta.observe(step - 1, at=step + 0.5)
    assert eta.remaining_s() == pytest.approx(50.0)


def test_repeated_readings_of_a_coarse_clock_are_spanned() -> None:
    eta = Eta(100)
    for step in range(4):
        eta.observe(step, at=0.0)
    eta.observe(4, at=2.0)
    assert eta.remaining_s() == pytest.approx(96 * 0.5)


def test_a_clock_that_goes_back_loses_one_interval() -> None:
    eta = Eta(100)
    for step, at in ((0, 10.0), (1, 11.0), (2, 3.0), (3, 4.0)):
        eta.observe(step, at=at)
    assert eta.remaining_s() == pytest.approx(97.0)


def test_what_is_no_amount_is_refused() -> None:
    with pytest.raises(ValueError, match="total"):
        Eta(-1)
    with pytest.raises(ValueError, match="done"):
        Eta(10).observe(math.nan, at=0.0)


def test_the_time_left_of_durations() -> None:
    assert remaining_of([2.0, 2.0], total=10, done=7) == pytest.approx(6.0)
    assert remaining_of([], total=10, done=7) is None
    assert remaining_of([2.0], total=10, done=10) == 0.0
