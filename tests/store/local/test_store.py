from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal import ranks
from epochal.journal.layout import write_json
from epochal.journal.row import Labels
from epochal.store.local.by_path import load_run, named_run
from epochal.store.local.catalog import folder_store, open_store
from tests.store.journals import Journal


def only_run(root: Path) -> str | None:
    (run,) = folder_store(root).runs()
    return run.info.problem


def test_a_missing_identity_is_taken_from_the_journal(tmp_path: Path) -> None:
    Journal(tmp_path, "x", identity=False, id="abc").metrics(1, a=1)
    (run,) = folder_store(tmp_path).runs()
    assert (run.info.id, run.info.name, run.info.project) == ("abc", "x", "p")
    assert "run.json is missing" in str(run.info.problem)
    assert len(run.series("a")) == 1


def test_a_damaged_identity_is_listed_with_the_reason(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.folder.identity.write_text("{broken")
    assert "not valid JSON" in str(only_run(tmp_path))


def test_an_empty_folder_with_a_journal_is_listed_as_unreadable(tmp_path: Path) -> None:
    Journal(tmp_path, identity=False)
    (run,) = folder_store(tmp_path).runs()
    assert run.info.status.state == "unreadable"


def test_a_newer_format_is_named_and_not_half_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.path("rank-0001").write_text('{"log":"run","v":2}\n')
    (run,) = folder_store(tmp_path).runs()
    assert "newer Epochal" in str(run.info.problem)
    assert (run.info.status.state, run.metrics()) == ("unreadable", [])


def test_a_newer_identity_is_not_read_on(tmp_path: Path) -> None:
    Journal(tmp_path, v=9).metrics(1, a=1)
    (run,) = folder_store(tmp_path).runs()
    assert "newer Epochal" in str(run.info.problem)
    assert run.metrics() == []


def test_damaged_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    with journal.path().open("ab") as file:
        file.write(b"rubbish\n")
    journal.add({"log": "text", "step": 2, "name": "s", "text": "after"})
    run = load_run(journal.folder.path)
    assert (run.info.damaged, run.texts()[0].record["text"]) == (1, "after")


def test_a_run_without_its_first_line_is_still_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.path().write_bytes(b"rubbish\n")
    journal.metrics(1, a=1)
    assert len(load_run(journal.folder.path).series("a")) == 1


def test_a_torn_tail_is_read_once_it_is_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    run = load_run(journal.folder.path)
    with journal.path().open("ab") as file:
        file.write(b'{"log":"metrics","t":1,"step":2,')
    assert len(run.series("a")) == 1
    with journal.path().open("ab") as file:
        file.write(b'"m":{"a":5}}\n')
    run.refresh()
    assert run.series("a").values.tolist() == [1, 5]


def test_a_replaced_folder_is_read_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).metrics(2, a=2)
    run = load_run(journal.folder.path)
    assert len(run.series("a")) == 2
    journal.path().unlink()
    journal.metrics(7, a=7)
    run.refresh()
    assert run.series("a").steps.tolist() == [7]


def test_steps_that_are_no_whole_numbers_are_left_to_the_raw_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    for step in (2**70, 1.5, None, True):
        journal.add({"log": "metrics", "step": step, "m": {"a": 2}})
    run = load_run(journal.folder.path)
    assert len(run.series("a")) == 1
    assert sum(1 for _ in run.records()) == 6


def test_a_record_of_the_wrong_shape_is_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.add({"log": "metrics", "step": 2, "m": {"a": None}, "nonfinite": ["a"]})
    journal.add({"log": "allocator", "step": 2, "stats": 5}, {"log": "epoch", "epoch": 1, "m": 3})
    run = load_run(journal.folder.path)
    assert (run.info.damaged, len(run.series("a"))) == (1, 1)


def test_what_a_rank_wrote_aside_belongs_to_its_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1, attempt=2)
    aside = Journal(tmp_path, "launch-7", project=".launch", identity=False)
    aside.metrics(1, a=5, writer="rank-0001")
    ranks.publish(tmp_path, "launch-7", ranks.RankRendezvous(journal.folder, 2))
    store = folder_store(tmp_path)
    (run,) = store.runs()
    assert run.series("a", rank=1).values.tolist() == [5]
    aside.path("rank-0001").rename(journal.path("rank-0001", attempt=2))
    store.refresh()
    assert run.series("a", rank=1).values.tolist() == [5]
    assert run.info.records == 4


def test_labels_overlay_the_runs_own_words(tmp_path: Path) -> None:
    journal = Journal(tmp_path, tags=["a"], notes="n")
    run = load_run(journal.folder.path)
    before = journal.folder.identity.read_bytes()
    run.relabel(lambda _: Labels(name="shown", tags=("b",)))
    again = load_run(journal.folder.path).info
    assert (again.name, again.tags, again.notes) == ("shown", ("b",), "n")
    assert journal.folder.identity.read_bytes() == before


def test_damaged_labels_are_a_problem_not_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write_json(journal.folder.labels, {"tags": 5})
    assert "labels.json is not valid: Expected `array | null`, got `int` - at `$.tags`" in str(
        only_run(tmp_path)
    )


def test_a_run_is_found_by_its_path(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "elsewhere").metrics(1, a=1)
    path, store = str(journal.folder.path), folder_store(tmp_path / "runs")
    assert named_run(store, path).info.name == "x"
    with pytest.raises(RunNotFoundError):
        store.run(path)


def test_dense_kinds_are_asked_for_as_series(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    with pytest.raises(UsageError, match="series"):
        load_run(journal.folder.path).entries("metrics")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        open_store(tmp_path / "none")
    with pytest.raises(UsageError, match="not a run folder"):
        load_run(tmp_path)


def test_a_copied_folder_has_an_id_of_its_own(tmp_path: Path) -> None:
    Journal(tmp_path, "x", id="abc").metrics(1, a=1)
    store = folder_store(tmp_path)
    assert [run.id for run in store.runs()] == ["abc"]
    Journal(tmp_path, "b", id="abc").metrics(1, a=2)
    Journal(tmp_path, "a", id="abc").metrics(1, a=3)
    assert store.refresh() == {"abc", "abc~2", "abc~3"}
    folders = {run.id: run.path.name for run in store.runs()}
    assert folders == {"abc": "x", "abc~2": "a", "abc~3": "b"}
    assert store.run("abc~2").series("a").values.tolist() == [3]
    assert [run.id for run in store.runs('id == "abc~3"')] == ["abc~3"]


def test_an_id_is_free_again_when_its_run_is_gone(tmp_path: Path) -> None:
    first = Journal(tmp_path, "a", id="abc").metrics(1, a=1)
    Journal(tmp_path, "b", id="abc").metrics(1, a=2)
    store = folder_store(tmp_path)
    store.refresh()
    shutil.rmtree(first.folder.path)
    assert store.refresh() == {"abc"}
    assert [run.id for run in store.runs()] == ["abc~2"]


def test_an_id_that_is_said_late_is_taken(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "x", identity=False)
    store = folder_store(tmp_path)
    assert [run.id for run in store.runs()] == ["x"]
    write_json(journal.folder.identity, {"v": 1, "id": "abc", "name": "x"})
    assert "abc" in store.refresh()
    assert store.find("abc") is not None
    assert store.find("x") is None


def test_a_run_at_a_path_is_read_without_the_others(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "x").metrics(1, a=1)
    other = Journal(tmp_path, "y").metrics(1, a=1)
    other.folder.identity.write_text("{broken")
    with folder_store(tmp_path) as store:
        assert named_run(store, str(journal.folder.path)).series("a").values.tolist() == [1]


def test_a_link_that_leads_to_itself_hides_nothing(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "p" / "loop").symlink_to(tmp_path / "p" / "loop")
    (tmp_path / "p" / "nowhere").symlink_to(tmp_path / "none")
    assert [run.id for run in folder_store(tmp_path).runs()] == ["id-x"]


def test_pipes_in_place_of_files_are_not_waited_for(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    os.mkfifo(journal.folder.labels)
    os.mkfifo(journal.path(part=1))
    run = load_run(journal.folder.path)
    assert "labels.json is not a regular file" in str(run.info.problem)
    assert len(run.series("a")) == 1


@pytest.mark.parametrize("attempt", [2, 10**30])
def test_attempts_may_have_any_number(tmp_path: Path, attempt: int) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).metrics(2, a=1)
    journal.add({"log": "resume", "step": 2}, attempt=attempt).metrics(2, a=2, attempt=attempt)
    assert load_run(journal.folder.path).series("a").values.tolist() == [1, 2]


def test_an_id_that_no_link_could_hold_is_not_taken(tmp_path: Path) -> None:
    Journal(tmp_path, id="a" * 5000).metrics(1, a=1)
    assert [run.id for run in folder_store(tmp_path).runs()] == ["x"]


def test_a_blob_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    journal = Journal(tmp_path).add({"log": "blob", "step": 1, "name": "b", "file": "b.png"})
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "b.png").symlink_to(secret)
    with pytest.raises(UsageError, match="not a file"):
        load_run(journal.folder.path).blob("b.png")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look anywhere")
def test_a_folder_that_nobody_may_look_into_is_listed_with_the_reason(tmp_path: Path) -> None:
    Journal(tmp_path, "open").metrics(1, a=1)
    closed = Journal(tmp_path, "closed").metrics(1, a=1).folder.path
    closed.chmod(0)
    try:
        problems = {run.path.name: run.info.problem for run in folder_store(tmp_path).runs()}
    finally:
        closed.chmod(0o700)
    assert problems["open"] is None
    assert "Permission denied" in str(problems["closed"])


def test_what_a_program_froze_stays_frozen(tmp_path: Path) -> None:
    for number in range(200):
        Journal(tmp_path, f"run-{number}")
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        assert len(folder_store(tmp_path).runs()) == 200
        # What goes meanwhile is no longer counted.
        assert gc.get_freeze_count() > frozen // 2
    finally:
        gc.unfreeze()
