import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.companion.diagnosis import Diagnosis
from tests.doubles.companions import companion_config
from tests.store.journals import Journal


def record(folder: Path, losses: list[float]) -> None:
    run = epochal.init("p", "a", dir=folder, console=False, companion=False)
    for step, loss in enumerate(losses):
        run.log({"loss": loss}, step=step)
    run.finish()


def test_a_sick_run_is_diagnosed_with_evidence_and_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [2.0, math.nan])
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Broken: values that are not finite.\np/a  (finished, step 1)")
    assert "nonfinite · loss · step 1 · certain" in text
    assert "try: " in text
    assert "not observed: program, optimizer, gradients (add epochal.watch(model))" in text
    assert text.endswith("The rules evaluated 2 of 2 records.\n")
    assert len(text) < 3.5 * 400  # tokens


def test_a_run_of_which_little_was_seen_is_not_called_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [2.0, 1.9, 1.8])
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Unknown: nothing wrong in the logged curves, and nothing else was")
    assert "next: epochal.watch(model)" in text
    assert main(["--dir", str(tmp_path), "doctor", "a", "--strict"]) == 5


def test_a_healthy_run_is_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path).add({"log": "event", "name": "model", "parameters": 2})
    for step in range(300):
        values: dict[str, Any] = {"loss": 2 - step / 300, "grads/a/norm": 1.0 + step % 7 / 10}
        if step % 20 == 0:
            values["eval/loss"] = 2.1 - step / 300
        journal.metrics(step, **values)
    journal.finish()
    assert main(["doctor", "x", "--strict", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Healthy: ")


@pytest.mark.parametrize("columns", [40, 70])
def test_it_is_as_wide_as_the_terminal(
    tmp_path: Path,
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(tmp_path, [2.0, math.nan])
    monkeypatch.setenv("COLUMNS", str(columns))
    main(["--dir", str(tmp_path), "doctor", "a"])
    longest = max(map(len, capsys.readouterr().out.splitlines()))
    assert columns - 15 <= longest <= columns


def test_programs_read_it_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, [2.0, math.nan])
    assert main(["--dir", str(tmp_path), "doctor", "a", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["errors"]) == ("a", 1)
    assert (said["evaluated"], said["records"]) == (2, 2)
    assert (said["state"], said["is_judged"]) == ("broken", True)
    assert said["causes"][0]["rule"] == "nonfinite"
    assert said["causes"][0]["steps"] == [1, 1]


def test_without_a_run_the_newest_is_diagnosed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [2.0, math.nan])
    assert main(["--dir", str(tmp_path), "doctor"]) == 1
    said = capsys.readouterr()
    assert "\np/a  (finished, step 1)\n" in said.out
    assert said.err == "The newest run is p/a.\n"


def test_two_runs_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "a", "b"]) == 2
    assert "unexpected extra argument (b)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("severity", "state", "code"),
    [
        ("error", "closed", 0),
        ("error", "open", 1),
        ("warning", "open", 1),
        ("warning", "closed", 0),
        ("info", "open", 0),
    ],
)
def test_the_exit_code_says_whether_something_is_wrong(
    tmp_path: Path, severity: str, state: str, code: int
) -> None:
    finding = {"log": "finding", "id": "1", "rule": "r", "sentence": "A sentence."}
    found = {**finding, "severity": severity, "state": state}
    Journal(tmp_path).metrics(1, loss=1.0).finish().add(found, writer="findings")
    assert main(["doctor", "x", "--dir", str(tmp_path)]) == code


def test_findings_are_coloured_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path, [2.0, math.nan])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    main(["--dir", str(tmp_path), "doctor", "a"])
    assert "\x1b[31m✗ The loss became NaN" in capsys.readouterr().out


def die(folder: Path, code: str, *, companion: bool = False) -> None:
    """A program that records three steps and then ends in its own way."""
    program = f"""
import os, signal, epochal
run = epochal.init("p", "a", dir={str(folder)!r}, console=False, companion={companion})
for step in range(3):
    run.log({{"loss": 2.0 - 0.1 * step}}, step=step)
{code}
"""
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)


def test_a_run_that_raised_is_an_error_with_the_place_and_the_way_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    die(tmp_path, "raise ValueError('no such column')")
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Broken: the run failed.\np/a  (failed, step 2)\n")
    assert "✗ The run failed after step 2: ValueError: no such column." in text
    assert "evidence: at <string>, line 6" in text
    assert "epochal resume a" in text


def test_a_killed_run_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    die(tmp_path, "run.flush(); os.kill(os.getpid(), signal.SIGKILL)")
    assert main(["--dir", str(tmp_path), "doctor", "a", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["errors"]) == ("crashed", 1)
    assert said["causes"][0]["rule"] == "crashed"
    assert said["causes"][0]["steps"] == [2, 2]


def test_a_run_stopped_by_hand_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    die(tmp_path, "raise KeyboardInterrupt")
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 0
    assert "· The run was stopped by hand after step 2." in capsys.readouterr().out


def test_a_run_that_went_on_and_finished_is_well_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    die(tmp_path, "raise ValueError")
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False, resume="must")
    run.log({"loss": 1.7}, step=3)
    run.finish()
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 0
    assert "Unknown: nothing wrong" in capsys.readouterr().out


def test_the_list_and_the_doctor_count_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    for step in range(40):
        run.log({"loss": math.nan if step == 20 else 1.0}, step=step)
    run.finish("failed", reason="ValueError: x")
    Diagnosis(companion_config(run.dir)).go_on()
    assert main(["--dir", str(tmp_path), "doctor", "a", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["errors"] == 2
    main(["--dir", str(tmp_path), "ls", "errors == 2"])
    assert "broken" in capsys.readouterr().out
    main(["--dir", str(tmp_path), "show", "a", "--json"])
    shown = json.loads(capsys.readouterr().out)["findings"]
    assert [one["severity"] for one in shown] == ["error", "error"]
    assert [one.get("is_resolved", False) for one in shown] == [False, True]


def test_what_an_attempt_before_had_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [2.0, math.nan])
    again = epochal.init(
        "p", "a", dir=tmp_path, console=False, companion=False, resume="must", resume_step=1
    )
    again.log({"loss": 1.5}, step=1)
    again.finish()
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 0
    assert "step 1, resolved)" in capsys.readouterr().out


def test_a_run_of_epochs_failed_after_an_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = epochal.Monitor(40, name="a", project="p", dir=tmp_path, console=False)
    for epoch in range(2):
        monitor.log(epoch, 0.1, {"loss": 1.0})
    monitor.run.finish("failed", reason="boom")
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 1
    text = capsys.readouterr().out
    assert "\np/a  (failed, epoch 2)\n" in text
    assert "The run failed after epoch 2: boom." in text


def test_a_run_that_is_worse_than_other_seeds_is_unexplained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, ended in enumerate((1.0, 1.02, 0.98, 1.01, 1.5)):
        config = {"lr": 0.1, "seed": seed}
        run = epochal.init(
            "p", f"s{seed}", dir=tmp_path, config=config, console=False, companion=False
        )
        for step in range(50):
            run.log({"eval/loss": ended + (49 - step) / 50}, step=step)
        run.finish()
    assert main(["--dir", str(tmp_path), "doctor", "s4"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Suspicious: unexplained.")
    assert "4 runs that differ in the seed alone" in text
    assert main(["--dir", str(tmp_path), "doctor", "s3"]) == 0
    assert "unexplained" not in capsys.readouterr().out
