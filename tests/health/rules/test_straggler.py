from epochal.health.rules.straggler import Straggler
from tests.health.machine_records import START, Entry, noisy, opened, step


def run(levels: list[float], *, share: float = 0.02, steps: int = 100) -> list[Entry]:
    times = [noisy(level, share, steps, seed=rank) for rank, level in enumerate(levels)]
    return [
        (rank, step(number, duration_ms=times[rank][number]))
        for number in range(steps)
        for rank in range(len(levels))
    ]


def test_the_slow_rank_is_named() -> None:
    (found,) = opened(Straggler, run([100, 101, 160, 99]))
    assert found.sentence.startswith("All ranks wait for rank 2: it takes 159")
    assert found.evidence["rank"] == 2


def test_the_slow_rank_is_named_with_its_host() -> None:
    hosts = ["node-a", "node-a", "node-b", "node-b"]
    headers: list[Entry] = [
        (rank, {"log": "run", "t": START, "host": host}) for rank, host in enumerate(hosts)
    ]
    (found,) = opened(Straggler, [*headers, *run([100, 101, 160, 99])])
    assert found.sentence.startswith("All ranks wait for rank 2 on node-b: it takes 159")
    assert found.evidence["host"] == "node-b"


def test_ranks_that_differ_a_little_are_left_alone() -> None:
    assert opened(Straggler, run([100, 103, 97, 110], steps=400)) == []


def test_noise_makes_no_straggler() -> None:
    assert opened(Straggler, run([100] * 8, share=0.15, steps=1000)) == []


def test_a_rank_that_is_slow_for_a_moment_is_no_straggler() -> None:
    entries: list[Entry] = []
    for number in range(200):
        for rank in range(2):
            is_slow = rank == 1 and 100 <= number < 125
            entries.append((rank, step(number, duration_ms=40.0 if is_slow else 20.0)))
    assert opened(Straggler, entries) == []


def test_phases_tell_who_makes_the_others_wait() -> None:
    entries: list[Entry] = []
    for number in range(10):
        for rank in range(4):
            sync = 5.0 if rank == 3 else 65.0
            record = {"log": "phases", "t": START + number, "step": 50 * number, "steps": 50}
            entries.append((rank, {**record, "wall_ms": 165.0, "m": {"phase/sync": sync}}))
    (found,) = opened(Straggler, entries)
    assert found.series == "rank 3"


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
