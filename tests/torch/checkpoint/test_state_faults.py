"""A save that the outside world breaks off leaves the older checkpoints, and nothing half."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from epochal.torch.checkpoint.model_file import load_checkpoint, save_checkpoint
from epochal.torch.checkpoint.state import load_state, save_state
from epochal.torch.checkpoint.training_state import TrainingState

resource = pytest.importorskip("resource")
SCRIPT = Path(__file__).with_name("saving_forever.py")


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 10 kB, which a write notices as it notices a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["m.safetensors", "m.fdl.gz", "m.zst"])
def test_a_full_disk_leaves_the_older_file(tmp_path: Path, name: str) -> None:
    save_checkpoint(tmp_path / name, {"a": torch.ones(2)})
    with full_disk(), pytest.raises(OSError, match="File too large"):
        save_checkpoint(tmp_path / name, {"a": torch.randn(10_000)})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert load_checkpoint(tmp_path / name, {"a": torch.zeros(2)}).is_complete


def test_a_full_disk_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    state = TrainingState(nn.Linear(100, 100))
    save_state(tmp_path, state, step=1)
    with full_disk(), pytest.raises(OSError, match="File too large"):
        save_state(tmp_path, state, step=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-1"]
    assert load_state(tmp_path, state).step == 1


def test_a_training_that_is_killed_while_saving_has_whole_checkpoints(tmp_path: Path) -> None:
    model = nn.Linear(100, 100)
    acknowledged = -1
    for wait in (2, 5, 9):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            assert process.stdout is not None
            for _ in range(wait):
                acknowledged = int(process.stdout.readline())
            process.kill()
            rest = process.stdout.read().split()
            acknowledged = int(rest[-1]) if rest else acknowledged
        restored = load_state(tmp_path, TrainingState(model))
        assert restored.step in (acknowledged, acknowledged + 1)
        assert bool((model.weight == restored.step).all())
