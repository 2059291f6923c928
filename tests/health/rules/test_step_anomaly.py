from epochal.health.engine import Health
from epochal.health.rules.step_anomaly import StepAnomaly
from tests.health.curve_records import falling, steps
from tests.health.machine_records import opened


def test_steps_that_go_back_are_a_warning() -> None:
    (found,) = opened(StepAnomaly, steps(falling(300)) + steps(falling(50), first=100))
    assert "went back from 299 to 100" in found.sentence


def test_a_counter_that_stands_is_a_warning() -> None:
    records = steps(falling(100))
    for record in records[50:]:
        record["step"] = 50
    (found,) = opened(StepAnomaly, records)
    assert "stays at 50" in found.sentence


def test_a_counter_that_starts_anew_each_epoch_gets_one_finding_that_counts() -> None:
    records = steps(falling(50)) * 5
    health = Health(rules=[StepAnomaly])
    news = [finding for record in records for finding in health.feed(record)]
    assert len(news) == 1
    (again,) = [finding for finding in health.open_findings if finding.id == news[0].id]
    assert "went back 4 times, at first from 49 to 0" in again.sentence


def test_a_resume_goes_back_by_right() -> None:
    resume = {"log": "resume", "t": 1.7e9 + 400, "attempt": 2, "step": 100}
    assert opened(StepAnomaly, [*steps(falling(300)), resume, *steps(falling(50), first=100)]) == []


def test_sparse_and_uneven_logging_is_fine() -> None:
    records = steps(falling(500))
    for n, record in enumerate(records):
        record["step"] = 100 * n + (7 if n % 10 == 0 else 0)
    assert opened(StepAnomaly, records) == []
