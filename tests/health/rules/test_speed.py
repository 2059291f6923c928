from typing import Any

import pytest

from epochal.health.rules.speed import GpuThrottling, InputBound, ThroughputDrop
from epochal.records import Record
from tests.health.machine_records import START, gpu, noisy, opened, step, updated


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


def phases(number: int, data_ms: float) -> Record:
    metrics = {"phase/data": data_ms, "phase/forward": 60.0}
    record = {"log": "phases", "t": START + number, "step": 50 * number + 49, "steps": 50}
    return {**record, "wall_ms": 60.0 + data_ms, "m": metrics}


def test_waiting_for_data_is_found_from_phases() -> None:
    (found,) = opened(InputBound, [phases(n, 40.0) for n in range(4)])
    assert "40 % of each step" in found.sentence
    assert (found.steps, found.severity) == ((50, 149), "warning")


def test_one_slow_moment_of_a_busy_machine_is_no_slow_loader() -> None:
    waits = [4.0, 4.0, 50.0, 4.0, 4.0, 50.0, 4.0]
    assert opened(InputBound, [phases(n, ms) for n, ms in enumerate(waits)]) == []


def test_a_fifth_of_a_step_is_no_fault() -> None:
    assert opened(InputBound, [phases(n, 19.0) for n in range(20)]) == []


def test_most_of_a_step_is_an_error() -> None:
    waits = [4.0, 4.0, 300.0, 300.0]
    found = opened(InputBound, [phases(n, ms) for n, ms in enumerate(waits)])
    assert [one.severity for one in found] == ["warning", "error"]


def test_workers_may_take_their_time_to_start() -> None:
    records = [phases(0, 400.0), *(phases(n, 2.0) for n in range(1, 5))]
    assert opened(InputBound, records) == []


def loader(number: int, share: float, wait_ms: float) -> Record:
    values = {"time/data_wait": share, "time/data_wait_ms": wait_ms}
    return {"log": "metrics", "t": START + number, "step": 50 * number + 49, "m": values}


def test_waiting_for_a_loader_is_found_unless_the_gpu_is_busy() -> None:
    waits = [loader(n, 0.7, 20.0) for n in range(3)]
    (found,) = opened(InputBound, waits)
    assert "waits for its data loader 70 % of the time, 20.0 ms" in found.sentence
    busy = {"log": "gpu", "t": START, "step": 0, "id": 0, "gpu_util": 97}
    assert opened(InputBound, [busy, *waits]) == []
    assert opened(InputBound, [loader(n, 0.7, 1.0) for n in range(3)]) == []
    assert opened(InputBound, [loader(0, 0.7, 20.0), loader(1, 0.1, 1.0)]) == []


def test_pauses_of_a_few_milliseconds_are_the_making_of_batches() -> None:
    records = [step(n, t=START + 0.006 * n, duration_ms=1.2) for n in range(60)]
    assert opened(InputBound, records) == []
    slower = [step(n, t=START + 0.020 * n, duration_ms=4.0) for n in range(60)]
    assert len(opened(InputBound, slower)) == 1


def test_a_game_is_played_between_its_steps() -> None:
    reward = {"log": "metrics", "t": START, "step": 0, "m": {"reward": 1.0}}
    records = [step(n, t=START + n, duration_ms=200.0) for n in range(60)]
    assert opened(InputBound, [reward, *records]) == []


def test_steps_that_follow_each_other_are_left_alone() -> None:
    assert opened(InputBound, [step(n, duration_ms=950.0) for n in range(60)]) == []


def test_pauses_are_a_note_if_they_come_at_every_step() -> None:
    (found,) = opened(InputBound, [step(n, t=START + n, duration_ms=300.0) for n in range(60)])
    assert found.severity == "info"
    assert "70 % of the time passes between the steps" in found.sentence
    # A busy machine stops the loop at some steps.
    often = [step(n, t=START + n, duration_ms=300.0 if n % 3 else 950.0) for n in range(60)]
    assert opened(InputBound, often) == []


def run(speeds: list[float]) -> list[Record]:
    return [step(n, tokens_per_second=speed) for n, speed in enumerate(speeds)]


def test_a_lasting_drop_is_found_within_a_minute() -> None:
    (found,) = opened(ThroughputDrop, run(noisy(1000, 0.03, 200) + noisy(600, 0.03, 60)))
    assert found.steps is not None
    assert found.steps[0] == 200
    assert found.t - START <= 260
    assert "tokens/s, at step 200" in found.sentence
    assert 0.38 < float(found.evidence["less"]) < 0.42
    assert found.series == "train/tokens_per_second"


def test_pauses_for_evaluation_and_saving_are_no_drop() -> None:
    speeds = noisy(1000, 0.05, 1000)
    for slow in range(50, 1000, 50):
        speeds[slow] = speeds[slow + 1] = 100.0
    assert opened(ThroughputDrop, run(speeds)) == []


def test_wide_noise_is_no_drop() -> None:
    assert opened(ThroughputDrop, run([max(1.0, v) for v in noisy(1000, 0.3, 5000)])) == []


def test_a_slow_start_is_no_drop() -> None:
    assert opened(ThroughputDrop, run([10.0] * 8 + noisy(1000, 0.03, 300))) == []


def test_it_closes_when_the_speed_is_back() -> None:
    speeds = noisy(1000, 0.03, 200) + noisy(500, 0.03, 60) + noisy(1000, 0.03, 80)
    assert [f.state for f in updated(ThroughputDrop, run(speeds))] == ["open", "closed"]


def test_without_a_throughput_the_time_between_records_counts() -> None:
    t, records = START, []
    for number in range(300):
        t += 1.0 if number < 200 else 2.0
        records.append({"log": "metrics", "t": t, "step": number, "m": {"loss": 1.0}})
    (found,) = opened(ThroughputDrop, records)
    assert "steps/s" in found.sentence


def test_a_resumed_run_learns_its_speed_anew() -> None:
    records = run(noisy(1000, 0.03, 200))
    records.append({"log": "resume", "t": START + 200, "attempt": 2, "step": 200})
    records += [step(200 + n, tokens_per_second=v) for n, v in enumerate(noisy(400, 0.03, 200))]
    assert opened(ThroughputDrop, records) == []


def test_a_pause_before_a_drop_is_not_its_beginning() -> None:
    speeds = [*noisy(1000, 0.03, 190), 40.0, 30.0, *noisy(1000, 0.03, 8), *noisy(400, 0.03, 60)]
    (found,) = opened(ThroughputDrop, run(speeds))
    assert found.steps is not None
    assert found.steps[0] == 200
    assert "at step 200" in found.sentence


def test_a_drop_is_a_warning_only_if_the_machine_has_time_left() -> None:
    slower = run(noisy(1000, 0.03, 200) + noisy(600, 0.03, 60))
    severities = []
    for percent in (40.0, 97.0):
        busy: Record = {"log": "system", "t": START, "cpu_pct": percent}
        (found,) = opened(ThroughputDrop, [busy, *slower])
        severities.append(found.severity)
    assert severities == ["warning", "info"]


@pytest.mark.parametrize("seconds", [10.0, 13.0, 18.0, 22.0, 40.0])
def test_a_drop_is_found_however_far_apart_records_are(seconds: float) -> None:
    speeds = noisy(1000, 0.03, 100) + noisy(600, 0.03, 10)
    records = [
        step(n, t=START + seconds * n, tokens_per_second=speed) for n, speed in enumerate(speeds)
    ]
    assert len(opened(ThroughputDrop, records)) == 1
