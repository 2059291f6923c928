"""``run.summary``: read from the run's own journal, and what a program sets wins in every view."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import MetricNotFoundError, RunFinishedError, ValueTypeError
from epochal.exports import lines
from epochal.journal.layout import RunFolder
from epochal.journal.segments.seal import seal_part
from epochal.server.rows import run_detail, run_row
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import open_store
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


def test_it_has_the_last_value_of_each_metric(start_run: StartRun) -> None:
    run = start_run()
    assert dict(run.summary) == {}
    run.log({"loss": 2.0, "acc": 0.1}, step=5)
    run.log({"loss": 3.0}, step=4)
    assert run.summary["loss"] == 2.0
    run.log({"loss": 1.0, "nested": {"a": 7}}, step=6)
    run.log_eval(6, 1.0, 10, 5.0, 0.5)
    assert (run.summary["loss"], run.summary.acc, run.summary["nested.a"]) == (1.0, 0.1, 7)
    assert run.summary["eval/loss"] == 0.5
    assert run.summary.get("nothing") is None
    with pytest.raises(KeyError):
        run.summary["nothing"]
    with pytest.raises(AttributeError, match="no entry 'nothing'"):
        _ = run.summary.nothing


def test_what_is_set_is_a_record_and_wins(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 2.0})
    run.summary["loss"] = np.float32(0.5)
    run.summary.update({"best": 3}, note="good")
    run.summary.test = {"acc": 0.9}
    run.summary.test.acc = 0.95
    run.log({"loss": 9.0})
    assert run.summary["loss"] == 0.5
    assert run.summary.copy() == {"loss": 0.5, "best": 3, "note": "good", "test": {"acc": 0.95}}
    written = [(r["name"], r["value"]) for r in of_kind(run.dir, "summary")]
    assert written[:2] == [("loss", 0.5), ("best", 3)]
    assert written[-1] == ("test", {"acc": 0.95})


def test_a_deleted_value_gives_way_to_what_was_logged(start_run: StartRun) -> None:
    run = start_run()
    run.log({"loss": 2.0})
    run.summary["loss"], run.summary["best"] = 0.5, 1
    del run.summary["loss"]
    del run.summary.best
    assert dict(run.summary) == {"loss": 2.0}
    with pytest.raises(KeyError):
        del run.summary["best"]
    run.finish()
    view = load_run(run.dir)
    assert view.info.summary == {}
    assert view.summary("loss").last == 2.0


def test_a_resumed_run_knows_what_was_set_before(start_run: StartRun) -> None:
    with start_run(name="one") as run:
        run.log({"loss": 2.0})
        run.summary["best"] = 3
    resumed = start_run(name="one", resume="must")
    assert dict(resumed.summary) == {"loss": 2.0, "best": 3}
    del resumed.summary["best"]
    resumed.finish()
    assert load_run(resumed.dir).info.summary == {}


def test_sealed_parts_are_read_too(start_run: StartRun) -> None:
    run = start_run(name="one")
    run.log({"loss": 2.0})
    run.summary["best"] = 3
    run.finish()
    folder = RunFolder(run.dir)
    for part in folder.parts():
        seal_part(folder, part)
    assert folder.parts() == []
    resumed = start_run(name="one", resume="must")
    assert dict(resumed.summary) == {"loss": 2.0, "best": 3}
    resumed.finish()


def test_a_run_that_is_off_keeps_what_is_set(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    run = start_run()
    run.summary["best"] = 3
    assert dict(run.summary) == {"best": 3}


def test_a_finished_run_takes_no_change_and_can_be_read(start_run: StartRun) -> None:
    run = start_run()
    run.summary["test"] = {"acc": 1}
    run.finish()
    with pytest.raises(RunFinishedError):
        run.summary["best"] = 3
    with pytest.raises(RunFinishedError):
        run.summary["test"]["acc"] = 3
    assert dict(run.summary) == {"test": {"acc": 1}}


@pytest.mark.parametrize("name", [3, "", None])
def test_a_name_must_be_a_text(start_run: StartRun, name: Any) -> None:
    with pytest.raises(ValueTypeError, match="must be a text"):
        start_run().summary[name] = 1


def test_copies_are_plain(start_run: StartRun) -> None:
    summary = start_run().summary
    summary["a"] = {"b": [1]}
    for plain in (pickle.loads(pickle.dumps(summary)), copy.deepcopy(summary), summary.copy()):
        assert (type(plain), type(plain["a"]), plain) == (dict, dict, {"a": {"b": [1]}})


@pytest.fixture
def recorded(start_run: StartRun) -> Path:
    run = start_run(name="one")
    run.log({"loss": 2.0, "acc": 0.1})
    run.summary.update(loss=0.5, best=3, note="good", test={"acc": 0.9}, broken=float("nan"))
    run.finish()
    return run.dir


def test_views_show_what_was_set(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = epochal.load(recorded)
    assert (data.summary("loss").last, data.summary("loss").max) == (0.5, 2.0)
    assert (data.summary("best").last, data.summary("best").count) == (3.0, 0)
    assert data.summary("broken").last != data.summary("broken").last
    with pytest.raises(MetricNotFoundError):
        data.summary("note")
    view = load_run(recorded)
    assert view.latest("loss") == 0.5
    assert run_row(view, summaries=["role:loss"]).summaries["role:loss"].last == 0.5
    assert run_detail(view).summary["note"] == "good"
    root = recorded.parent.parent
    assert main(["--dir", str(root), "ls"]) == 0
    assert " 0.5000 " in capsys.readouterr().out
    assert main(["--dir", str(root), "show", "one"]) == 0
    shown = capsys.readouterr().out
    assert "test.acc" in shown
    assert "SUMMARY\n  note  good" in shown
    out = io.StringIO()
    lines.write([view], out)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {r["name"] for r in records if r["log"] == "summary"} >= {"best", "note"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("summary.loss == 0.5", 1),
        ("summary.loss.max == 2", 1),
        ("summary.best >= 3", 1),
        ("summary.note == 'good'", 1),
        ("summary.test.acc > 0.8", 1),
        ("summary.best > 3", 0),
        ("summary.acc == 0.1", 1),
    ],
)
def test_queries_see_what_was_set(recorded: Path, query: str, found: int) -> None:
    for _ in range(2):  # from the files, then from the index
        with open_store(recorded.parent.parent) as store:
            assert len(store.runs(query)) == found
