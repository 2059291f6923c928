"""A training finds its newest checkpoint whole, wherever a save ended or failed before it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from epochal.torch.checkpoint.checkpoints import Checkpoints, Ranks, load_state
from epochal.torch.checkpoint.manifest import Retention, find
from epochal.torch.checkpoint.training_state import TrainingState
from tests.crash.crash_points import Child, Crash, Fault, crashes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Training:
    """A model of one weight, the number of its save; two checkpoints stay."""

    def __init__(self, folder: Path) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        self.state = TrainingState(self.model)
        self.checkpoints = Checkpoints(
            folder, self.state, keep=Retention(rolling=2), signals=(), overwrite=True
        )

    def save(self, step: int, number: int) -> None:
        nn.init.constant_(self.model.weight, number)
        self.checkpoints.save(step)

    def restored(self, step: int | None = None) -> int:
        self.checkpoints.restore(step)
        return int(self.model.weight.item())


def check_restored(crash: Crash) -> None:
    """The latest checkpoint is the second or the third, and every one that is listed is whole."""
    if crash.fault in (Fault.FULL, Fault.BROKEN):  # whoever was told of an error has cleaned up
        state = TrainingState(nn.Linear(1, 1, bias=False))
        load_state(find(crash.folder, "latest"), state, Ranks(0, 1))
    training = Training(crash.folder)
    for manifest in training.checkpoints.list():
        training.restored(manifest.step)
    assert training.restored() in (crash.acknowledged or [2, 3]), crash
    training.save(9, 4)
    assert training.restored() == 4, crash


@pytest.mark.parametrize("step", [2, 1], ids=["new", "again"])
def test_a_checkpoint_that_is_saved(original: Path, step: int) -> None:
    training = Training(original)
    training.save(0, 1)
    training.save(1, 2)

    def save(folder: Path, child: Child) -> None:
        torch.set_num_threads(1)
        training = child.attempt(lambda: Training(folder))
        child.attempt(lambda: training.save(step, 3))
        child.acknowledge(3)

    for crash in crashes(original, save):
        check_restored(crash)
