from epochal.companion.slow_steps import SlowSteps, Stretch


def stretches(times: list[float], *, every: int = 1) -> list[Stretch]:
    slow = SlowSteps()
    records = [{"log": "step", "step": every * i, "t": t} for i, t in enumerate(times)]
    return [found for record in records if (found := slow.take(record)) is not None]


def test_a_step_that_took_many_times_the_usual_is_a_stretch() -> None:
    times = [0.2 * i for i in range(50)]
    times.append(times[-1] + 4.0)
    (stretch,) = stretches(times)
    assert (stretch.start, stretch.end, stretch.step) == (times[-2], times[-1], 50)
    assert stretch.sentence == "step 50 took 4.0 s, 20.0 times the usual"


def test_even_and_short_steps_are_none() -> None:
    assert stretches([2.0 * i for i in range(50)]) == []
    short = [0.01 * i for i in range(50)]
    assert stretches([*short, short[-1] + 0.5]) == []


def test_the_first_steps_may_take_long() -> None:
    assert stretches([0.0, 0.2, 0.4, 9.0]) == []


def test_steps_that_were_not_logged_count() -> None:
    times = [2.0 * i for i in range(50)]
    assert stretches([*times, times[-1] + 4.0], every=10) == []
    assert len(stretches([*times, times[-1] + 8.0], every=10)) == 1


def test_a_run_that_goes_back_is_not_slow() -> None:
    slow = SlowSteps()
    for step in range(30):
        slow.take({"log": "metrics", "step": step, "t": float(step)})
    assert slow.take({"log": "metrics", "step": 5, "t": 500.0}) is None
    assert slow.take({"log": "metrics", "t": 600.0, "step": "x"}) is None
