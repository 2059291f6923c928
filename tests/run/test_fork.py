"""A fork has a copy of its parent's history up to a step, and does not need the parent."""

from __future__ import annotations

import io
import json
import shutil
import time
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import FormatError, RunNotFoundError, UsageError
from epochal.exchange.media.types import Image
from epochal.exports import lines, table
from epochal.journal.layout import PartName, RunFolder, read_json
from epochal.journal.segments.seal import seal_part
from epochal.server.rows import run_row
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import open_store
from tests.conftest import StartRun
from tests.store.journals import Journal


@pytest.fixture
def parent(start_run: StartRun) -> Path:
    with start_run("parent", config={"lr": 0.1, "depth": 2}) as run:
        run.define("acc", goal="max")
        run.config["late"] = 1
        for step in range(10):
            run.log({"loss": 10.0 - step, "acc": step / 10}, step=step)
            if step % 4 == 3:
                run.log_epoch(step // 4 + 1, 1.0, {"val": float(step)})
                time.sleep(0.005)
        run.log({"sample": "before"}, step=2)
        run.log({"sample": "after"}, step=8)
        run.log({"picture": Image(b"\x89PNG\r\n\x1a\nparent")}, 3)
        run.summary["best"] = 1
        run.message("words of the parent")
    return run.dir


@pytest.fixture
def child(parent: Path, start_run: StartRun) -> Path:
    with start_run("child", fork_from="parent?step=4", config={"lr": 0.2}) as run:
        assert run.step == 4
        run.log({"loss": 100.0})
        run.log({"loss": 101.0})
    return run.dir


def test_it_has_the_parents_points_up_to_the_step_and_then_its_own(child: Path) -> None:
    run = epochal.load(child)
    assert run.series("loss").steps.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert run.series("loss").values.tolist() == [10, 9, 8, 7, 6, 100, 101]
    assert run.series("acc").steps.tolist() == [0, 1, 2, 3, 4]
    assert run.series("acc").goal == "max"
    assert run.summary("loss").max == 101.0
    assert run.series("val").steps.tolist() == [1]  # the second epoch came after the step
    assert [entry.record["text"] for entry in run.view.texts()] == ["before"]
    (picture,) = run.view.entries("blob")
    assert run.view.blob(picture.record["file"]).endswith(b"parent")


def test_its_own_facts_are_its_own(child: Path) -> None:
    info = load_run(child).info
    assert info.config == {"lr": 0.2, "depth": 2, "late": 1}
    assert (info.attempts, info.step, info.summary) == (1, 6, {})
    assert (info.status.state, info.problem) == ("finished", None)
    assert load_run(child).messages() == []
    assert all(entry.position.attempt > 0 for entry in load_run(child).findings())


def test_lineage_is_in_run_json_and_in_every_view(
    parent: Path, child: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = read_json(child / "run.json")["fork"]
    own = read_json(parent / "run.json")
    assert fork == {**{key: own[key] for key in ("id", "name", "project")}, "step": 4}
    row = run_row(load_run(child))
    assert row.fork is not None
    assert (row.fork.id, row.fork.step) == (own["id"], 4)
    root = child.parent.parent
    assert main(["--dir", str(root), "show", "child"]) == 0
    assert "forked from   tests/parent after step 4" in capsys.readouterr().out
    for _ in range(2):  # from the files, then from the index
        with open_store(root) as store:
            assert [run.info.name for run in store.runs(f"parent == '{own['id']}'")] == ["child"]


def test_a_fork_does_not_need_its_parent(parent: Path, child: Path) -> None:
    shutil.rmtree(parent)
    run = epochal.load(child)
    assert run.series("loss").values.tolist() == [10, 9, 8, 7, 6, 100, 101]
    assert next(s for s in run.samples() if not s.is_text).read().endswith(b"parent")
    assert str(run.info.fork) == "tests/parent after step 4"
    assert main(["--dir", str(child.parent.parent), "manage", "pack", "child"]) == 0
    assert epochal.load(child).series("loss").values.tolist() == [10, 9, 8, 7, 6, 100, 101]


def test_only_the_records_up_to_the_step_are_copied(parent: Path, child: Path) -> None:
    folder = RunFolder(child)
    (copied,) = (part for part in folder.parts() if part.attempt == 0)
    lines = folder.part_path(copied).read_bytes().splitlines()
    own = RunFolder(parent).part_path(copied._replace(attempt=1)).read_bytes().splitlines()
    assert set(lines[1:]) < set(own)
    records = [json.loads(line) for line in lines]
    assert records[0]["id"] == read_json(child / "run.json")["id"]
    kinds = ["define", *["metrics"] * 4, "epoch", "metrics", "text", "blob"]
    assert [record["log"] for record in records[1:]] == kinds
    assert [file.name for file in folder.blobs.iterdir() if file.suffix == ".png"] == [
        records[-1]["file"]
    ]


def test_every_rank_and_child_is_copied(tmp_path: Path, start_run: StartRun) -> None:
    journal = Journal(tmp_path / "runs", "parent", project="tests")
    for writer in ("loop", "rank-0001", "child-77", "telemetry-node", "findings"):
        for step in range(4):
            metrics = {"log": "metrics", "t": 10.0 + step, "step": step, "m": {"a": step}}
            epoch = {"log": "epoch", "t": 10.5 + step, "epoch": step + 1, "m": {"b": step}}
            journal.add(metrics, epoch, writer=writer)
    with start_run("child", fork_from="parent?step=1") as fork:
        pass
    copied = [name for name in RunFolder(fork.dir).parts() if name.attempt == 0]
    assert [name.writer for name in copied] == ["child-77", "loop", "rank-0001"]
    run = load_run(fork.dir)
    for rank in (0, 1):
        assert run.series("a", rank=rank).steps.tolist() == [0, 1]
        assert run.series("b", rank=rank).steps.tolist() == [1, 2]


def test_damaged_lines_are_not_copied(parent: Path, start_run: StartRun) -> None:
    path = RunFolder(parent).part_path(PartName("loop", 1, 0))
    lines = path.read_bytes().splitlines(keepends=True)
    torn = next(line for line in lines if b'"step":1,' in line)
    # A record cut in the middle with a whole one behind it, and what a power cut leaves.
    path.write_bytes(b"".join(lines).replace(torn, torn[:-9] + torn) + b"\0\0\n" + lines[-1])
    with start_run("child", fork_from="parent?step=2") as fork:
        fork.log({"loss": 0.0})
    run = load_run(fork.dir)
    assert run.series("loss").values.tolist() == [10, 9, 8, 0]
    assert run.info.damaged == 0


def test_a_parent_that_cannot_be_read_leaves_no_folder(parent: Path, start_run: StartRun) -> None:
    folder = RunFolder(parent)
    (part,) = (part for part in folder.parts() if part.writer == "loop")
    seal_part(folder, part)
    with start_run("parent", resume="must") as run:
        run.log({"loss": 1.0})
    folder.sealed_path(part).write_bytes(b"PAR1 no segment PAR1")
    before = set(parent.parent.iterdir())
    with pytest.raises(FormatError, match=part.stem):
        start_run("child", fork_from="parent")
    assert set(parent.parent.iterdir()) == before


def test_exports_contain_the_parents_part(child: Path) -> None:
    csv, jsonl = io.StringIO(), io.StringIO()
    table.write([load_run(child)], csv, rows="step")
    assert [line.split(",")[0] for line in csv.getvalue().splitlines()[1:]] == list("0123456")
    lines.write([load_run(child)], jsonl)
    records = [json.loads(line) for line in jsonl.getvalue().splitlines()]
    assert [r["step"] for r in records if r["log"] == "metrics"] == [0, 1, 2, 3, 4, 5, 6]


def test_a_sealed_and_resumed_parent_is_read_as_it_stands(
    parent: Path, start_run: StartRun
) -> None:
    with start_run("parent", resume="must", resume_step=3) as run:
        run.log({"loss": 50.0})
        run.log({"loss": 51.0})
    folder = RunFolder(parent)
    for part in folder.parts():
        seal_part(folder, part)
    with start_run("child", fork_from="tests/parent") as fork:
        assert fork.step == 4
        fork.log({"loss": 0.0})
    series = epochal.load(fork.dir).series("loss")
    assert series.values.tolist() == [10, 9, 8, 50, 51, 0]


def test_a_fork_of_a_fork_has_the_whole_line(child: Path, start_run: StartRun) -> None:
    with start_run("third", fork_from=f"{child}?step=5") as run:
        run.log({"loss": 7.0})
    series = epochal.load(run.dir).series("loss")
    assert series.values.tolist() == [10, 9, 8, 7, 6, 100, 7]
    shutil.move(str(child.parent), str(child.parent.with_name("moved")))
    moved = epochal.load(child.parent.with_name("moved") / "third")
    assert len(moved.series("loss")) == 7


def test_a_run_that_is_open_can_be_forked(start_run: StartRun) -> None:
    run = start_run("open", config={"lr": 0.1})
    for step in range(5):
        run.log({"loss": float(step)})
    with run.fork("what-if", step=2, console=False, config={"lr": 0.3}) as fork:
        assert (fork.name, fork.config) == ("what-if", {"lr": 0.3})
        fork.log({"loss": -1.0})
    run.log({"loss": 5.0})
    run.finish()
    assert epochal.load(fork.dir).series("loss").values.tolist() == [0, 1, 2, -1]
    assert epochal.load(run.dir).series("loss").values.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_fork_is_resumed_as_itself(child: Path, start_run: StartRun) -> None:
    with start_run("child", resume="must") as run:
        run.log({"loss": 102.0})
    loaded = epochal.load(child)
    assert loaded.series("loss").values.tolist() == [10, 9, 8, 7, 6, 100, 101, 102]
    assert loaded.info.fork is not None


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("nobody", RunNotFoundError),
        ("parent?step=99", UsageError),
        ("parent?epoch=3", UsageError),
        ("parent?step=-1", UsageError),
        (3, UsageError),
    ],
)
def test_what_cannot_be_forked_is_said(
    parent: Path, start_run: StartRun, wanted: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match="fork_from"):
        start_run("child", fork_from=wanted)


def test_a_damaged_run_beside_the_parent_is_passed_over(parent: Path, start_run: StartRun) -> None:
    (parent.parent / "damaged").mkdir()
    (parent.parent / "damaged" / "run.json").write_text("{half")
    with start_run("child", fork_from="parent?step=4") as fork:
        assert fork.step == 4
    with start_run("child", resume="must") as resumed:
        assert resumed.attempt == 2
