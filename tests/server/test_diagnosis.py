"""One answer about a run, wherever it is asked."""

from __future__ import annotations

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import epochal
from epochal.cli.main import main
from epochal.journal.layout import RunFolder
from epochal.journal.summaries import read_summary
from epochal.server.mcp import make_server
from epochal.store.opening import open_runs
from tests.server.live import Server


def asked_over_mcp(root: Path, run: str) -> dict[str, Any]:
    with open_runs(root) as store:
        answer = anyio.run(partial(make_server(store).call_tool, "diagnosis", {"run": run}))
    return answer.structured_content["data"]  # type: ignore[union-attr, no-any-return]


def test_everybody_gets_the_diagnosis_that_the_companion_wrote(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=True)
    assert run.diagnosis().state == "unknown"
    for step in range(30):
        run.log({"loss": math.nan if step > 20 else 1.0}, step=step)
    while not run.diagnosis().causes:  # while the training goes on
        time.sleep(0.05)
    live = run.diagnosis()
    run.finish()
    row = None
    while row is None or not row.is_ended or not row.diagnosis.is_judged:
        row = read_summary(str(RunFolder(run.dir).path))
    carried = row.diagnosis
    # The evidence has grown meanwhile; the finding is the same.
    assert [one.id for one in live.causes] == [one.id for one in carried.causes]
    assert carried.causes[0].steps == (21, 29)
    assert (carried.state, carried.as_of) == ("broken", 29)
    loaded = epochal.load(run.dir)
    assert loaded.diagnosis == carried
    assert [one.rule for one in loaded.findings] == [one.rule for one in carried.causes]
    assert len(loaded["loss"]) == 30
    with epochal.open(tmp_path) as runs:
        assert (len(runs), runs["p/a"].diagnosis) == (1, carried)
    assert carried.sentence in loaded._repr_html_()
    assert main(["--dir", str(tmp_path), "doctor", "a", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    main(["--dir", str(tmp_path), "ls", "--json"])
    (listed,) = json.loads(capsys.readouterr().out)
    over_mcp = asked_over_mcp(tmp_path, "a")
    shown = server.ask(f"/api/runs/{run.id}").json["row"]["diagnosis"]
    assert {told["state"], listed["diagnosis"], over_mcp["state"], shown["state"]} == {"broken"}
    assert told["sentence"] == over_mcp["sentence"] == shown["sentence"] == carried.sentence
    assert told["causes"][0]["sentence"] == over_mcp["causes"][0]["sentence"]
    assert over_mcp["status"] == "finished"
