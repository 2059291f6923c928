from __future__ import annotations

from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal, settle

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, project, lr in (("a", "p", 0.1), ("b", "p", 0.3), ("c", "q", 0.2)):
        Journal(tmp_path, name, project=project, config={"lr": lr}).metrics(1, loss=lr * 10)
    return tmp_path


def listed(capsys: Capture, root: Path, *arguments: str) -> list[str]:
    assert main(["ls", *arguments, "--dir", str(root)]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]


def test_ls_takes_a_query_and_an_order(root: Path, capsys: Capture) -> None:
    assert listed(capsys, root, "config.lr > 0.1", "--sort", "config.lr") == ["c", "b"]
    assert listed(capsys, root, "--sort=-summary.loss.last", "-n", "2") == ["b", "c"]


def test_a_word_alone_is_a_project(root: Path, capsys: Capture) -> None:
    assert listed(capsys, root, "q") == ["c"]
    assert sorted(listed(capsys, root, "config.lr")) == ["a", "b", "c"]
    assert main(["ls", "nothing", "--dir", str(root)]) == 0
    assert "No run of project 'nothing'" in capsys.readouterr().out


def test_a_mistake_in_a_query_is_shown(root: Path, capsys: Capture) -> None:
    assert main(["ls", "config.lr <", "--dir", str(root)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "               ^"


def test_runs_listed_before_are_listed_from_the_index(
    root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(cache))
    settle(root)
    first = listed(capsys, root)
    assert list(cache.glob("*.sqlite"))
    assert listed(capsys, root) == first
