"""Halves of rows of docs/development/coverage.md that no other test shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.exchange.sinks.members.json_log import JsonLogOptions, JsonLogSink
from epochal.exchange.sinks.sink import Entry, SinkContext
from epochal.journal.layout import RunFolder
from epochal.records import Position
from tests.conftest import StartRun


def test_the_time_left_follows_the_tokens(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(console=True, total_tokens=3600 * 1000, line_every_s=0)
    for step in range(2):
        run.log_step(step, None, 1000, 1000.0, 1.0, 2.0, 1e-3)
    assert re.search(r"step +1 \[  0\.1%\].* \| eta \d+[sdh]\w* \|", capsys.readouterr().err)


def test_the_lines_of_a_run_have_its_configuration_steps_and_gpus(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run("feed", config={"lr": 0.5})
    run.log_step(1, None, 10, 5.0, 1.0, 2.0, 1e-3)
    run.log_gpu_state(1, 0, power=300_000)
    run.finish()
    assert main(["--dir", str(run.dir.parents[1]), "export", "feed", "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {record["log"]: record for record in records}
    assert found["run"]["config"] == {"lr": 0.5}
    assert (found["step"]["loss"], found["gpu"]["power"]) == (2.0, 300_000)


def test_the_log_file_is_in_the_folder_of_the_run_by_default(tmp_path: Path) -> None:
    sink = JsonLogSink()
    sink.open(
        SinkContext(folder=RunFolder(tmp_path), identity={}, options=JsonLogOptions(), state={})
    )
    sink.write(Entry(Position("loop", 1, 0, 0), {"log": "step", "t": 1.5, "step": 0}, 0))
    sink.close(None)
    assert [record["step"] for record in json.loads((tmp_path / "training.json").read_text())] == [
        0
    ]


def test_a_single_tracker_may_be_named_with_its_options(start_run: StartRun) -> None:
    options = {"aim_repo": "/repo", "aim_experiment": "e", "aim_name": "n"}
    run = start_run(report_to="aim", **options)
    kept = json.loads((run.dir / "sinks.json").read_text())
    assert (kept["report_to"], kept["options"]) == (["aim"], options)
