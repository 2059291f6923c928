from epochal.health.rules.clock_anomaly import ClockAnomaly
from tests.health.curve_records import falling, steps
from tests.health.machine_records import opened


def test_a_clock_that_goes_back_is_a_warning() -> None:
    records = steps(falling(200))
    for record in records[100:]:
        record["t"] -= 120
    (found,) = opened(ClockAnomaly, records)
    assert "went back by 1m 59s at step 100" in found.sentence


def test_hours_within_a_step_are_a_warning() -> None:
    records = steps(falling(200), duration_ms=900.0)
    for record in records[100:]:
        record["t"] += 7200
    (found,) = opened(ClockAnomaly, records)
    assert "2h 00m passed before step 100" in found.sentence


def test_evaluations_saves_and_jitter_are_fine() -> None:
    records = steps(falling(500))
    for n, record in enumerate(records):
        record["t"] += 300 * (n // 100) - 0.3 * (n % 2)
    assert opened(ClockAnomaly, records) == []
