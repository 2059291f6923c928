"""Reads what a framework's callback wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import epochal


def points(folder: Path, name: str) -> dict[int, float]:
    series = epochal.load(folder).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def run_folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/*/run.json"))


def config(folder: Path) -> dict[str, Any]:
    return dict(epochal.load(folder).config)


def records(folder: Path) -> list[dict[str, Any]]:
    parts = sorted((folder / "journal").iterdir())
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def status(folder: Path) -> str:
    return epochal.load(folder).info.status.state


def script(text: str, *, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done
