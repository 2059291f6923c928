"""Checkpoints: a model in a file, a whole training in a folder, and going on from either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.checkpoint.checkpoints import Checkpoints
    from epochal.torch.checkpoint.file import (
        CheckpointInfo,
        checkpoint_info,
        checkpoint_keys,
        checkpoint_version,
    )
    from epochal.torch.checkpoint.manifest import CheckpointNotFoundError
    from epochal.torch.checkpoint.migrate import MigrateReport, migrate_checkpoint
    from epochal.torch.checkpoint.model_file import (
        LoadReport,
        checkpoint_config,
        load_checkpoint,
        load_checkpoint_file,
        load_subgraph_checkpoint,
        save_checkpoint,
    )
    from epochal.torch.checkpoint.retention import Retention
    from epochal.torch.checkpoint.snapshot import ModelSnapshot, snapshot_cpu
    from epochal.torch.checkpoint.state import Restored, load_state, save_state
    from epochal.torch.checkpoint.training_state import TrainingState

__all__ = [
    "CheckpointInfo",
    "CheckpointNotFoundError",
    "Checkpoints",
    "LoadReport",
    "MigrateReport",
    "ModelSnapshot",
    "Restored",
    "Retention",
    "TrainingState",
    "checkpoint_config",
    "checkpoint_info",
    "checkpoint_keys",
    "checkpoint_version",
    "load_checkpoint",
    "load_checkpoint_file",
    "load_state",
    "load_subgraph_checkpoint",
    "migrate_checkpoint",
    "save_checkpoint",
    "save_state",
    "snapshot_cpu",
]

__getattr__ = on_first_use(
    __name__,
    {
        "checkpoints": ["Checkpoints"],
        "file": ["CheckpointInfo", "checkpoint_info", "checkpoint_keys", "checkpoint_version"],
        "manifest": ["CheckpointNotFoundError"],
        "migrate": ["MigrateReport", "migrate_checkpoint"],
        "model_file": [
            "LoadReport",
            "checkpoint_config",
            "load_checkpoint",
            "load_checkpoint_file",
            "load_subgraph_checkpoint",
            "save_checkpoint",
        ],
        "retention": ["Retention"],
        "snapshot": ["ModelSnapshot", "snapshot_cpu"],
        "state": ["Restored", "load_state", "save_state"],
        "training_state": ["TrainingState"],
    },
)
