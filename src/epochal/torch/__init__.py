"""What sits around a PyTorch training loop: ``watch``, data, memory, checkpoints, schedules.

Each name is imported when it is first used. Schedules and `Rng` work without torch. The names that
nearly every loop uses (`watch`, `Checkpoints`, `FlowBuilder`, …) are public in `epochal` instead.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochal.torch.checkpoint.model_file import *
    from epochal.torch.clip import *
    from epochal.torch.cudagraphs import *
    from epochal.torch.flops import *
    from epochal.torch.graph.picture import *
    from epochal.torch.graph.wiring import *
    from epochal.torch.init import *
    from epochal.torch.memory import *
    from epochal.torch.moe import *
    from epochal.torch.rng import *
    from epochal.torch.schedule import *
    from epochal.torch.structure import *
    from epochal.torch.worker import *

# The names of each module that are public here.
_NAMES = {
    "checkpoint.model_file": (
        "LoadReport ModelSnapshot load_checkpoint load_checkpoint_file save_checkpoint snapshot_cpu"
    ),
    "clip": "ClipStats clip_grad_norm clip_grad_value set_lr",
    "cudagraphs": "CaptureMode CudaGraph cuda_graph_capture",
    "flops": "SpeedOfLight",
    "graph.picture": "picture_of",
    "graph.wiring": "MergeOp",
    "init": (
        "cuda_manual_seed_all freeze is_frozen kaiming_normal kaiming_uniform manual_seed "
        "normal orthogonal seed_everything set_data trunc_normal unfreeze uniform uniform_bias "
        "xavier_normal xavier_uniform"
    ),
    "memory": (
        "cuda_active_bytes cuda_allocated_bytes cuda_empty_cache cuda_peak_active_bytes "
        "cuda_peak_reserved_bytes cuda_reset_peak_stats memory_guard memory_segments"
    ),
    "moe": "MoeAccumulator moe_stats",
    "rng": "Rng",
    "schedule": (
        "CosineScheduler CyclicLR ExponentialLR MultiStepLR OneCycleLR PlateauScheduler Scheduler "
        "StepDecay WarmupScheduler"
    ),
    "structure": "structural_hash",
    "worker": "CpuWorker",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return __all__
