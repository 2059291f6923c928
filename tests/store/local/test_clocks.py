"""Runs whose clock, or whose disk's clock, differs from the reader's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.journal.layout import write_json
from epochal.journal.line import encode
from epochal.journal.row import RunRow
from epochal.journal.summaries import is_summarised, write_summaries
from epochal.store.local.catalog import folder_store
from epochal.store.store import Store
from tests.store.journals import Journal

SKEWS = [630.0, -630.0]
ELSEWHERE: dict[str, Any] = {
    "host": "another-machine",
    "boot_id": "of-another-machine",
    "pid": 7,
    "start_time": 1,
}


def live_run(root: Path, skew_s: float) -> Journal:
    """A run of another machine that wrote just now, by a clock that is ahead by so much."""
    journal = Journal(root, totals={"steps": 100}, **ELSEWHERE)
    journal.t = time.time() + skew_s
    header = {"log": "run", "v": 1, "id": journal.id, "name": "x", **ELSEWHERE, "t": journal.t}
    journal.path().write_bytes(encode(header))
    journal.metrics(9, loss=1.0)
    assert write_summaries(journal.folder)
    set_times(journal, skew_s)
    return journal


def set_times(journal: Journal, skew_s: float) -> None:
    """Let the disk say that everything was written now, by a clock that is ahead by so much."""
    then = time.time() + skew_s
    for path in journal.folder.path.rglob("*"):
        os.utime(path, (then, then))


def only_row(store: Store) -> RunRow:
    """The row of the only run as a list has it that reads nothing but what runs carry."""
    (run,) = store.known_runs(budget_s=0.0).runs
    return run.outline()


@pytest.mark.parametrize("disk_skew_s", [*SKEWS, 0.0])
@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_live_run_is_seen_to_go_on_whatever_its_clocks_say(
    tmp_path: Path, skew_s: float, disk_skew_s: float
) -> None:
    journal = live_run(tmp_path, skew_s)
    set_times(journal, disk_skew_s)
    with folder_store(tmp_path) as store:
        row = only_row(store)
        assert (row.is_summarised, row.step, row.steps_done, row.total_steps) == (True, 9, 10, 100)
        # An old time and no new one: nothing tells it from a run that is silent.
        is_old = disk_skew_s != 0 and min(skew_s, disk_skew_s) < 0
        assert row.status.state == ("silent" if is_old else "running")
        journal.metrics(10, loss=0.5)
        set_times(journal, disk_skew_s)
        store.refresh()
        (row,) = store.catalog.rows(budget_s=60.0)
    assert (row.step, row.status.state) == (10, "running")
    side = "ahead of" if skew_s > 0 else "behind"
    assert f"the clock of another-machine is 10 min {side} ours" in str(row.status.reason)


@pytest.mark.parametrize("skew_s", SKEWS)
def test_the_end_of_a_run_counts_whatever_its_clocks_say(tmp_path: Path, skew_s: float) -> None:
    journal = live_run(tmp_path, skew_s)
    with folder_store(tmp_path) as store:
        assert only_row(store).status.is_live
        journal.metrics(99, loss=0.1).finish()
        assert write_summaries(journal.folder)
        set_times(journal, skew_s)
        store.refresh()
        row = only_row(store)
    assert (row.is_summarised, row.step, row.status.state) == (True, 99, "finished")


def ended_run(root: Path) -> Journal:
    journal = Journal(root, totals={"steps": 100}).metrics(9, loss=1.0).finish()
    assert write_summaries(journal.folder)
    return journal


@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_summary_is_believed_whichever_file_looks_older(tmp_path: Path, skew_s: float) -> None:
    """A copy of a folder keeps no order of its files, and a clock may be set back."""
    journal = ended_run(tmp_path)
    then = time.time() + skew_s
    os.utime(journal.folder.identity, (then, then))
    journal.folder.metrics.unlink()  # nothing but the summary says it without being read
    with folder_store(tmp_path) as store:
        row = only_row(store)
    assert (row.is_summarised, row.step, row.status.state) == (True, 9, "finished")


@pytest.mark.parametrize("skew_s", SKEWS)
def test_a_summary_of_another_run_json_is_not_believed(tmp_path: Path, skew_s: float) -> None:
    journal = ended_run(tmp_path)
    facts = {"v": 1, "id": journal.id, "name": "x", "project": "p", "created": 1000.0}
    write_json(journal.folder.identity, {**facts, "totals": {"steps": 200}})
    then = time.time() + skew_s
    os.utime(journal.folder.identity, (then, then))
    assert not is_summarised(journal.folder)
    for _ in range(2):  # the second time from the index
        with folder_store(tmp_path) as store:
            (row,) = store.catalog.rows(budget_s=60.0)
            assert (row.total_steps, row.step) == (200, 9)
