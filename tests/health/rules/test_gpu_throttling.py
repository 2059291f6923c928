from typing import Any

from epochal.health.rules.gpu_throttling import GpuThrottling
from epochal.records import Record
from tests.health.machine_records import START, gpu, opened, updated


def work(number: int, clock: float, throttle: str, **fields: Any) -> Record:
    state = {"clock": clock, "max_clock": 1980, "gpu_util": 95.0, "throttle": throttle}
    return gpu(number, **state, **fields)


def test_heat_is_found_within_a_minute_with_its_cost() -> None:
    cool = [work(n, 1975, "") for n in range(20)]
    hot = [work(n, 1200, "thermal cap", temperature=90) for n in range(20, 30)]
    found, *_ = opened(GpuThrottling, cool + hot)
    assert found.t - (START + 200) <= 60
    assert "throttled by heat at 90 °C" in found.sentence
    assert "39 % less" in found.sentence


def test_touching_the_power_limit_is_how_dense_work_looks() -> None:
    assert opened(GpuThrottling, [work(n, 1650, "power cap") for n in range(500)]) == []


def test_a_low_power_limit_is_noted() -> None:
    (found,) = opened(GpuThrottling, [work(n, 1100, "power cap") for n in range(10)])
    assert found.severity == "info"
    assert "its power limit" in found.sentence


def test_a_power_limit_that_comes_down_is_a_warning() -> None:
    records = [work(n, 1900 if n < 20 else 1300, "power cap") for n in range(30)]
    (found,) = opened(GpuThrottling, records)
    assert found.severity == "warning"
    assert "instead of 1900" in found.sentence


def test_an_idle_gpu_lowers_its_clock_by_itself() -> None:
    records = [gpu(n, clock=210, max_clock=1980, gpu_util=0.0, throttle="idle") for n in range(50)]
    assert opened(GpuThrottling, records) == []


def test_a_moment_of_heat_is_not_a_finding() -> None:
    records = [work(n, 1975, "thermal cap" if n % 20 == 0 else "") for n in range(200)]
    assert opened(GpuThrottling, records) == []


def test_it_closes_when_the_clock_is_back() -> None:
    records = [
        work(n, 1000 if 20 <= n < 30 else 1975, "thermal cap" if 20 <= n < 30 else "")
        for n in range(40)
    ]
    opening, closing = updated(GpuThrottling, records)
    assert (opening.state, closing.state) == ("open", "closed")
    assert opening.sentence.endswith("for 20s.")
    assert closing.sentence.endswith("for 1m 40s.")


def test_each_gpu_has_its_own_finding() -> None:
    records = [
        {**work(n, clock, "thermal cap"), "id": place}
        for n in range(6)
        for place, clock in enumerate((1200, 1300))
    ]
    found = opened(GpuThrottling, records)
    assert sorted(str(f.series) for f in found) == ["gpu/0/clock", "gpu/1/clock"]
