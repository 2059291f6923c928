"""A run that grows for a long time keeps few positions."""

from pathlib import Path

import pytest

from epochal.journal import tail
from epochal.journal.layout import PartName
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal


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
    with folder_store(tmp_path) as store:
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
