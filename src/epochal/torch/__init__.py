"""What sits around a PyTorch training loop: schedules, clipping, weights, seeds, memory, graphs.

Each name is imported when it is first used. Schedules and `Rng` work without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochal.torch.clip import ClipStats, clip_grad_norm, clip_grad_value
    from epochal.torch.cudagraphs import CaptureMode, CudaGraph, cuda_graph_capture
    from epochal.torch.freezing import freeze, is_frozen, unfreeze
    from epochal.torch.init import (
        kaiming_normal,
        kaiming_uniform,
        normal,
        orthogonal,
        set_data,
        trunc_normal,
        uniform,
        uniform_bias,
        xavier_normal,
        xavier_uniform,
    )
    from epochal.torch.leaks import live_tensor_count, malloc_trim, rss_kb
    from epochal.torch.memory import (
        cuda_active_bytes,
        cuda_allocated_bytes,
        cuda_empty_cache,
        cuda_peak_active_bytes,
        cuda_peak_reserved_bytes,
        cuda_reset_peak_stats,
        cuda_spill_bytes,
    )
    from epochal.torch.optimizer import set_lr
    from epochal.torch.plateau import PlateauScheduler
    from epochal.torch.rng import Rng
    from epochal.torch.schedule import Scheduler
    from epochal.torch.schedule_plot import draw_schedule
    from epochal.torch.schedule_text import format_schedule, parse_schedule
    from epochal.torch.schedule_wrappers import (
        Cooldown,
        GroupRates,
        PermanentReduction,
        ScaledLR,
        SequentialLR,
        TemporaryOverride,
        WarmupScheduler,
    )
    from epochal.torch.schedules import (
        WSD,
        ConstantLR,
        CosineScheduler,
        CyclicLR,
        ExponentialLR,
        InverseSqrt,
        LinearLR,
        MultiStepLR,
        OneCycleLR,
        StepDecay,
    )
    from epochal.torch.seed import (
        cuda_manual_seed_all,
        deterministic,
        manual_seed,
        seed_everything,
    )

_HOMES = {
    "CaptureMode": "epochal.torch.cudagraphs",
    "ClipStats": "epochal.torch.clip",
    "ConstantLR": "epochal.torch.schedules",
    "Cooldown": "epochal.torch.schedule_wrappers",
    "CosineScheduler": "epochal.torch.schedules",
    "CudaGraph": "epochal.torch.cudagraphs",
    "CyclicLR": "epochal.torch.schedules",
    "ExponentialLR": "epochal.torch.schedules",
    "GroupRates": "epochal.torch.schedule_wrappers",
    "InverseSqrt": "epochal.torch.schedules",
    "LinearLR": "epochal.torch.schedules",
    "MultiStepLR": "epochal.torch.schedules",
    "OneCycleLR": "epochal.torch.schedules",
    "PermanentReduction": "epochal.torch.schedule_wrappers",
    "PlateauScheduler": "epochal.torch.plateau",
    "Rng": "epochal.torch.rng",
    "ScaledLR": "epochal.torch.schedule_wrappers",
    "Scheduler": "epochal.torch.schedule",
    "SequentialLR": "epochal.torch.schedule_wrappers",
    "StepDecay": "epochal.torch.schedules",
    "TemporaryOverride": "epochal.torch.schedule_wrappers",
    "WSD": "epochal.torch.schedules",
    "WarmupScheduler": "epochal.torch.schedule_wrappers",
    "clip_grad_norm": "epochal.torch.clip",
    "clip_grad_value": "epochal.torch.clip",
    "cuda_active_bytes": "epochal.torch.memory",
    "cuda_allocated_bytes": "epochal.torch.memory",
    "cuda_empty_cache": "epochal.torch.memory",
    "cuda_graph_capture": "epochal.torch.cudagraphs",
    "cuda_manual_seed_all": "epochal.torch.seed",
    "cuda_peak_active_bytes": "epochal.torch.memory",
    "cuda_peak_reserved_bytes": "epochal.torch.memory",
    "cuda_reset_peak_stats": "epochal.torch.memory",
    "cuda_spill_bytes": "epochal.torch.memory",
    "deterministic": "epochal.torch.seed",
    "draw_schedule": "epochal.torch.schedule_plot",
    "format_schedule": "epochal.torch.schedule_text",
    "freeze": "epochal.torch.freezing",
    "is_frozen": "epochal.torch.freezing",
    "kaiming_normal": "epochal.torch.init",
    "kaiming_uniform": "epochal.torch.init",
    "live_tensor_count": "epochal.torch.leaks",
    "malloc_trim": "epochal.torch.leaks",
    "manual_seed": "epochal.torch.seed",
    "normal": "epochal.torch.init",
    "orthogonal": "epochal.torch.init",
    "parse_schedule": "epochal.torch.schedule_text",
    "rss_kb": "epochal.torch.leaks",
    "seed_everything": "epochal.torch.seed",
    "set_data": "epochal.torch.init",
    "set_lr": "epochal.torch.optimizer",
    "trunc_normal": "epochal.torch.init",
    "unfreeze": "epochal.torch.freezing",
    "uniform": "epochal.torch.init",
    "uniform_bias": "epochal.torch.init",
    "xavier_normal": "epochal.torch.init",
    "xavier_uniform": "epochal.torch.init",
}

__all__ = [
    "WSD",
    "CaptureMode",
    "ClipStats",
    "ConstantLR",
    "Cooldown",
    "CosineScheduler",
    "CudaGraph",
    "CyclicLR",
    "ExponentialLR",
    "GroupRates",
    "InverseSqrt",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PermanentReduction",
    "PlateauScheduler",
    "Rng",
    "ScaledLR",
    "Scheduler",
    "SequentialLR",
    "StepDecay",
    "TemporaryOverride",
    "WarmupScheduler",
    "clip_grad_norm",
    "clip_grad_value",
    "cuda_active_bytes",
    "cuda_allocated_bytes",
    "cuda_empty_cache",
    "cuda_graph_capture",
    "cuda_manual_seed_all",
    "cuda_peak_active_bytes",
    "cuda_peak_reserved_bytes",
    "cuda_reset_peak_stats",
    "cuda_spill_bytes",
    "deterministic",
    "draw_schedule",
    "format_schedule",
    "freeze",
    "is_frozen",
    "kaiming_normal",
    "kaiming_uniform",
    "live_tensor_count",
    "malloc_trim",
    "manual_seed",
    "normal",
    "orthogonal",
    "parse_schedule",
    "rss_kb",
    "seed_everything",
    "set_data",
    "set_lr",
    "trunc_normal",
    "unfreeze",
    "uniform",
    "uniform_bias",
    "xavier_normal",
    "xavier_uniform",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'epochal.torch' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
