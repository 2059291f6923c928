from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    same = {"seed": 1, "model": {"depth": 4}}
    first = Journal(tmp_path, "base", config={"lr": 1e-3, **same})
    first.metrics(1, loss=2.0, acc=0.5).metrics(2, loss=1.0, acc=0.75)
    second = Journal(tmp_path, "other", config={"lr": 3e-3, **same, "model": {"depth": 8}})
    second.metrics(1, loss=1.5).finish()
    return tmp_path


def test_compare_shows_differences_and_deltas_to_the_first(root: Path, capsys: Capture) -> None:
    assert main(["compare", "base", "other", "--dir", str(root)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["CONFIG", "base", "other"] in lines
    assert ["lr", "0.001", "0.003"] in lines
    assert ["model.depth", "4", "8"] in lines
    assert ["loss", "(min)", "1.0000", "1.5000", "(+0.5000)"] in lines
    assert ["acc", "0.7500", "—"] in lines
    assert not any(line[:1] == ["seed"] for line in lines)


def test_compare_json_is_for_programs(root: Path, capsys: Capture) -> None:
    command = ["compare", "base", "other", "--json", "-m", "loss", "--all", "--dir", str(root)]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["runs"]] == ["base", "other"]
    assert found["config"]["seed"] == [1, 1]
    (metric,) = found["metrics"]
    assert (metric["name"], metric["values"], metric["deltas"]) == ("loss", [1.0, 1.5], [0.0, 0.5])


def test_compare_takes_two_runs(root: Path, capsys: Capture) -> None:
    assert main(["compare", "base", "base", "--dir", str(root)]) == 1
    assert "two runs or more" in capsys.readouterr().err
