"""Lists keep what they know of each run until it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.journal.row import Labels
from epochal.store.local.listed import ListedRun
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal, settle


def names(store: LocalStore, query: str | None = None) -> list[str]:
    store.refresh()
    return [run.outline().name for run in store.known_runs(query, budget_s=60).runs]


def three(root: Path) -> list[Journal]:
    losses = {"a": 3.0, "b": 1.0, "c": 2.0}
    found = [
        Journal(root, name, created=1000.0 + at).metrics(1, loss=loss).finish()
        for at, (name, loss) in enumerate(losses.items())
    ]
    settle(root)
    return found


def test_a_list_that_was_made_before_has_new_and_no_removed_runs(tmp_path: Path) -> None:
    three(tmp_path)
    with LocalStore(tmp_path, cache=tmp_path / "cache") as store:
        assert names(store) == ["c", "b", "a"]
        Journal(tmp_path, "d", created=2000.0).metrics(1, loss=0.5).finish()
        assert names(store) == ["d", "c", "b", "a"]
        store.remove(store.run("b"))
        assert names(store) == ["d", "c", "a"]


def test_a_run_that_takes_the_place_of_another_is_told_of(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with LocalStore(tmp_path, cache=tmp_path / "cache") as store:
        names(store)
        journal.folder.path.rename(tmp_path.parent / "elsewhere")
        Journal(tmp_path, "new", created=2000.0).metrics(1, loss=0.5).finish()
        assert store.refresh() == {"id-a", "id-new"}
        assert names(store) == ["new", "c", "b"]


def test_a_list_has_labels_and_records_of_others(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with LocalStore(tmp_path, cache=tmp_path / "cache") as store:
        assert names(store, 'text ~ "(?i)quick"') == []
        with LocalStore(tmp_path) as other:
            other.run("b").relabel(lambda _: Labels(tags=("Quick",)))
        assert names(store, 'text ~ "(?i)quick"') == ["b"]
        assert names(store, 'not text ~ "(?i)quick"') == ["c", "a"]
        journal.metrics(2, loss=0.25, attempt=2)
        assert names(store, "summary.loss.min < 0.5") == ["a"]


def test_the_overview_of_projects_follows_changes(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with LocalStore(tmp_path, cache=tmp_path / "cache") as store:
        store.refresh()
        (row,) = store.projects(budget_s=60).projects
        assert row.best is not None
        assert (row.runs, row.states, row.best.value, row.best.name) == (3, {"finished": 3}, 1, "b")
        assert store.projects(budget_s=60).projects == [row]
        journal.metrics(2, loss=0.25, attempt=2).finish(attempt=2)
        Journal(tmp_path, "d", project="q", owner="ada").metrics(1, loss=0.5).finish("failed")
        store.refresh()
        rows = {row.name: row for row in store.projects(budget_s=60).projects}
        assert rows["p"].best is not None
        assert (rows["p"].best.value, rows["p"].best.name) == (0.25, "a")
        assert (rows["q"].states, rows["q"].owners, rows["q"].errors) == ({"failed": 1}, ["ada"], 1)


def test_all_runs_and_projects_are_counted_whatever_the_query(tmp_path: Path) -> None:
    three(tmp_path)
    Journal(tmp_path, "d", project="q").metrics(1, loss=0.5).finish()
    known = LocalStore(tmp_path).known_runs('name == "a"', budget_s=60)
    assert (len(known.runs), known.stored, known.projects) == (1, 4, ["p", "q"])


def many(root: Path, count: int) -> None:
    for at in range(count):
        journal = Journal(root, f"r{at:03}", created=1000.0 + at)
        journal.metrics(1, loss=9.0).metrics(2, loss=float(at)).finish()


def read_all(store: LocalStore) -> None:
    while store.read_on(60)[1]:
        pass


def test_a_list_does_not_wait_for_the_last_points_of_all_runs(tmp_path: Path) -> None:
    many(tmp_path, 130)
    with LocalStore(tmp_path) as store:
        read_all(store)
        query = "summary.loss.mean@1 < 20"
        first = store.known_runs(query, budget_s=0)
        # Of 100 runs they are read whatever the clock says, the newest first.
        assert (len(first.runs), first.pending) == (0, 30)
        assert store.known_runs(f"not ({query})", budget_s=0).pending == 0  # 30 more were read
        assert [
            run.info.name for run in store.known_runs(query, order="name", budget_s=0).runs
        ] == [f"r{at:03}" for at in range(20)]


def test_runs_that_were_not_judged_are_not_chosen_by_a_negation(tmp_path: Path) -> None:
    many(tmp_path, 130)
    with LocalStore(tmp_path) as store:
        read_all(store)
        known = store.known_runs("not summary.loss.mean@1 < 20", budget_s=0)
        assert (len(known.runs), known.pending) == (100, 30)


def test_last_points_that_a_query_left_are_read_in_the_background(tmp_path: Path) -> None:
    many(tmp_path, 130)
    with LocalStore(tmp_path) as store:
        read_all(store)
        assert store.known_runs(order="summary.loss.mean@1", budget_s=0).pending == 30
        assert store.read_on(60) == (set(), 0)
        known = store.known_runs(order="summary.loss.mean@1", budget_s=0)
        assert known.pending == 0
        assert [run.info.name for run in known.runs[:2]] == ["r000", "r001"]


def test_a_run_that_was_not_read_is_not_judged_by_its_numbers(tmp_path: Path) -> None:
    large = {"log": "text", "name": "t", "text": "x" * 1_000_000}
    Journal(tmp_path).add(*[large] * 9).metrics(1, loss=0.5)
    with LocalStore(tmp_path) as store:
        assert len(store.known_runs('not name == "a"', budget_s=0).runs) == 1
        known = store.known_runs("not summary.loss > 50", budget_s=0)
        assert (len(known.runs), known.pending) == (0, 1)
        read_all(store)
        whole = store.known_runs("not summary.loss > 50", budget_s=0)
        assert (len(whole.runs), whole.pending) == (1, 0)


def test_a_filter_by_a_summary_of_the_index_lists_no_folder(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    three(root)
    query = "summary.loss.last < 2.5"
    with LocalStore(root, cache=cache) as store:
        assert names(store, query) == ["c", "b"]
    with LocalStore(root, cache=cache) as store:
        known = store.known_runs(query, budget_s=60)
        assert len(known.runs) == 2
        assert all(run.source.signature is None for run in store.runs())


def test_runs_that_another_thread_reads_while_a_list_is_made_are_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(tmp_path, 130)
    listed = LocalStore._listed

    def listed_then_read(store: LocalStore, *args: Any) -> list[ListedRun]:
        found = listed(store, *args)
        read_all(store)
        return found

    with LocalStore(tmp_path) as store:
        monkeypatch.setattr(LocalStore, "_listed", listed_then_read)
        first = store.known_runs(budget_s=0)
        assert len(first.runs) + first.pending >= 130 > len(first.runs)
        assert store.known_runs(budget_s=0).pending == 0
