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


def of_ranks(stops: dict[int, float], *, going: frozenset[int] = frozenset()) -> list[Finding]:
    """Ranks that log once a second until their time, in two hosts; those that go on never stop."""
    health = Health(rules=[SilentRun])
    for rank in stops:
        host = f"node-{'ab'[rank // 2]}"
        header = {"log": "run", "t": START, "rank": rank, "host": host}
        health.feed(header, rank=rank, writer="loop" if rank == 0 else f"rank-{rank:04d}")
    found: list[Finding] = []
    for number in range(200):
        for rank, stop in stops.items():
            if number <= stop or rank in going:
                record = step(number, t=START + number + 0.01 * rank)
                writer = "loop" if rank == 0 else f"rank-{rank:04d}"
                found += health.feed(record, rank=rank, writer=writer)
        found += health.tick(START + number + 0.5)
    return found


def test_the_rank_that_did_not_reach_the_last_step_stopped_first() -> None:
    (found,) = of_ranks({0: 101, 1: 101, 2: 100, 3: 101})
    assert "The first to stop was rank 2 on node-b; the last of the others" in found.sentence
    assert (found.evidence["rank"], found.evidence["host"]) == (2, "node-b")
    assert "the last was step 100" in found.sentence


def test_a_rank_that_stops_alone_is_named_while_the_others_go_on() -> None:
    (found,) = of_ranks({0: 100, 1: 100, 2: 100, 3: 50}, going=frozenset({0, 1, 2}))
    assert found.sentence.startswith("A rank has logged nothing for 45")
    assert "It is rank 3 on node-b; the other ranks go on." in found.sentence


def test_ranks_that_stop_together_are_not_told_apart() -> None:
    (found,) = of_ranks({0: 100, 1: 100, 2: 100, 3: 100})
    assert "The ranks stopped at about the same time." in found.sentence
    assert "rank" not in found.evidence


def test_a_rank_that_only_printed_at_the_start_is_not_silent() -> None:
    health = lively(3)
    for line in range(20):
        message = {"log": "message", "t": START + line, "text": "hello"}
        health.feed(message, rank=1, writer="rank-0001")
    assert [f for n in range(3, 900) for f in health.feed(step(n)) + health.tick(START + n)] == []


def test_the_finding_closes_when_the_rank_that_stopped_goes_on() -> None:
    health = Health(rules=[SilentRun])
    found: list[Finding] = []
    for number in range(200):
        found += health.feed(step(number))
        if not 50 < number < 150:
            found += health.feed(step(number), rank=1, writer="rank-0001")
        found += health.tick(START + number + 0.5)
    assert [(f.state, f.t - START) for f in found] == [("open", 95.5), ("closed", 150.0)]


def test_ranks_that_wait_while_rank_0_evaluates_are_not_silent() -> None:
    health = lively()
    for number in range(100):
        health.feed(step(number), rank=1, writer="rank-0001")
    found: list[Finding] = []
    for second in range(1000):
        evaluation = {"log": "metrics", "step": 99, "m": {"eval/batch": second}}
        found += health.feed({**evaluation, "t": START + 100 + second})
        found += health.tick(START + 100 + second)
    assert found == []


def test_a_rank_that_logs_seldom_does_not_hide_the_silence_of_another() -> None:
    health = Health(rules=[SilentRun])
    found: list[Finding] = []
    for number in range(1000):
        if number < 700:
            found += health.feed(step(number))
        if number < 700 and number % 60 == 0:
            found += health.feed(step(number), rank=1, writer="rank-0001")
        found += health.tick(START + number)
    assert found[0].t == START + 745
    assert "stopped at about the same time" in found[0].sentence
