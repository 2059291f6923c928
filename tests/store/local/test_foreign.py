"""Other trackers' files as runs of a store, read where they lie."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import epochal
from epochal.errors import UsageError
from epochal.exchange.imports.copying import copy_run
from epochal.journal.row import Labels
from epochal.store.cache import LoadedRuns, MemoryBudget
from epochal.store.local.by_path import load_run, named_run
from epochal.store.local.catalog import check_place, folder_store
from epochal.store.run import RunView
from tests.exchange.imports.event_files import event, field, frame, scalar, write_events
from tests.exchange.imports.samples import GOLDEN, SAMPLES, opened
from tests.store.journals import Journal, settle

by_format = pytest.mark.parametrize("name", SAMPLES)


def losses(steps: Iterable[int], *, t: float = 1.7e9) -> list[bytes]:
    return [scalar("loss", float(step), step=step, t=t + step) for step in steps]


def restart(step: int) -> bytes:
    """What a session that takes over at a step begins with."""
    return event(field(7, b"\x08\x01"), step=step, t=1.7e9)


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@by_format
def test_every_format_is_answered_about_in_place(name: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    sample = SAMPLES[name](tmp_path / "there")
    before = fingerprint(tmp_path / "there")
    with folder_store(sample.source, cache=tmp_path / "cache") as store:
        runs = store.runs()
        assert len(runs) == len(opened(sample.source).runs())
        for run in runs:
            assert run.metrics()
            assert run.info.tracker == opened(sample.source).label
            assert all(len(run.series(m.name, axis=m.axis)) for m in run.metrics())
            assert sum(1 for _ in run.records()) == run.info.records
    assert fingerprint(tmp_path / "there") == before


@by_format
def test_the_copy_of_a_run_answers_as_the_run_does(name: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    source = opened(SAMPLES[name](tmp_path / "there").source)
    for run in source.runs():
        copy = load_run(copy_run(source, run, root=tmp_path / "runs").folder)
        there = folder_store(source.path).find(copy.id)
        assert there is not None
        assert {m.name for m in there.metrics()} == {m.name for m in copy.metrics()}
        for metric in copy.metrics():
            ours = copy.series(metric.name, axis=metric.axis)
            theirs = there.series(metric.name, axis=metric.axis)
            assert ours.steps.tolist() == theirs.steps.tolist()
            assert ours.values.tobytes() == theirs.values.tobytes()
        assert there.config == copy.config


def test_a_file_that_grows_is_followed(tmp_path: Path) -> None:
    write_events(tmp_path / "a", losses(range(3)))
    store = folder_store(tmp_path)
    run = store.run("a")
    assert run.series("loss").values.tolist() == [0, 1, 2]
    end = run.end()
    path = write_events(tmp_path / "a", losses(range(3, 5)))
    with path.open("ab") as file:
        file.write(frame(losses([5])[0])[:-3])  # torn
    assert run.refresh()
    assert run.series("loss").values.tolist() == [0, 1, 2, 3, 4]
    assert [record["step"] for _, record in run.records(end)] == [3, 4]
    assert not run.refresh()


def test_new_runs_and_gone_runs_are_told(tmp_path: Path) -> None:
    write_events(tmp_path / "a", losses(range(3)))
    store = folder_store(tmp_path)
    store.refresh()
    assert store.refresh() == set()
    write_events(tmp_path / "b", losses(range(3)))
    (new,) = store.refresh()
    assert store.run(new).info.name == "b"
    shutil.rmtree(tmp_path / "b")
    assert store.refresh() == {new}
    assert [run.info.name for run in store.runs()] == ["a"]


def test_what_a_new_session_takes_over_is_hidden(tmp_path: Path) -> None:
    write_events(tmp_path / "a", losses(range(6)))
    write_events(tmp_path / "a", [restart(3), *losses([3])], name="tfevents.2.host")
    run = folder_store(tmp_path).run("a")
    assert (run.series("loss").steps.tolist(), run.series("loss").hidden) == ([0, 1, 2, 3], 3)
    assert (run.info.attempts, run.info.step) == (2, 3)


def test_ours_and_theirs_lie_in_one_folder(tmp_path: Path) -> None:
    Journal(tmp_path, "x").metrics(1, loss=1.0)
    write_events(tmp_path / "logs" / "deep" / "a", losses(range(3)))
    write_events(tmp_path / "p" / "b", losses(range(3)))
    shutil.copy(GOLDEN / "mlflow.db", tmp_path / "mlflow.db")
    (tmp_path / "notes.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "p" / "table.csv").write_text("step,loss\n1,2\n")
    found = {(run.tracker, run.outline().name) for run in folder_store(tmp_path).runs()}
    assert found == {
        (None, "x"),
        ("TensorBoard", "deep/a"),
        ("TensorBoard", "b"),
        ("MLflow", "first"),
        ("MLflow", "second"),
    }


def test_several_trackers_lie_in_one_folder(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "all")
    found = {str(run.tracker) for run in folder_store(tmp_path / "all").runs()}
    assert found == {"TensorBoard", "W&B", "MLflow", "Trackio"}


def test_a_run_has_one_id_wherever_its_folder_is_opened(tmp_path: Path) -> None:
    write_events(tmp_path / "logs" / "a", losses(range(3)))
    ids = {folder_store(tmp_path / place).runs()[0].id for place in ("", "logs", "logs/a")}
    assert len(ids) == 1


def test_labels_are_kept_beside_the_cache_and_nothing_else_is_written(tmp_path: Path) -> None:
    write_events(tmp_path / "logs" / "a", losses(range(3)))
    before = fingerprint(tmp_path / "logs")
    run = folder_store(tmp_path / "logs", cache=tmp_path / "cache").run("a")
    run.relabel(lambda labels: replace(labels, name="best", tags=("good",), hidden=True))
    again = folder_store(tmp_path, cache=tmp_path / "cache").run("best").info
    assert (again.name, again.tags, again.hidden) == ("best", ("good",), True)
    assert fingerprint(tmp_path / "logs") == before


def test_without_a_cache_labels_have_no_place(tmp_path: Path) -> None:
    write_events(tmp_path / "a", losses(range(3)))
    with pytest.raises(UsageError, match="'epochal import' makes a copy"):
        folder_store(tmp_path).run("a").relabel(lambda _: Labels(name="b"))


def test_files_of_others_are_not_deleted(tmp_path: Path) -> None:
    write_events(tmp_path / "a", losses(range(3)))
    store = folder_store(tmp_path)
    with pytest.raises(UsageError, match="files of TensorBoard, which are only read"):
        store.remove(store.run("a"))
    assert list((tmp_path / "a").iterdir())


def test_a_run_that_was_imported_is_listed_once(tmp_path: Path) -> None:
    write_events(tmp_path / "runs" / "a", losses(range(3)))
    source = opened(tmp_path / "runs")
    copy_run(source, source.runs()[0], root=tmp_path / "runs")
    (run,) = folder_store(tmp_path / "runs").runs()
    assert (run.tracker, run.outline().name) == (None, "a")


def test_a_damaged_database_is_listed_with_its_problem(tmp_path: Path) -> None:
    text = (GOLDEN / "mlflow.db").read_bytes()
    (tmp_path / "mlflow.db").write_bytes(text[:100] + b"\xff" * 5000)
    (run,) = folder_store(tmp_path).runs()
    assert run.info.status.state == "unreadable"
    assert "mlflow.db cannot be read as an SQLite file" in str(run.info.problem)


def test_damage_is_the_problem_of_its_run(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a", losses(range(9)))
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 255
    path.write_bytes(text)
    info = folder_store(tmp_path).run("a").info
    assert "is damaged at byte" in str(info.problem)
    assert info.step == 8


def test_a_file_written_anew_is_read_anew(tmp_path: Path) -> None:
    table = tmp_path / "curve.csv"
    table.write_text("step,loss\n" + "".join(f"{i},1\n" for i in range(50)))
    run = folder_store(tmp_path).run("curve")
    assert len(run.series("loss")) == 50
    table.write_text("step,loss\n0,9\n")
    run.refresh()
    assert run.series("loss").values.tolist() == [9]
    assert run.info.problem is None


def test_what_was_let_go_is_read_again(tmp_path: Path) -> None:
    for name in "abc":
        write_events(tmp_path / name, losses(range(3)))
    settle(tmp_path)
    held = MemoryBudget(loaded=LoadedRuns(most=1))
    runs = [RunView(run.source, held=held) for run in folder_store(tmp_path).runs()]
    for _ in range(2):
        assert [len(run.series("loss")) for run in runs] == [3, 3, 3]
        assert [run.held_bytes > 0 for run in runs].count(True) == 1


def test_rows_are_remembered_between_processes(tmp_path: Path) -> None:
    write_events(tmp_path / "logs" / "a", losses(range(3)))
    settle(tmp_path)
    with folder_store(tmp_path / "logs", cache=tmp_path / "cache") as store:
        info, summary = store.run("a").info, store.run("a").summary("loss")
    again = folder_store(tmp_path / "logs", cache=tmp_path / "cache").run("a")
    assert (again.info, again.summary("loss"), again.held_bytes) == (info, summary, 0)


def test_how_a_run_stands_is_told_by_its_age_where_its_tracker_is_silent(tmp_path: Path) -> None:
    for name, age_s in (("now", 5.0), ("before", 570.0), ("long ago", 1e6)):
        write_events(tmp_path / name, losses([1], t=time.time() - age_s))
    found = {run.outline().name: run.status.text for run in folder_store(tmp_path).runs()}
    assert found == {"now": "running", "before": "silent 9 min", "long ago": "ended"}


def test_a_run_is_named_by_its_path(tmp_path: Path) -> None:
    write_events(tmp_path / "logs" / "a", losses(range(3)))
    write_events(tmp_path / "logs" / "b", losses(range(3)))
    store = folder_store(tmp_path / "runs")
    assert named_run(store, str(tmp_path / "logs" / "a")).outline().name == "a"
    with pytest.raises(UsageError, match=r"holds 2 runs: a, b\."):
        named_run(store, str(tmp_path / "logs"))
    with pytest.raises(UsageError, match="there is no file or folder"):
        load_run(tmp_path / "nothing")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="nor does it hold runs of another tracker"):
        load_run(tmp_path / "nothing")


def test_from_python_they_are_opened_like_any_runs(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "mlflow.db", tmp_path / "mlflow.db")
    with epochal.open(tmp_path / "mlflow.db") as runs:
        assert {run.name for run in runs} == {"first", "second"}
    write_events(tmp_path / "logs", losses(range(3)))
    assert epochal.load(tmp_path / "logs").series("loss").values.tolist() == [0, 1, 2]


def test_a_file_of_nobody_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(UsageError, match="nor a file with runs of any tracker"):
        check_place(tmp_path / "a.txt")
    with pytest.raises(UsageError, match="there is no folder"):
        check_place(tmp_path / "absent")
