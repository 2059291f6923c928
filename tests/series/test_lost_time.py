from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.series.lost_time import LostTime, explain_phases

SHARES = ("useful", "input_wait", "communication", "host", "clocks", "kernels", "other")


def phases(wall_ms: float = 100.0, **more: Any) -> dict[str, Any]:
    own = {name: more.pop(name) for name in list(more) if name not in ("ideal_ms", "host_bound")}
    means = {f"phase/{name}": mean for name, mean in own.items()}
    return {"log": "phases", "step": 99, "steps": 50, "wall_ms": wall_ms, "m": means, **more}


def explained(record: dict[str, Any], **more: Any) -> LostTime:
    lost = explain_phases(record, **more)
    assert lost is not None
    return lost


def test_what_computes_slower_than_light_is_lost_to_kernels() -> None:
    lost = explained(phases(forward=30.0, backward=60.0, other=10.0, ideal_ms=40.0))
    assert lost.useful == 40.0
    assert lost.kernels == pytest.approx(50.0)
    assert lost.other == pytest.approx(10.0)
    assert str(lost) == "40.0 % useful; lost to kernels 50.0 %, other 10.0 %"


def test_waiting_exchange_and_logging_are_what_their_phases_say() -> None:
    record = phases(data=20.0, sync=10.0, log=5.0, save=3.0, eval=2.0, step=60.0, ideal_ms=60.0)
    lost = explained(record)
    shares = (lost.input_wait, lost.communication, lost.host, lost.other)
    assert shares == pytest.approx((20.0, 10.0, 5.0, 5.0))
    assert lost.kernels == pytest.approx(0.0)


def test_where_the_gpu_always_caught_up_the_host_is_what_is_slow() -> None:
    lost = explained(phases(forward=100.0, ideal_ms=20.0, host_bound=0.75))
    assert lost.host == pytest.approx(60.0)
    assert lost.kernels == pytest.approx(20.0)


def test_how_busy_the_gpu_was_goes_before_a_guess() -> None:
    record = phases(data=30.0, forward=70.0, ideal_ms=20.0, host_bound=1.0)
    lost = explained(record, gpu={"gpu_util": 60.0})
    # 40 ms idle, of which 30 were spent waiting for data
    assert lost.host == pytest.approx(10.0)
    assert lost.kernels == pytest.approx(40.0)


def test_a_clock_below_the_one_of_the_peak_takes_its_share() -> None:
    gpu = {"clock": 1464, "max_clock": 1980, "throttle": "power cap", "gpu_util": 100}
    lost = explained(phases(forward=100.0, ideal_ms=40.0), gpu=gpu, peak_clock_mhz=1830)
    assert lost.clocks == pytest.approx(20.0)
    assert lost.kernels == pytest.approx(40.0)
    assert "clocks 20.0 % (power cap, 1464 of 1830 MHz)" in str(lost)


def test_a_clock_above_it_gives_nothing_back() -> None:
    lost = explained(phases(forward=100.0, ideal_ms=40.0), gpu={"clock": 1980}, peak_clock_mhz=1830)
    assert lost.clocks == 0.0
    assert lost.limit is None


def test_phases_that_end_before_their_work_still_add_up() -> None:
    # by the host's clock: launching took 10 ms, the waiting in the log phase all the rest
    lost = explained(phases(forward=10.0, log=85.0, other=5.0, ideal_ms=45.0))
    assert lost.useful == 45.0
    assert lost.host == pytest.approx(55.0 * 85 / 90)


def test_without_a_useful_time_there_is_no_answer() -> None:
    assert explain_phases(phases(forward=10.0)) is None
    assert explain_phases(phases(0.0, forward=10.0, ideal_ms=1.0)) is None
    assert explain_phases({"wall_ms": 1.0, "ideal_ms": 1.0}) is None


def test_a_useful_time_may_be_given() -> None:
    assert explained(phases(forward=100.0), ideal_ms=25.0).useful == 25.0


@given(
    st.dictionaries(
        st.sampled_from(["data", "forward", "mine", "sync", "log", "eval", "save", "other"]),
        st.floats(0, 1e4),
    ),
    st.floats(0.001, 1e5),
    st.floats(0, 1e5),
    st.none() | st.floats(0, 1),
    st.none() | st.floats(0, 120),
    st.none() | st.floats(0, 3000),
)
def test_shares_are_never_negative_and_add_up_to_100(
    means: dict[str, float],
    wall_ms: float,
    ideal_ms: float,
    host_bound: float | None,
    gpu_util: float | None,
    clock: float | None,
) -> None:
    record = phases(wall_ms, ideal_ms=ideal_ms, host_bound=host_bound, **means)
    lost = explained(record, gpu={"gpu_util": gpu_util, "clock": clock}, peak_clock_mhz=1830)
    shares = [getattr(lost, name) for name in SHARES]
    assert min(shares) >= -1e-6
    assert sum(shares) == pytest.approx(100.0)
