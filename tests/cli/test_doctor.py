import json
import math
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main


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
    assert text.startswith("p/a  (finished, step 1)")
    assert "nonfinite · loss · step 1" in text
    assert "try: " in text
    assert text.endswith("1 error.\n")


def test_a_healthy_run_is_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, [2.0, 1.9, 1.8])
    assert main(["--dir", str(tmp_path), "doctor", "a"]) == 0
    assert "Nothing was found" in capsys.readouterr().out


def test_programs_read_it_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, [2.0, math.nan])
    assert main(["--dir", str(tmp_path), "doctor", "a", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["errors"]) == ("a", 1)
    assert said["findings"][0]["rule"] == "nonfinite"
    assert said["findings"][0]["steps"] == [1, 1]


def test_what_is_less_grave_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path, [2.0] * 3)
    assert main(["--dir", str(tmp_path), "doctor", "a", "--severity", "error", "--open"]) == 0
