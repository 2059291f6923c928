import pytest

from epochal.health.rules.throughput_drop import ThroughputDrop
from epochal.records import Record
from tests.health.machine_records import START, noisy, opened, step, updated


def run(speeds: list[float]) -> list[Record]:
    return [step(n, tokens_per_second=speed) for n, speed in enumerate(speeds)]


def test_a_lasting_drop_is_found_within_a_minute() -> None:
    (found,) = opened(ThroughputDrop, run(noisy(1000, 0.03, 200) + noisy(600, 0.03, 60)))
    assert found.steps is not None
    assert found.steps[0] == 200
    assert found.t - START <= 260
    assert "tokens/s, at step 200" in found.sentence
    assert 38 < float(found.evidence["less_pct"]) < 42
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
    speeds = noisy(1000, 0.03, 200) + noisy(500, 0.03, 60) + noisy(1000, 0.03, 60)
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
