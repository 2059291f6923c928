from epochal.health.rules.values import LogOrder
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.machine_records import metrics, opened


def in_time(records: list[Record]) -> list[Record]:
    """The records a second apart, whatever their steps."""
    return [{**record, "t": 1.7e9 + number} for number, record in enumerate(records)]


def test_steps_that_go_back_are_a_warning() -> None:
    records = in_time(steps(falling(300)) + steps(falling(50), first=100))
    (found,) = opened(LogOrder, records)
    assert "went back from 299 to 100" in found.sentence


def test_a_counter_that_stands_is_a_warning() -> None:
    records = steps(falling(100))
    for record in records[50:]:
        record["step"] = 50
    (found,) = opened(LogOrder, records)
    assert "stays at 50" in found.sentence


def test_a_counter_that_starts_anew_each_epoch_gets_one_finding() -> None:
    (found,) = opened(LogOrder, in_time(steps(falling(50)) * 5))
    assert "went back from 49 to 0" in found.sentence


def test_a_resume_goes_back_by_right() -> None:
    resume = {"log": "resume", "t": 1.7e9 + 400, "attempt": 2, "step": 100}
    assert opened(LogOrder, [*steps(falling(300)), resume, *steps(falling(50), first=100)]) == []


def test_sparse_and_uneven_logging_is_fine() -> None:
    records = steps(falling(500))
    for n, record in enumerate(records):
        record["step"] = 100 * n + (7 if n % 10 == 0 else 0)
    assert opened(LogOrder, records) == []


def test_a_clock_that_goes_back_is_a_warning() -> None:
    records = steps(falling(200))
    for record in records[100:]:
        record["t"] -= 120
    (found,) = opened(LogOrder, records)
    assert "went back by 1m 59s at step 100" in found.sentence


def test_evaluations_saves_and_jitter_are_fine() -> None:
    records = steps(falling(500))
    for n, record in enumerate(records):
        record["t"] += 300 * (n // 100) - 0.3 * (n % 2)
    assert opened(LogOrder, records) == []


def test_a_watched_layer_written_after_its_step_is_fine() -> None:
    records = []
    for number, record in enumerate(steps(falling(60))):
        record["t"] += 2 * number
        watched = metrics(number, {"params/a/norm": 1.0, "grads/a/norm": 0.5})
        watched["t"] = record["t"] - 1.7  # taken when the optimizer stepped
        records += [record, watched]
    assert opened(LogOrder, records) == []


def test_losses_that_waited_for_their_gpu_are_fine() -> None:
    late = []
    for number, record in enumerate(steps(falling(100))):
        late.append(record)
        if number % 10 == 0:
            watched = metrics(number, {"params/a/norm": 1.0})
            watched["t"] = record["t"] + 5.0  # the program is five steps ahead of its GPU
            late.append(watched)
    assert opened(LogOrder, late) == []


def test_a_clock_that_goes_back_is_one_finding() -> None:
    records = []
    for number, record in enumerate(steps(falling(200))):
        records.append(record)
        if number % 10 == 0:
            records.append(metrics(number, {"params/a/norm": 1.0}))
    for record in records[110:]:
        record["t"] -= 3600
    (found,) = opened(LogOrder, records)
    assert "went back by 59m 59s at step 100" in found.sentence
