"""Tests with real frameworks that ``make test-frameworks`` installs; elsewhere left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

import epochal

collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if importlib.util.find_spec(path.stem.removeprefix("test_")) is None
]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "runs"
    epochal.finish()
