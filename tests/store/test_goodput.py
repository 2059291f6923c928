import numpy as np
import pytest
from numpy.typing import NDArray

from epochal.store.goodput import AttemptTimes, goodput_of


def attempt(
    started: float, steps: range, *, at: float, step_s: float = 1.0, cut: int | None = None
) -> AttemptTimes:
    """Steps that are logged as each ends; the first begins at ``at``."""
    times: NDArray[np.float64] = at + step_s * np.arange(1, len(steps) + 1, dtype=np.float64)
    return AttemptTimes(
        started=started,
        ended=float(times[-1]) if len(steps) else at,
        steps=np.array(steps, dtype=np.int64),
        times=times,
        first=steps.start,
        cut=cut,
    )


def test_start_up_is_not_productive() -> None:
    goodput = goodput_of([attempt(0.0, range(80), at=20.0)], unit="step")
    assert goodput is not None
    assert goodput.share == pytest.approx(0.8)
    assert (goodput.startup_s, goodput.wall_s) == pytest.approx((20.0, 100.0))
    assert goodput.text == "80 %: 1m 20s of training in 1m 40s"


def test_repeated_steps_are_lost_and_the_time_between_attempts_is_not_productive() -> None:
    first = attempt(0.0, range(100), at=10.0, cut=60)
    second = attempt(150.0, range(60, 120), at=160.0)
    goodput = goodput_of([first, second], unit="step")
    assert goodput is not None
    assert goodput.productive_s == pytest.approx(60.0 + 60.0)
    assert (goodput.lost_steps, goodput.lost_s) == pytest.approx((40, 40.0))
    assert (goodput.down_s, goodput.startup_s) == pytest.approx((40.0, 20.0))
    assert (
        goodput.text == "55 %: 2m 00s of training in 3m 40s; 40 steps (40s) were lost in 1 restart"
    )


def test_the_parts_add_up_to_the_wall_time_whatever_the_attempts() -> None:
    attempts = [
        attempt(0.0, range(50), at=5.0, cut=10),
        attempt(40.0, range(30, 31), at=61.0, cut=10),  # began before the first had ended
        attempt(90.0, range(10, 10), at=95.0),  # logged no step
        attempt(100.0, range(10, 400), at=101.0, step_s=0.5),
    ]
    goodput = goodput_of(attempts, until=1000.0, unit="step")
    assert goodput is not None
    rest = goodput.startup_s + goodput.paused_s + goodput.down_s + goodput.lost_s
    assert goodput.productive_s + rest == pytest.approx(goodput.wall_s)
    assert goodput.paused_s == pytest.approx(704.0)  # nothing after the last step
    assert goodput.lost_steps == 40 + 1


def test_a_step_that_is_logged_seldom_began_after_the_one_before() -> None:
    every_ten = AttemptTimes(0.0, 100.0, np.arange(9, 100, 10), np.arange(10.0, 101.0, 10.0))
    goodput = goodput_of([every_ten], unit="step")
    assert goodput is not None
    assert goodput.share == pytest.approx(1.0)


@pytest.mark.parametrize(("evaluated", "paused_s"), [([], 600.0), ([50], 0.0)])
def test_a_single_long_gap_is_a_pause_unless_there_was_an_evaluation(
    evaluated: list[int], paused_s: float
) -> None:
    times = np.arange(1.0, 101.0)
    times[50:] += 599.0
    steps = np.arange(100)
    run = AttemptTimes(0.0, 699.0, steps, times, evaluated=np.array(evaluated, dtype=np.int64))
    goodput = goodput_of([run], unit="step")
    assert goodput is not None
    assert goodput.paused_s == pytest.approx(paused_s)


def test_advice_names_the_largest_part() -> None:
    lost = [attempt(0.0, range(1000), at=0.0, cut=100), attempt(1001.0, range(100, 300), at=1002.0)]
    goodput = goodput_of(lost, unit="step")
    assert goodput is not None
    assert goodput.advice == "Save checkpoints more often: 15m 00s of training had to be repeated."


def test_nothing_is_known_before_the_first_step() -> None:
    assert goodput_of([], unit="step") is None
    assert goodput_of([attempt(0.0, range(0), at=5.0)], unit="step") is None
