from collections.abc import Callable

from epochal.telemetry.counters import Rates


def ticking(*seconds: float) -> Callable[[], float]:
    times = iter(seconds)
    return lambda: next(times)


def test_a_rate_needs_two_looks() -> None:
    rates = Rates(ticking(0.0, 2.0))
    assert rates.since_last({"read": 100}) == {}
    assert rates.since_last({"read": 300}) == {"read": 100}


def test_a_counter_that_steps_back_or_is_new_has_no_rate() -> None:
    rates = Rates(ticking(0.0, 1.0))
    rates.since_last({"read": 100})
    assert rates.since_last({"read": 10, "write": 5}) == {}


def test_no_time_is_no_rate() -> None:
    rates = Rates(ticking(1.0, 1.0))
    rates.since_last({"read": 1})
    assert rates.since_last({"read": 2}) == {}
