from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rules.silent_run import SilentRun
from tests.health.machine_records import START, gpu, step, system


def lively(steps: int = 100) -> Health:
    health = Health(rules=[SilentRun])
    for number in range(steps):
        health.feed(step(number))
    return health


def quiet(health: Health, seconds: int, *, since: int = 100) -> list[Finding]:
    return [f for s in range(seconds) for f in health.tick(START + since + s)]


def test_silence_is_noted_and_becomes_a_warning() -> None:
    found = quiet(lively(), 400)
    assert [f.severity for f in found] == ["info", "warning"]
    assert found[0].t - START < 160
    assert "the last was step 99" in found[0].sentence


def test_silence_beside_an_idle_machine_is_a_warning_at_once() -> None:
    health = lively()
    for number in range(10, 18):
        records = (system(number, process_cpu_pct=0.5), gpu(number, gpu_util=0.0))
        found = [f for record in records for f in health.feed(record, writer="telemetry-node")]
        if found:
            break
    (first,) = found
    assert first.severity == "warning"
    assert "are idle" in first.sentence


def test_evaluations_as_long_as_the_last_ones_are_no_silence() -> None:
    health = lively()
    health.feed(step(100, t=START + 160))
    assert quiet(health, 100, since=160) == []


def test_a_run_that_has_ended_may_be_silent() -> None:
    health = lively()
    health.feed({"log": "finish", "t": START + 100, "status": "finished"})
    assert quiet(health, 1000) == []


def test_a_run_that_has_hardly_begun_may_be_silent() -> None:
    assert quiet(lively(3), 1000, since=3) == []


def test_it_closes_with_the_next_record() -> None:
    health = lively()
    quiet(health, 100)
    (closed,) = health.feed(step(100, t=START + 250))
    assert closed.state == "closed"
