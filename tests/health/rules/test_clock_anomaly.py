from epochal.health.rules.clock_anomaly import ClockAnomaly
from tests.health.curve_records import falling, steps
from tests.health.machine_records import metrics, opened


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
    assert "2h 00m passed at step 100" in found.sentence


def test_evaluations_saves_and_jitter_are_fine() -> None:
    records = steps(falling(500))
    for n, record in enumerate(records):
        record["t"] += 300 * (n // 100) - 0.3 * (n % 2)
    assert opened(ClockAnomaly, records) == []


def test_a_watched_layer_written_after_its_step_is_fine() -> None:
    records = []
    for number, record in enumerate(steps(falling(60))):
        record["t"] += 2 * number
        watched = metrics(number, {"params/a/norm": 1.0, "grads/a/norm": 0.5})
        watched["t"] = record["t"] - 1.7  # taken when the optimizer stepped
        records += [record, watched]
    assert opened(ClockAnomaly, records) == []


def test_losses_that_waited_for_their_gpu_are_fine() -> None:
    late = []
    for number, record in enumerate(steps(falling(100))):
        late.append(record)
        if number % 10 == 0:
            watched = metrics(number, {"params/a/norm": 1.0})
            watched["t"] = record["t"] + 5.0  # the program is five steps ahead of its GPU
            late.append(watched)
    assert opened(ClockAnomaly, late) == []


def test_a_clock_that_goes_back_is_told_once_for_all_kinds_of_records() -> None:
    records = []
    for number, record in enumerate(steps(falling(200))):
        records.append(record)
        if number % 10 == 0:
            records.append(metrics(number, {"params/a/norm": 1.0}))
    for record in records[110:]:
        record["t"] -= 3600
    (found,) = opened(ClockAnomaly, records)
    assert "went back by 59m 59s at step 100" in found.sentence
