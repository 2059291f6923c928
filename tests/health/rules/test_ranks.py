from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rules.ranks import RankTable, ReplicaDrift, SilentRun, Straggler
from tests.health.machine_records import START, Entry, gpu, metrics, noisy, opened, step, system


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


def timed(levels: list[float], *, share: float = 0.02, count: int = 20) -> list[Entry]:
    """The phases of ranks that take so many milliseconds for their work, and wait for the rest."""
    times = [noisy(level, share, count, seed=rank) for rank, level in enumerate(levels)]
    entries: list[Entry] = []
    for number in range(count):
        record = {"log": "phases", "t": START + number, "step": 50 * number, "steps": 50}
        for rank in range(len(levels)):
            sync = 200.0 - times[rank][number]
            entries.append((rank, {**record, "wall_ms": 200.0, "m": {"phase/sync": sync}}))
    return entries


def test_the_slow_rank_is_named() -> None:
    (found,) = opened(Straggler, timed([100, 101, 160, 99]))
    assert found.sentence.startswith("All ranks wait for rank 2: it takes 16")
    assert found.evidence["rank"] == 2


def test_the_slow_rank_is_named_with_its_host() -> None:
    hosts = ["node-a", "node-a", "node-b", "node-b"]
    headers: list[Entry] = [
        (rank, {"log": "run", "t": START, "host": host}) for rank, host in enumerate(hosts)
    ]
    (found,) = opened(Straggler, [*headers, *timed([100, 101, 160, 99])])
    assert found.sentence.startswith("All ranks wait for rank 2 on node-b: it takes 16")
    assert found.evidence["host"] == "node-b"


def test_ranks_that_differ_a_little_are_left_alone() -> None:
    assert opened(Straggler, timed([100, 103, 97, 110], count=40)) == []


def test_noise_makes_no_straggler() -> None:
    # A record is the mean of fifty steps, each of which varies by 15 %.
    assert opened(Straggler, timed([100] * 8, share=0.15 / 50**0.5, count=1000)) == []


def test_a_rank_that_is_slow_for_a_moment_is_no_straggler() -> None:
    entries = [*timed([20, 20], count=5), *timed([20, 40], count=2), *timed([20, 20], count=9)]
    assert opened(Straggler, entries) == []


def test_a_short_run_with_few_phases_is_enough() -> None:
    entries: list[Entry] = []
    for number in range(3):
        for rank, (forward, backward) in ((1, (31.0, 6.0)), (0, (1.0, 36.0))):
            record = {"log": "phases", "t": START + number, "step": 200 * number, "steps": 200}
            phases = {"phase/forward": forward, "phase/backward": backward}
            entries.append((rank, {**record, "wall_ms": 42.0, "m": phases}))
    (found,) = opened(Straggler, entries)
    assert found.series == "rank 1"


def of_two(*, first: float, second: float, evaluation: float = 0.0) -> list[Entry]:
    """Two ranks that exchange buffers as a pass begins; the first one evaluates."""
    entries: list[Entry] = []
    wall = 60.0 + max(first + evaluation, second)
    for number in range(8):
        for rank, forward in ((0, first), (1, second)):
            other = 10.0 + (evaluation if rank == 0 else 0.0)
            sync = wall - 50.0 - forward - other
            record = {"log": "phases", "t": START + number, "step": 200 * number, "steps": 200}
            phases = {"phase/forward": forward, "phase/backward": 40.0, "phase/data": 10.0}
            phases |= {"phase/other": other, "phase/sync": sync}
            entries.append((rank, {**record, "wall_ms": wall, "m": phases}))
    return entries


def test_the_wait_for_buffers_is_no_work() -> None:
    (found,) = opened(Straggler, of_two(first=10.0, second=45.0))
    assert found.series == "rank 1"
    # The evaluations of the first rank, in no phase, make up for some of it.
    (found,) = opened(Straggler, of_two(first=10.0, second=45.0, evaluation=20.0))
    assert found.series == "rank 1"
    assert opened(Straggler, of_two(first=10.0, second=20.0)) == []
    assert opened(Straggler, of_two(first=10.0, second=10.0, evaluation=20.0)) == []


def test_weights_that_part_are_found_and_the_rank_is_named() -> None:
    entries: list[Entry] = [
        (rank, metrics(number, {"params/a/norm": 10.0 + 0.05 * (rank == 3 and number >= 20)}))
        for number in range(40)
        for rank in range(4)
    ]
    (found,) = opened(ReplicaDrift, entries)
    assert found.severity == "error"
    assert found.steps == (20, 22)
    assert "rank 3 has" in found.sentence


def test_shards_differ_from_the_beginning() -> None:
    entries: list[Entry] = [
        (rank, metrics(number, {"params/a/norm": 10.0 + rank + 0.01 * number}))
        for number in range(200)
        for rank in range(4)
    ]
    assert opened(ReplicaDrift, entries) == []


def test_gradients_that_were_never_exchanged_show_in_the_weights_and_the_norms() -> None:
    records: list[Entry] = [(rank, {"log": "run", "t": 0.0, "rank": rank}) for rank in (0, 1)]
    norms = [noisy(1.0, 0.1, 60, seed=rank) for rank in (0, 1)]
    for n in range(60):
        for rank in (0, 1):
            records.append((rank, step(n, norm=norms[rank][n], loss=2.0)))
            if n % 10 == 0:
                values = {"params/a/norm": 3.0 + 0.01 * n * (1 + rank), "params/b/norm": 5.0}
                records.append((rank, metrics(n, values)))
    found = opened(ReplicaDrift, records)
    assert [(f.series, f.severity) for f in found] == [
        ("params/a/norm", "error"),
        ("train/norm of all ranks", "warning"),
    ]
    assert "not exchanged" in found[1].sentence


def test_weights_of_shards_differ_from_the_first() -> None:
    records: list[Entry] = [
        (rank, metrics(10 * n, {"params/a/norm": 3.0 + rank + 0.01 * n}))
        for n in range(12)
        for rank in (0, 1)
    ]
    assert opened(ReplicaDrift, records) == []


def test_a_row_is_complete_when_every_known_rank_is_in_it() -> None:
    table = RankTable()
    assert table.push(1, 0, 0.5) is None
    assert table.push(1, 1, 0.6) == {0: 0.5, 1: 0.6}
    assert table.push(2, 2, 0.1) is None
    assert table.push(2, 0, 0.1) is None
    assert table.push(2, 1, 0.1) == {2: 0.1, 0: 0.1, 1: 0.1}


def test_steps_that_others_skip_do_not_pile_up() -> None:
    table = RankTable()
    for number in range(10_000):
        table.push(number, 0, 1.0)
    assert table.push(9_999, 1, 2.0) == {0: 1.0, 1: 2.0}
    assert table.push(0, 1, 2.0) is None


def test_a_value_that_is_not_finite_voids_its_row() -> None:
    table = RankTable()
    table.push(1, 0, 1.0)
    assert table.push(1, 1, float("nan")) is None
