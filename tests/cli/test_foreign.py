"""Commands on other trackers' folders and files, without importing them first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.exchange.imports.event_files import scalar, write_events
from tests.exchange.imports.samples import GOLDEN
from tests.store.journals import Journal


def _out(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    for name, level in (("a", 1.0), ("b", 2.0)):
        events = [scalar("loss", level / (step + 1), step=step, t=1.7e9) for step in range(4)]
        write_events(tmp_path / "logs" / name, events)
    return tmp_path / "logs"


def test_a_folder_is_listed(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(logs), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["name"], row["loss"]) for row in rows} == {("a", 0.25), ("b", 0.5)}


def test_a_word_alone_is_a_project_before_it_is_a_folder(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs.parent)
    assert main(["ls", "logs", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    Journal(logs.parent / "runs", "own", project="logs").metrics(1, loss=1.0)
    assert main(["ls", "logs", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["own"]


def test_runs_are_shown_compared_and_exported(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(logs / "a")]) == 0
    assert "files of      TensorBoard" in capsys.readouterr().out
    assert main(["--dir", str(logs), "compare", "a", "b"]) == 0
    assert "0.5000 (+0.2500)" in capsys.readouterr().out
    assert main(["export", str(logs / "a"), "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["step,t,loss", "0,1700000000.0,1.0"]
    assert main(["tail", str(logs / "b"), "-n", "1"]) == 0
    assert "loss=0.5000" in capsys.readouterr().out


def test_a_run_has_one_name_however_it_is_come_by(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["ls", str(logs), "--json"])
    listed = {(row["project"], row["name"]) for row in json.loads(_out(capsys))}
    main(["doctor", str(logs / "a")])
    assert "\nlogs/a  (" in _out(capsys)
    assert ("logs", "a") in listed


def test_a_run_is_renamed_and_its_files_stay(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manage", "rename", str(logs / "a"), "best"]) == 0
    assert main(["ls", str(logs)]) == 0
    assert "best" in capsys.readouterr().out
    assert {path.name for path in logs.iterdir()} == {"a", "b"}


@pytest.mark.parametrize(
    "command", ["manage pack", "manage verify", "manage repair", "sync", "manage checkpoints"]
)
def test_what_needs_a_folder_of_ours_says_how_to_get_one(
    command: str, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), str(logs / "a")]) == 2
    assert f"'epochal import {logs / 'a'}' makes a copy" in capsys.readouterr().err


def test_packing_all_leaves_them_alone(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", str(logs), "manage", "pack", "--all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_they_are_not_deleted(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rm", "-y", str(logs / "a")]) == 2
    assert "which are only read" in capsys.readouterr().err


def test_a_damaged_file_is_named(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (GOLDEN / "mlflow.db").read_bytes()
    shutil.rmtree(logs)
    logs.mkdir()
    (logs / "mlflow.db").write_bytes(text[:100] + b"\xff" * 5000)
    assert main(["ls", str(logs)]) == 0
    assert "mlflow.db cannot be read" in capsys.readouterr().err


def test_a_path_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "absent/folder"]) == 2
    assert "there is no folder 'absent/folder'" in capsys.readouterr().err
