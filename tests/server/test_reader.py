from __future__ import annotations

import asyncio
import errno
import math
import os
import time
from collections.abc import Set
from pathlib import Path

import pytest

from epochal.errors import RunNotFoundError
from epochal.server import rows
from epochal.server.reader import Catalog, Reader, reading_failure
from epochal.store.local.catalog import FolderCatalog, folder_store
from epochal.store.store import Store
from tests.server.live import Server
from tests.store.journals import Journal


def test_a_file_of_the_run_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with folder_store(tmp_path) as store:
        error = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(journal.path()))
        sentence = reading_failure(store.run("x"), error)
    assert sentence == f"cannot read {journal.path()}: Permission denied."


def test_a_disk_that_fails_under_an_open_file_is_said_of_the_run(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with folder_store(tmp_path) as store:
        sentence = reading_failure(store.run("x"), OSError(errno.EIO, os.strerror(errno.EIO)))
    assert sentence == f"cannot read {tmp_path / 'p' / 'x'}: Input/output error."


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/somewhere/else"),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)),
        OSError("no number"),
    ],
)
def test_any_other_error_is_ours(tmp_path: Path, error: OSError) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    with folder_store(tmp_path) as store:
        assert reading_failure(store.run("x"), error) is None


def test_an_error_of_ours_is_not_said_to_be_an_unreadable_run(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object) -> None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/our/own/mistake")

    Journal(tmp_path).metrics(1, loss=1.0)
    monkeypatch.setattr(rows, "chosen_metrics", fail)
    answers = [server.ask("/api/runs/id-x") for _ in range(3)]
    assert [answer.status for answer in answers] == [500] * 3
    assert b"internal error" in answers[0].body
    shown = capfd.readouterr().err
    assert shown.count("Traceback") == 1
    assert "request /api/runs/{id}" in shown
    assert server.ask("/healthz").json["faults"] == 3


class _CountingStore(Store):
    """Counts searches; each takes as long as one of thousands of runs."""

    num_searches = 0
    takes_s = 0.1

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        self.num_searches += 1
        time.sleep(self.takes_s)
        return super().refresh(budget_s=budget_s)


def test_of_many_runs_one_that_is_gone_is_an_error_of_its_own(tmp_path: Path) -> None:
    for name in "abc":
        Journal(tmp_path, name, id=f"id-{name}").metrics(1, loss=1.0).finish()
    reader = Reader(folder_store(tmp_path))
    ids = ["id-a", "id-b", "gone", "id-c"]
    found = asyncio.run(asyncio.wait_for(reader.query_runs(ids, lambda run: run.id), 60.0))
    assert [one for one in found if isinstance(one, str)] == ["id-a", "id-b", "id-c"]
    assert isinstance(found[2], RunNotFoundError)
    reader.close()


def test_a_change_is_searched_for_however_long_the_last_search_took(tmp_path: Path) -> None:
    store = _CountingStore(FolderCatalog(tmp_path))
    catalog = Catalog(store)
    assert catalog.refresh()
    assert not catalog.refresh(every_s=0.0)  # a tenth of the time is for searches
    Journal(tmp_path, "restored", id="id-restored").finish()
    assert catalog.refresh(is_due=True)
    assert catalog.store.find("id-restored") is not None
