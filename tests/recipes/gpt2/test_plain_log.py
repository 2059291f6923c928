"""The plain log of a training: written beside it, by the companion."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.recipes.gpt2.trainings import command, environment, losses


def test_it_has_the_losses_and_nothing_else_when_the_training_has_ended(tmp_path: Path) -> None:
    own = environment(tmp_path, EPOCHAL_COMPANION="1")
    words = command(tmp_path, run_name="run", max_steps=5, logdir=tmp_path / "logs")
    subprocess.run(words, env=own, check=True, capture_output=True, timeout=240)
    path = tmp_path / "logs" / "run.txt"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not path.exists() or "4 val" not in path.read_text()):
        time.sleep(0.05)
    rows = [line.split() for line in path.read_text().splitlines()]
    kinds = [(int(step), kind) for step, kind, _ in rows]
    assert kinds == [(0, "val"), *((step, "train") for step in range(5)), (4, "val")]
    written = {int(step): float(value) for step, kind, value in rows if kind == "train"}
    assert written == losses(tmp_path, "run")
