"""Lists keep what they know of each run until it changes."""

from __future__ import annotations

from pathlib import Path

from epochal.journal.row import Labels
from epochal.store.local.catalog import folder_store
from epochal.store.store import Store
from tests.store.journals import Journal, settle


def names(store: Store, query: str | None = None) -> list[str]:
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
    with folder_store(tmp_path, cache=tmp_path / "cache") as store:
        assert names(store) == ["c", "b", "a"]
        Journal(tmp_path, "d", created=2000.0).metrics(1, loss=0.5).finish()
        assert names(store) == ["d", "c", "b", "a"]
        store.remove(store.run("b"))
        assert names(store) == ["d", "c", "a"]


def test_a_run_that_takes_the_place_of_another_is_told_of(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with folder_store(tmp_path, cache=tmp_path / "cache") as store:
        names(store)
        journal.folder.path.rename(tmp_path.parent / "elsewhere")
        Journal(tmp_path, "new", created=2000.0).metrics(1, loss=0.5).finish()
        assert store.refresh() == {"id-a", "id-new"}
        assert names(store) == ["new", "c", "b"]


def test_a_list_has_labels_and_records_of_others(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with folder_store(tmp_path, cache=tmp_path / "cache") as store:
        assert names(store, 'text ~ "(?i)quick"') == []
        with folder_store(tmp_path) as other:
            other.run("b").relabel(lambda _: Labels(tags=("Quick",)))
        assert names(store, 'text ~ "(?i)quick"') == ["b"]
        assert names(store, 'not text ~ "(?i)quick"') == ["c", "a"]
        journal.metrics(2, loss=0.25, attempt=2)
        assert names(store, "summary.loss.min < 0.5") == ["a"]


def test_the_overview_of_projects_follows_changes(tmp_path: Path) -> None:
    journal = three(tmp_path)[0]
    with folder_store(tmp_path, cache=tmp_path / "cache") as store:
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
    known = folder_store(tmp_path).known_runs('name == "a"', budget_s=60)
    assert (len(known.runs), known.stored, known.projects) == (1, 4, ["p", "q"])


def test_a_filter_by_a_summary_of_the_index_lists_no_folder(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    three(root)
    query = "summary.loss.last < 2.5"
    with folder_store(root, cache=cache) as store:
        assert names(store, query) == ["c", "b"]
    with folder_store(root, cache=cache) as store:
        known = store.known_runs(query, budget_s=60)
        assert len(known.runs) == 2
        assert all(run.source.signature is None for run in store.runs())


def test_an_answer_about_a_metric_is_of_the_files_as_they_are(tmp_path: Path) -> None:
    """The index keeps what a run has under a name that is not in its headline."""
    root, cache = tmp_path / "runs", tmp_path / "cache"
    others = {f"a{number:02d}": 0.0 for number in range(20)}
    journal = Journal(root, "a")
    with folder_store(root, cache=cache) as stays:
        for attempt, value in enumerate((1.0, 5.0, 2.0), start=1):
            record = {"log": "metrics", "step": attempt, "m": {"z": value, **others}}
            journal.add(record, attempt=attempt).finish(attempt=attempt)
            settle(root)
            for store in (stays, folder_store(root, cache=cache)):
                assert names(store, f"z == {value}") == ["a"]
                assert names(store, "z > 4") == (["a"] if value == 5.0 else [])
                assert store.run("a").summary("z").last == value
