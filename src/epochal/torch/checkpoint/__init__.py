"""Checkpoints: a model in a file, a whole training in a folder, and going on from either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.checkpoint.checkpoints import Checkpoints
    from epochal.torch.checkpoint.manifest import Retention
    from epochal.torch.checkpoint.model_file import (
        LoadReport,
        ModelSnapshot,
        load_checkpoint,
        load_checkpoint_file,
        save_checkpoint,
        snapshot_cpu,
    )
    from epochal.torch.checkpoint.training_state import TrainingState

__all__ = [
    "Checkpoints",
    "LoadReport",
    "ModelSnapshot",
    "Retention",
    "TrainingState",
    "load_checkpoint",
    "load_checkpoint_file",
    "save_checkpoint",
    "snapshot_cpu",
]

__getattr__ = on_first_use(
    __name__,
    {
        "checkpoints": ["Checkpoints"],
        "manifest": ["Retention"],
        "model_file": [
            "LoadReport",
            "ModelSnapshot",
            "load_checkpoint",
            "load_checkpoint_file",
            "save_checkpoint",
            "snapshot_cpu",
        ],
        "training_state": ["TrainingState"],
    },
)
