"""What sits around a PyTorch training loop: schedules, clipping, weights, seeds, checkpoints.

Each name is imported when it is first used. Schedules and `Rng` work without torch. The names that
nearly every loop uses (`watch`, `Checkpoints`, `FlowBuilder`, …) are public in `epochal` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal import __all__ as root_names
from epochal.torch import checkpoint, data, graph, moe, schedule
from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.checkpoint import *
    from epochal.torch.clip import ClipStats as ClipStats
    from epochal.torch.clip import clip_grad_norm as clip_grad_norm
    from epochal.torch.clip import clip_grad_value as clip_grad_value
    from epochal.torch.cudagraphs import CaptureMode as CaptureMode
    from epochal.torch.cudagraphs import CudaGraph as CudaGraph
    from epochal.torch.cudagraphs import cuda_graph_capture as cuda_graph_capture
    from epochal.torch.data import *
    from epochal.torch.flops import SpeedOfLight as SpeedOfLight
    from epochal.torch.flops import flops_per_token as flops_per_token
    from epochal.torch.freezing import freeze as freeze
    from epochal.torch.freezing import is_frozen as is_frozen
    from epochal.torch.freezing import unfreeze as unfreeze
    from epochal.torch.graph import *
    from epochal.torch.init import kaiming_normal as kaiming_normal
    from epochal.torch.init import kaiming_uniform as kaiming_uniform
    from epochal.torch.init import normal as normal
    from epochal.torch.init import orthogonal as orthogonal
    from epochal.torch.init import set_data as set_data
    from epochal.torch.init import trunc_normal as trunc_normal
    from epochal.torch.init import uniform as uniform
    from epochal.torch.init import uniform_bias as uniform_bias
    from epochal.torch.init import xavier_normal as xavier_normal
    from epochal.torch.init import xavier_uniform as xavier_uniform
    from epochal.torch.memory import cuda_active_bytes as cuda_active_bytes
    from epochal.torch.memory import cuda_allocated_bytes as cuda_allocated_bytes
    from epochal.torch.memory import cuda_empty_cache as cuda_empty_cache
    from epochal.torch.memory import cuda_peak_active_bytes as cuda_peak_active_bytes
    from epochal.torch.memory import cuda_peak_reserved_bytes as cuda_peak_reserved_bytes
    from epochal.torch.memory import cuda_reset_peak_stats as cuda_reset_peak_stats
    from epochal.torch.memory import memory_segments as memory_segments
    from epochal.torch.moe import *
    from epochal.torch.optimizer import set_lr as set_lr
    from epochal.torch.rng import Rng as Rng
    from epochal.torch.schedule import *
    from epochal.torch.seed import cuda_manual_seed_all as cuda_manual_seed_all
    from epochal.torch.seed import manual_seed as manual_seed
    from epochal.torch.seed import seed_everything as seed_everything
    from epochal.torch.structure import structural_hash as structural_hash
    from epochal.torch.worker import CpuWorker as CpuWorker

# What each package and module has for users.
_NAMES = {
    "checkpoint": checkpoint.__all__,
    "data": data.__all__,
    "graph": graph.__all__,
    "moe": moe.__all__,
    "schedule": schedule.__all__,
    "flops": ["SpeedOfLight", "flops_per_token", "speed_of_light"],
    "memory": [
        "cuda_active_bytes",
        "cuda_allocated_bytes",
        "cuda_empty_cache",
        "cuda_peak_active_bytes",
        "cuda_peak_reserved_bytes",
        "cuda_reset_peak_stats",
        "memory_segments",
        "watch_memory",
    ],
    "clip": ["ClipStats", "clip_grad_norm", "clip_grad_value"],
    "cudagraphs": ["CaptureMode", "CudaGraph", "cuda_graph_capture"],
    "init": [
        "kaiming_normal",
        "kaiming_uniform",
        "normal",
        "orthogonal",
        "set_data",
        "trunc_normal",
        "uniform",
        "uniform_bias",
        "xavier_normal",
        "xavier_uniform",
    ],
    "freezing": ["freeze", "is_frozen", "unfreeze"],
    "optimizer": ["set_lr"],
    "rng": ["Rng"],
    "seed": ["cuda_manual_seed_all", "manual_seed", "seed_everything"],
    "structure": ["structural_hash"],
    "worker": ["CpuWorker"],
    "watching": ["watch"],
}

# What is public in `epochal` has that place only.
__all__ = sorted({name for names in _NAMES.values() for name in names} - set(root_names))

__getattr__ = on_first_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
