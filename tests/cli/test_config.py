"""``epochal config`` says where each value comes from, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.settings import DECLARED

FILE = """\
project = "gpt2"
alerts = ["desktop", "slack://TokenA/TokenB"]

[sinks]
mlflow_tracking_uri = "https://me:hunter22@host/x"
tensorboard_dir = "tb"

[rules]
silence = ["plateau"]

[rules.overfitting]
evals = 4
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "epochal.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, Any]]:
    assert main(["config", "--json", *more]) == 0
    lines = json.loads(capsys.readouterr().out)["settings"]
    return {line["name"]: line for line in lines}


def test_every_setting_is_shown_with_its_source(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_GRACE", "3")
    lines = shown(capsys)
    assert {one.key or one.name for one in DECLARED} <= lines.keys()
    file = str(project / "epochal.toml")
    none = {"variable": None, "file": None}
    assert lines["project"] == {
        **none, "name": "project", "value": "gpt2", "from": "project", "file": file,
    }  # fmt: skip
    assert lines["grace_s"] == {
        **none, "name": "grace_s", "value": 3.0, "from": "environment", "variable": "EPOCHAL_GRACE",
    }  # fmt: skip
    assert lines["git"] == {**none, "name": "git", "value": True, "from": "default"}
    assert lines["rules.silence"]["value"] == ["plateau"]
    assert lines["rules.overfitting.evals"]["value"] == 4
    assert lines["sinks.tensorboard_dir"]["value"] == str(project / "tb")


def test_the_users_file_is_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "epochal").mkdir()
    (tmp_path / "epochal" / "epochal.toml").write_text("git = false")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert shown(capsys)["git"]["from"] == "user"


def test_secrets_are_not_shown(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_TOKEN", "abcdefghijkl")
    for arguments in (["config"], ["config", "--json"]):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        for secret in ("Token", "hunter22", "abcdefghijkl"):
            assert secret not in out
        assert "slack://[redacted]" in out
        assert "https://me:[redacted]@host/x" in out


def test_a_person_sees_a_line_for_each(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"project file: {project / 'epochal.toml'}"
    assert "project gpt2 epochal.toml" in lines
    assert "companion false environment variable EPOCHAL_COMPANION" in lines
    assert "git true default" in lines


def test_all_shows_options_of_sinks_and_thresholds_too(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, "--all")
    assert lines["rules.plateau.window"]["value"] == 300
    assert lines["rules.overfitting.evals"]["from"] == "project"
    assert lines["sinks.wandb_project"]["value"] is None


def test_the_files_are_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"project file: {project / 'epochal.toml'}"
    assert second.endswith("epochal.toml  (not there)")


@pytest.mark.parametrize("command", [["config"], ["ls"], ["serve"], ["doctor", "x"]])
def test_a_mistake_is_one_sentence_and_exit_code_two(
    project: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (project / "epochal.toml").write_text("[rules.overfiting]\nevals = 4")
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said == "epochal: epochal.toml: rules.overfiting is not a rule; did you mean" + (
        " overfitting?\n"
    )
