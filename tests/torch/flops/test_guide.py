"""The examples of the guide run as they stand, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.guides import run_examples


def test_every_example_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples("speed_of_light.md", at_least=6)
    assert "[Speed of Light]" in capsys.readouterr().err
