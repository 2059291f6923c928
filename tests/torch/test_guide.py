"""The examples of the guides run as printed, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.guides import run_examples


@pytest.mark.parametrize(("guide", "at_least"), [("around_the_loop.md", 10), ("checkpoints.md", 6)])
def test_every_example_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guide: str, at_least: int
) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(guide, at_least=at_least)
