from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.companion.own_journal import OwnJournal
from tests.doubles.companions import companion_config
from tests.store.journals import Journal


def test_show_tells_what_the_companion_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Journal(tmp_path).metrics(1, loss=2.0)
    beside = OwnJournal(companion_config(run.folder.path))
    beside.event("hardware", text="2x H200")
    for cost in (0.2, 0.4):
        beside.write("system", {"epochal_cpu_pct": cost})
    beside.event("vanished", sentence="the training process vanished.")
    beside.close()
    main(["show", "x", "--dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert "hardware      2x H200\n" in out
    assert "vanished      the training process vanished.\n" in out
    assert "cost          epochal itself: 0.3 % of one core\n" in out


def test_show_of_a_run_without_companion_says_nothing_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(tmp_path).metrics(1, loss=2.0)
    main(["show", "x", "--dir", str(tmp_path)])
    assert "cost" not in capsys.readouterr().out


def test_show_counts_what_was_found_and_says_where_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"log": "finding", "rule": "nonfinite", "sentence": "The loss is nan."}
    findings = [
        {**found, "id": str(number), "severity": severity}
        for number, severity in enumerate(("error", "error", "warning"))
    ]
    Journal(tmp_path).metrics(1, loss=1.0).add(*findings, writer="findings")
    Journal(tmp_path, "y").metrics(1, loss=float("nan"))
    main(["show", "x", "--dir", str(tmp_path)])
    assert "findings      2 errors, 1 warning (epochal doctor p/x)\n" in capsys.readouterr().out
    main(["show", "y", "--dir", str(tmp_path)])
    assert "findings      the last loss is not finite (epochal" in capsys.readouterr().out


def test_show_counts_the_steps_that_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(tmp_path, totals={"steps": 600}).metrics(599, loss=1.0).finish()
    main(["show", "x", "--dir", str(tmp_path)])
    assert "steps         600 of 600\n" in capsys.readouterr().out


@pytest.mark.parametrize("is_set", [False, True])
def test_json_has_the_summary_of_the_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_set: bool
) -> None:
    run = Journal(tmp_path)
    run.add({"log": "define", "name": "acc", "goal": "max"})
    for step in range(4):
        run.metrics(step, acc=step / 8, loss=1 / (step + 1), width=2.0)
    if is_set:
        run.add({"log": "summary", "name": "acc", "value": 0.75})
    main(["show", "x", "--json", "--dir", str(tmp_path)])
    metrics = {one["name"]: one for one in json.loads(capsys.readouterr().out)["metrics"]}
    assert metrics["acc"]["summary"]["last"] == 0.375
    assert metrics["acc"]["best"] == [3, 0.375]
    assert metrics["loss"]["summary"]["min"] == 0.25
    assert metrics["loss"]["best"] == [3, 0.25]
    assert metrics["width"]["best"] is None
