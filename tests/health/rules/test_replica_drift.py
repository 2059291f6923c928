from epochal.health.rules.replica_drift import ReplicaDrift
from tests.health.machine_records import Entry, metrics, noisy, opened, step


def losses(apart: float, *, ranks: int = 4, steps: int = 120) -> list[Entry]:
    values = [noisy(2.0, 0.02, steps, seed=rank) for rank in range(ranks)]
    return [
        (rank, step(number, loss=values[rank][number] + apart * (rank == 2 and number > 50)))
        for number in range(steps)
        for rank in range(ranks)
    ]


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


def test_a_loss_that_leaves_the_others_is_found() -> None:
    found = opened(ReplicaDrift, losses(0.5))
    assert "train/loss of rank 2" in [f.series for f in found]


def test_losses_of_other_data_may_differ() -> None:
    assert opened(ReplicaDrift, losses(0.0, steps=2000)) == []


def test_two_ranks_give_one_finding() -> None:
    entries: list[Entry] = [
        (rank, step(n, loss=2.0 + 0.01 * ((7 * n + rank) % 5) + 0.5 * (rank and n > 50)))
        for n in range(120)
        for rank in range(2)
    ]
    assert len(opened(ReplicaDrift, entries)) == 1


def test_a_rank_that_comes_nearer_does_not_drift() -> None:
    apart = [(0.6 if n < 60 else 0.05) for n in range(200)]
    entries: list[Entry] = [
        (rank, step(n, loss=2.0 + 0.01 * ((7 * n + rank) % 5) + apart[n] * (rank == 2)))
        for n in range(200)
        for rank in range(4)
    ]
    assert [f for f in opened(ReplicaDrift, entries) if "rank 2" in (f.series or "")] == []


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
