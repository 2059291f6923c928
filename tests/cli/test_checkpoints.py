from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal
from tests.torch.checkpoint.test_manifest import make

Capture = pytest.CaptureFixture[str]


def checkpoints(folder: Path, *args: str) -> int:
    return main(["manage", "checkpoints", "x", "--dir", str(folder), *args])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the checkpoints of the run x are."""
    found = Journal(tmp_path, "x").metrics(1, loss=1).folder.path / "checkpoints"
    make(found, 5, metric=0.25)
    make(found, 10)
    (found / "latest").write_text("step-10\n")
    (found / "best").write_text("step-5\n")
    return found


def test_checkpoints_are_listed_within_80_columns(
    tmp_path: Path, folder: Path, capsys: Capture
) -> None:
    assert checkpoints(tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CHECKPOINT", "CLASS", "METRIC", "SIZE", "AGE", "VALID"]
    assert lines[1].split()[:6] == ["step-5", "best,", "rolling", "0.2500", "7", "B"]
    assert "latest, rolling" in lines[2]
    assert lines[3] == "14 B in 2 checkpoints."
    assert max(map(len, lines)) <= 80


def test_json_is_for_programs(tmp_path: Path, folder: Path, capsys: Capture) -> None:
    assert checkpoints(tmp_path, "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["step"], first["classes"], first["metric"]) == (5, ["best", "rolling"], 0.25)
    assert second["valid"] is True
    assert second["path"] == str(folder / "step-10")


def test_damage_is_named_and_the_exit_code_is_1(
    tmp_path: Path, folder: Path, capsys: Capture
) -> None:
    (folder / "step-5/model.safetensors").write_bytes(b"heights")
    (folder / "step-10/manifest.json").write_text("{")
    assert checkpoints(tmp_path, "--json", "--verify") == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["problem"] == "model.safetensors does not fit its checksum"
    assert "not valid JSON" in second["problem"]
    assert checkpoints(tmp_path) == 1


def test_a_run_without_checkpoints_says_how_to_make_them(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "x")
    assert checkpoints(tmp_path) == 0
    assert "epochal.Checkpoints(run, state) saves them" in capsys.readouterr().out


@pytest.mark.slow
def test_listing_needs_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, epochal.cli.checkpoints; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_those_that_lie_elsewhere_are_listed_with_their_place(
    tmp_path: Path, folder: Path, capsys: Capture
) -> None:
    journal = Journal(tmp_path, "y").metrics(1, loss=1)
    place = tmp_path / "elsewhere"
    make(place, 4, run_id="id-y")
    make(place, 5, run_id="id-x")
    said = {"name": "checkpoint", "step": 4, "path": str(place / "step-4")}
    journal.add({"log": "event", **said})
    assert main(["manage", "checkpoints", "y", "--dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["CHECKPOINT", "step-4"]
    assert lines[-1] == f"7 B in 1 checkpoint in {place}."
