"""Reading goes on while parts are sealed, cut or replaced under the reader's hands."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.journal.layout import PartName, RunFolder
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from epochal.store.row import latest_findings
from epochal.store.run import RunView
from tests.store.journals import Journal
from tests.store.sealing import seal

_FINDING = {
    "log": "finding",
    "id": "f1",
    "rule": "loss-spike",
    "severity": "warning",
    "state": "open",
    "sentence": "The loss jumped.",
    "evidence": {},
}

_READS: dict[str, Callable[[RunView], Any]] = {
    "info": lambda run: run.info.records,
    "brief": lambda run: run.outline().name,
    "status": lambda run: run.status.state,
    "config": lambda run: dict(run.config),
    "metrics": lambda run: [metric.name for metric in run.metrics()],
    "series": lambda run: run.series("loss").values.tolist(),
    "other series": lambda run: run.series("acc").values.tolist(),
    "summary": lambda run: run.summary("acc").last,
    "entries": lambda run: len(run.entries("text", "event", rank=None)),
    "texts": lambda run: [entry.record["text"] for entry in run.texts()],
    "histograms": lambda run: len(run.histograms()),
    "blobs": lambda run: len(run.entries("blob")),
    "messages": lambda run: len(run.messages()),
    "events": lambda run: len(run.events()),
    "findings": lambda run: [
        finding.id
        for finding in latest_findings(
            ((entry.position.attempt, entry.record) for entry in run.findings(most=None)),
            attempts=1,
        )
    ],
    "records": lambda run: len(list(run.records())),
    "end": lambda run: dict(run.end()),
}


def _recorded(root: Path, name: str = "x") -> Journal:
    journal = Journal(root, name, config={"lr": 0.1})
    for step in range(20):
        journal.metrics(step, loss=1.0 / (step + 1), acc=step / 20)
        journal.add({"log": "text", "name": "sample", "step": step, "text": f"text {step}"})
    journal.add({"log": "message", "text": "hello"}, {"log": "event", "name": "checkpoint"})
    journal.add({"log": "histogram", "name": "h", "step": 1, "counts": [1], "edges": [0, 1]})
    journal.add(_FINDING, writer="findings")
    return journal.finish()


@pytest.mark.parametrize("name", _READS)
def test_a_run_that_is_sealed_between_two_reads_answers_the_same(name: str, tmp_path: Path) -> None:
    expected = _READS[name](load_run(_recorded(tmp_path, "whole").folder.path))
    journal = _recorded(tmp_path, "x")
    run = load_run(journal.folder.path)
    run.series("loss")
    seal(journal.folder)
    answer = _READS[name](run)
    if name == "brief":
        assert (answer, expected) == ("x", "whole")
    else:
        assert answer == expected


def test_pack_between_two_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochal.cli.pack.WORTH_SEALING_BYTES", 0)
    _recorded(tmp_path)
    with folder_store(tmp_path) as store:
        run = store.run("x")
        run.series("loss")
        assert main(["manage", "pack", "x", "--dir", str(tmp_path)]) == 0
        assert not list(run.path.glob("journal/loop*.jsonl"))
        assert len(run.texts()) == 20
        assert len(list(run.records())) == run.info.records


def test_iterating_records_goes_on_where_it_was_when_later_parts_are_sealed(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for part in range(4):
        for step in range(5):
            journal.add({"log": "metrics", "step": part * 5 + step, "m": {"a": 1.0}}, part=part)
    run = load_run(journal.folder.path)
    steps = []
    for position, record in run.records():
        if record["log"] == "metrics":
            steps.append(record["step"])
        if (position.part, position.ordinal) == (1, 2):
            seal(journal.folder)
    assert steps == list(range(20))


def test_reading_while_another_thread_seals_never_fails(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    num_parts = 30
    for part in range(num_parts):
        for step in range(4):
            at = part * 4 + step
            text = {"log": "text", "name": "t", "step": at, "text": str(at)}
            journal.add({"log": "metrics", "step": at, "m": {"a": float(at)}}, text, part=part)
    run = load_run(journal.folder.path)
    is_over = threading.Event()

    def seal_all_parts() -> None:
        for part in range(num_parts):
            seal(journal.folder, PartName("loop", 1, part))
        is_over.set()

    sealer = threading.Thread(target=seal_all_parts)
    sealer.start()
    try:
        while not is_over.is_set():
            assert [entry.record["text"] for entry in run.texts()] == [
                str(at) for at in range(num_parts * 4)
            ]
            assert run.series("a").values.tolist() == list(map(float, range(num_parts * 4)))
            assert len(list(run.records())) == num_parts * 9
            assert run.info.problem is None
            run.refresh()
    finally:
        sealer.join()


def _cut_to_half(folder: RunFolder) -> None:
    path = folder.part_path(PartName("loop", 1, 0))
    text = path.read_bytes()
    middle = text.index(b"\n", len(text) // 2) + 1
    with path.open("r+b") as file:
        file.truncate(middle)


def test_a_journal_that_was_cut_says_how_much_is_gone(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(1000):
        journal.metrics(step, loss=1.0)
    with folder_store(tmp_path) as store:
        run = store.run("x")
        assert run.info.records == 1001
        _cut_to_half(journal.folder)
        store.refresh()
        left = run.info.records
        assert left < 600
        assert "records are gone" in str(run.info.problem)
        assert len(run.series("loss")) == left - 1
        journal.metrics(1000, loss=2.0)
        store.refresh()
        assert run.series("loss").values[-1] == 2.0
        assert "became shorter" in str(run.info.problem)


def test_texts_of_a_journal_that_was_cut_are_those_that_are_left(tmp_path: Path) -> None:
    journal = _recorded(tmp_path)
    run = load_run(journal.folder.path)
    assert len(run.texts()) == 20
    _cut_to_half(journal.folder)
    assert 5 < len(run.texts()) < 15
    assert "became shorter" in str(run.info.problem)


def test_a_journal_that_was_cut_and_grew_beyond_its_size_is_read_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(100):
        journal.metrics(step, loss=1.0)
    run = load_run(journal.folder.path)
    assert run.info.records == 101
    _cut_to_half(journal.folder)
    for step in range(200, 300):
        journal.metrics(step, loss=2.0)
    run.refresh()
    steps = run.series("loss").steps.tolist()
    assert steps[-100:] == list(range(200, 300))
    assert steps[:-100] == list(range(len(steps) - 100))
    assert "became shorter" in str(run.info.problem)
