"""The commands of the clinic, as a developer types them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def clinic(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.clinic", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_training_is_run_and_judged(tmp_path: Path) -> None:
    printed = clinic(tmp_path, "run", "--only", "friedman/healthy", "--workers", "2")
    assert "failed" not in printed
    assert len(list((tmp_path / ".bench" / "clinic").glob("*.jsonl.xz"))) == 2
    assert clinic(tmp_path, "judge").startswith("2 healthy trainings")
