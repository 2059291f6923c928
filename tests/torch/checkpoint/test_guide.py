"""The examples of the guide run as they stand, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.guides import run_examples


def test_every_example_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples("checkpoints.md", at_least=10)
    assert "lr: 0.001 → 0.0005" in capsys.readouterr().err
