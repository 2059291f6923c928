"""Many runs that grow for a long time take no more memory than a few."""

from pathlib import Path

import pytest

from epochal.journal.layout import PartName
from epochal.store.local import columns, tail
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal

NUM_RUNS, NUM_BATCHES, STEPS = 6, 50, 10
BUDGET = 24 * 1024


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ALL_PARTS_BYTES", BUDGET)
    monkeypatch.setattr(columns, "_SMALLEST_PIECE", 1024)
    monkeypatch.setattr(columns, "_SMALLEST_BLOCK", 256)


@pytest.mark.usefixtures("_small_pieces")
def test_columns_of_live_runs_stay_within_one_budget(tmp_path: Path) -> None:
    journals = [Journal(tmp_path, f"r{number}") for number in range(NUM_RUNS)]
    with LocalStore(tmp_path, cache=tmp_path / "cache") as store:
        for batch in range(NUM_BATCHES):
            for journal in journals:
                steps = range(batch * STEPS, (batch + 1) * STEPS)
                journal.add(
                    *({"log": "metrics", "step": at, "m": {"a": at / 7, "b": at}} for at in steps),
                    *({"log": "step", "step": at, "loss": at / 3} for at in steps),
                )
            store.refresh()
            for run in store.runs():
                run.series("a")
            held = sum(run.held_bytes for run in store.runs())
            # A batch may come on top before its run is spilled.
            assert held <= BUDGET + NUM_RUNS * STEPS * 128
        run = store.run("r3")
        last = NUM_BATCHES * STEPS
        assert run.series("a").values.tolist() == [at / 7 for at in range(last)]
        assert run.series("train/loss").values.tolist() == [at / 3 for at in range(last)]


def test_the_starts_of_chunks_are_thinned_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_MARK_EVERY_BYTES", 4096)
    journal = Journal(tmp_path)
    journal.add()
    part = tail.TailedPart(journal.path(), PartName("loop", 1, 0))
    for step in range(2000):
        journal.metrics(step, loss=step / 3)
        part.poll()
    size = journal.path().stat().st_size
    assert len(part._marks) <= 16 + 2 * size / 4096 + 1
    for first in (0, 1, 700, 1999, 2000):
        found = [record.get("step") for _, record in part.records(first=first)]
        assert found == [None, *range(2000)][first:]


def test_a_look_for_changes_reads_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    with LocalStore(tmp_path) as store:
        run = store.run("x")
        assert run.series("loss").values.tolist() == [1.0]
        store.refresh()
        journal.metrics(1, loss=0.5)
        polled: list[Path] = []
        poll = tail.TailedPart.poll

        def counted(part: tail.TailedPart) -> None:
            polled.append(part.path)
            poll(part)

        monkeypatch.setattr(tail.TailedPart, "poll", counted)
        assert store.refresh() == {run.id}
        assert polled == []
        assert run.series("loss").values.tolist() == [1.0, 0.5]
        assert len(polled) == 1
        assert run.info.records == 3
        assert not run.refresh()
