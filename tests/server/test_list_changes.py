"""The rows that event streams get: made of what has changed, not of all that is live."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.journal.line import encode
from epochal.journal.process import process_identity
from epochal.journal.row import RunRow
from epochal.server import streams
from epochal.server.reader import Catalog
from epochal.server.rows import run_row
from epochal.server.streams import ListChanges
from epochal.server.wire import RunsEvent
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.store.journals import Journal

NUM_LIVE = 12
NUM_SILENT = 3


class Looks:
    """Looks at a list of live runs; ``made`` has the rows that the last look made."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.journals = [Journal(root, f"{i:02d}").metrics(0, loss=1.0) for i in range(NUM_LIVE)]
        self.made: list[str] = []
        make_row = run_row

        def counted(run: RunView, *, whole: bool) -> RunRow:
            self.made.append(run.id)
            return make_row(run, whole=whole)

        monkeypatch.setattr(streams, "run_row", counted)
        monkeypatch.setattr(streams, "MAX_SILENT_ROWS", NUM_SILENT)
        monkeypatch.setattr(streams, "MAX_ROWS_SENT", NUM_LIVE // 2)
        self.store = folder_store(root)
        self._catalog = _DueCatalog(self.store)
        self._changes = ListChanges(self._catalog)

    def look(self) -> RunsEvent | None:
        self.made.clear()
        return self._changes.find()

    def is_all(self) -> bool:
        event = self.look()
        return event is not None and event.all

    def settle(self) -> None:
        """Look until every row is known whole: on a busy machine some are read later."""
        num_quiet = 0
        while num_quiet < 2 * NUM_LIVE:
            num_quiet = num_quiet + 1 if self.look() is None else 0

    def changed(self) -> list[str]:
        event = self.look()
        assert event is not None
        assert (event.added, event.removed, event.all) == ([], [], False)
        return [row.id for row in event.changed]


class _DueCatalog(Catalog):
    """Searches whenever it is asked to."""

    def refresh(self, *, every_s: float = 0.0, is_due: bool = True) -> bool:
        return super().refresh(every_s=every_s, is_due=is_due)


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    one = Looks(tmp_path, monkeypatch)
    with one.store:
        assert one.is_all()  # the list
        assert one.is_all()  # the search that follows finds every run
        one.settle()
        yield one


def test_a_look_makes_the_rows_of_changed_runs_and_of_a_few_silent_ones(looks: Looks) -> None:
    looks.journals[7].metrics(1, loss=0.5)
    assert looks.changed() == ["id-07"]
    assert "id-07" in looks.made
    assert len(looks.made) <= 1 + NUM_SILENT


def test_silent_runs_take_turns_and_are_not_sent(looks: Looks) -> None:
    made: list[str] = []
    for _ in range(NUM_LIVE // NUM_SILENT):
        assert looks.look() is None
        made += looks.made
    assert sorted(made) == [journal.id for journal in looks.journals]


def test_of_more_changes_than_are_sent_no_row_is_made(looks: Looks) -> None:
    for journal in looks.journals:
        journal.metrics(1, loss=0.5)
    assert looks.is_all()
    assert looks.made == []
    looks.journals[3].metrics(2, loss=0.4)
    assert looks.changed() == ["id-03"]


def test_runs_that_come_and_go_among_many_changes_are_known_afterwards(looks: Looks) -> None:
    for journal in looks.journals[1:]:
        journal.metrics(1, loss=0.5)
    shutil.rmtree(looks.journals[0].folder.path)
    new = Journal(looks.root, "new").metrics(0, loss=1.0)
    assert looks.is_all()
    new.metrics(1, loss=0.5)
    assert looks.changed() == ["id-new"]


def test_a_run_that_ends_without_a_record_after_many_changes_is_sent(looks: Looks) -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        journal = Journal(looks.root, "alone")
        header = journal._header("loop", 1, 0) | process_identity(process.pid)
        journal.path().write_bytes(encode(header))
        for one in (*looks.journals, journal):
            one.metrics(1, loss=0.5)
        assert looks.is_all()
        looks.settle()
        process.communicate(b"\n")
    sent = [event for _ in range(NUM_LIVE) if (event := looks.look()) is not None]
    assert [(row.id, row.status.state) for event in sent for row in event.changed] == [
        ("id-alone", "crashed")
    ]
