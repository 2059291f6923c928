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
    main(["show", "x", "--all", "--dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert "hardware      2x H200\n" in out
    assert "vanished      the training process vanished.\n" in out
    assert "cost          epochal itself: 0.3 % of one core\n" in out


def test_show_of_a_run_without_companion_says_nothing_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(tmp_path).metrics(1, loss=2.0)
    main(["show", "x", "--all", "--dir", str(tmp_path)])
    assert "cost" not in capsys.readouterr().out


def test_findings_are_a_line_each_the_most_severe_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"log": "finding", "rule": "nonfinite", "sentence": "The loss is nan."}
    findings = [
        {**found, "id": severity, "severity": severity, "sentence": f"A {severity}."}
        for severity in ("warning", "error", "info")
    ]
    Journal(tmp_path).metrics(1, loss=1.0).add(*findings, writer="findings")
    Journal(tmp_path, "y").metrics(1, loss=float("nan"))
    main(["show", "x", "--dir", str(tmp_path)])
    assert capsys.readouterr().out.endswith(
        "FINDINGS\n  ✗ A error.\n  ! A warning.\n  · A info.\n"
        "  'epochal doctor p/x' shows the evidence and what to try.\n"
    )
    main(["show", "y", "--dir", str(tmp_path)])
    assert "last loss     not finite\n" in capsys.readouterr().out


def test_show_is_short_and_all_shows_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"lr": 0.1, "seed": 1, "model": {"width": 8}}
    Journal(tmp_path, "first", created=1000.0, config={**config, "lr": 0.2}).metrics(1, loss=1.0)
    layers = {f"params/{number}/norm": 1.0 for number in range(50)}
    packages = {f"package-{number}": "1.0" for number in range(300)}
    run = Journal(tmp_path, "second", created=2000.0, config=config, packages=packages)
    for step in range(3):
        metrics = {**layers, "loss": 1.0 / (step + 1), "val/acc": 0.5, "kept": 0.1}
        run.add({"log": "metrics", "step": step, "m": metrics})
    run.add({"log": "define", "name": "kept", "goal": "max"})
    run.add({"log": "system", "cpu_pct": 3.0}, writer="telemetry-0000")
    run.add({"log": "summary", "name": "score", "value": 0.75}).finish()
    assert main(["show", "--dir", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert said.err == "The newest run is p/second.\n"
    lines = [line.split() for line in said.out.splitlines()]
    assert ["loss", "0.3333", "0.3333", "at", "2"] in lines
    assert ["score", "0.7500"] in lines
    assert "  51 more metrics: --all" in said.out
    assert "CONFIG (changed since first)\n  lr  0.1  was 0.2\n" in said.out
    main(["show", "second", "--json", "--dir", str(tmp_path)])
    text = capsys.readouterr().out
    assert len(text) < 2000
    shown = json.loads(text)
    assert shown["changed"] == {"lr": [0.2, 0.1]}
    assert [one["name"] for one in shown["metrics"]] == ["kept", "loss", "score", "val/acc"]
    main(["show", "second", "--all", "--dir", str(tmp_path)])
    everything = capsys.readouterr().out
    assert "params/49/norm" in everything
    assert "model.width  8" in everything
    main(["show", "second", "--all", "--json", "--dir", str(tmp_path)])
    assert json.loads(capsys.readouterr().out)["facts"]["packages"] == packages


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
    main(["show", "x", "--all", "--json", "--dir", str(tmp_path)])
    metrics = {one["name"]: one for one in json.loads(capsys.readouterr().out)["metrics"]}
    assert metrics["acc"]["summary"]["last"] == (0.75 if is_set else 0.375)
    assert metrics["acc"]["best"] == [3, 0.375]
    assert metrics["loss"]["summary"]["min"] == 0.25
    assert metrics["loss"]["best"] == [3, 0.25]
    assert metrics["width"]["best"] is None
