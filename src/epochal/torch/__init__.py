"""What sits around a PyTorch training loop: schedules, clipping, weights, seeds, checkpoints.

Each name is imported when it is first used. Schedules and `Rng` work without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochal.torch.calibration import Calibration, calibrate
    from epochal.torch.checkpoint import (
        checkpoint_config,
        load_checkpoint,
        load_checkpoint_file,
        load_subgraph_checkpoint,
        save_checkpoint,
    )
    from epochal.torch.checkpoint_peek import (
        CheckpointInfo,
        checkpoint_info,
        checkpoint_keys,
        checkpoint_version,
    )
    from epochal.torch.checkpoints import Checkpoints
    from epochal.torch.clip import ClipStats, clip_grad_norm, clip_grad_value
    from epochal.torch.cudagraphs import CaptureMode, CudaGraph, cuda_graph_capture
    from epochal.torch.early_stopping import EarlyStopping
    from epochal.torch.estimate import SpeedOfLight, speed_of_light
    from epochal.torch.flop_count import CountedFlops, count_flops
    from epochal.torch.flops import Flops, Trained, flops_per_token
    from epochal.torch.freezing import freeze, is_frozen, unfreeze
    from epochal.torch.graph.builder import FlowBuilder
    from epochal.torch.graph.drawn import picture_of
    from epochal.torch.graph.graph import Graph
    from epochal.torch.graph.merge import MergeOp
    from epochal.torch.graph.module_profile import ModuleProfile, profile_module
    from epochal.torch.graph.picture import Picture
    from epochal.torch.graph.profile_report import Profile
    from epochal.torch.graph.recorded import ScalarSum
    from epochal.torch.graph.reduce import Reduce
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
    from epochal.torch.load_report import LoadReport
    from epochal.torch.loss_guard import LossGuard
    from epochal.torch.manifest import CheckpointNotFoundError
    from epochal.torch.memory import (
        cuda_active_bytes,
        cuda_allocated_bytes,
        cuda_empty_cache,
        cuda_peak_active_bytes,
        cuda_peak_reserved_bytes,
        cuda_reset_peak_stats,
        cuda_spill_bytes,
    )
    from epochal.torch.memory_account import MemoryReport, memory_report
    from epochal.torch.memory_watch import MemoryWatch, watch_memory
    from epochal.torch.migrate import MigrateReport, migrate_checkpoint
    from epochal.torch.mixed_precision import GradScaler, autocast, autocast_dtype
    from epochal.torch.moe import MoeAccumulator, MoeStats, moe_stats
    from epochal.torch.moe_watch import MoeWatch, watch_moe
    from epochal.torch.optimizer import set_lr
    from epochal.torch.plateau import PlateauScheduler
    from epochal.torch.retention import Retention
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
    from epochal.torch.segmented_memory import MemorySegments, memory_segments
    from epochal.torch.snapshot import ModelSnapshot, snapshot_cpu
    from epochal.torch.state import Restored, load_state, save_state
    from epochal.torch.structure import structural_hash
    from epochal.torch.tensor_growth import LeakReport, leak_report, mark_tensors
    from epochal.torch.token_plan import TokenBudget, token_budget
    from epochal.torch.training_state import TrainingState
    from epochal.torch.watching import watch
    from epochal.torch.worker import CpuWorker

_HOMES = {
    "Calibration": "epochal.torch.calibration",
    "CaptureMode": "epochal.torch.cudagraphs",
    "CheckpointInfo": "epochal.torch.checkpoint_peek",
    "CheckpointNotFoundError": "epochal.torch.manifest",
    "Checkpoints": "epochal.torch.checkpoints",
    "ClipStats": "epochal.torch.clip",
    "ConstantLR": "epochal.torch.schedules",
    "Cooldown": "epochal.torch.schedule_wrappers",
    "CosineScheduler": "epochal.torch.schedules",
    "CountedFlops": "epochal.torch.flop_count",
    "CpuWorker": "epochal.torch.worker",
    "CudaGraph": "epochal.torch.cudagraphs",
    "CyclicLR": "epochal.torch.schedules",
    "EarlyStopping": "epochal.torch.early_stopping",
    "ExponentialLR": "epochal.torch.schedules",
    "Flops": "epochal.torch.flops",
    "FlowBuilder": "epochal.torch.graph.builder",
    "GradScaler": "epochal.torch.mixed_precision",
    "Graph": "epochal.torch.graph.graph",
    "GroupRates": "epochal.torch.schedule_wrappers",
    "InverseSqrt": "epochal.torch.schedules",
    "LeakReport": "epochal.torch.tensor_growth",
    "LinearLR": "epochal.torch.schedules",
    "LoadReport": "epochal.torch.load_report",
    "LossGuard": "epochal.torch.loss_guard",
    "MemoryReport": "epochal.torch.memory_account",
    "MemorySegments": "epochal.torch.segmented_memory",
    "MemoryWatch": "epochal.torch.memory_watch",
    "MergeOp": "epochal.torch.graph.merge",
    "MigrateReport": "epochal.torch.migrate",
    "ModelSnapshot": "epochal.torch.snapshot",
    "ModuleProfile": "epochal.torch.graph.module_profile",
    "MoeAccumulator": "epochal.torch.moe",
    "MoeStats": "epochal.torch.moe",
    "MoeWatch": "epochal.torch.moe_watch",
    "MultiStepLR": "epochal.torch.schedules",
    "OneCycleLR": "epochal.torch.schedules",
    "PermanentReduction": "epochal.torch.schedule_wrappers",
    "Picture": "epochal.torch.graph.picture",
    "PlateauScheduler": "epochal.torch.plateau",
    "Profile": "epochal.torch.graph.profile_report",
    "Reduce": "epochal.torch.graph.reduce",
    "Restored": "epochal.torch.state",
    "Retention": "epochal.torch.retention",
    "Rng": "epochal.torch.rng",
    "ScalarSum": "epochal.torch.graph.recorded",
    "ScaledLR": "epochal.torch.schedule_wrappers",
    "Scheduler": "epochal.torch.schedule",
    "SequentialLR": "epochal.torch.schedule_wrappers",
    "SpeedOfLight": "epochal.torch.estimate",
    "StepDecay": "epochal.torch.schedules",
    "TemporaryOverride": "epochal.torch.schedule_wrappers",
    "TokenBudget": "epochal.torch.token_plan",
    "Trained": "epochal.torch.flops",
    "TrainingState": "epochal.torch.training_state",
    "WSD": "epochal.torch.schedules",
    "WarmupScheduler": "epochal.torch.schedule_wrappers",
    "autocast": "epochal.torch.mixed_precision",
    "autocast_dtype": "epochal.torch.mixed_precision",
    "calibrate": "epochal.torch.calibration",
    "checkpoint_config": "epochal.torch.checkpoint",
    "checkpoint_info": "epochal.torch.checkpoint_peek",
    "checkpoint_keys": "epochal.torch.checkpoint_peek",
    "checkpoint_version": "epochal.torch.checkpoint_peek",
    "clip_grad_norm": "epochal.torch.clip",
    "clip_grad_value": "epochal.torch.clip",
    "count_flops": "epochal.torch.flop_count",
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
    "flops_per_token": "epochal.torch.flops",
    "format_schedule": "epochal.torch.schedule_text",
    "freeze": "epochal.torch.freezing",
    "is_frozen": "epochal.torch.freezing",
    "kaiming_normal": "epochal.torch.init",
    "kaiming_uniform": "epochal.torch.init",
    "leak_report": "epochal.torch.tensor_growth",
    "live_tensor_count": "epochal.torch.leaks",
    "load_checkpoint": "epochal.torch.checkpoint",
    "load_checkpoint_file": "epochal.torch.checkpoint",
    "load_state": "epochal.torch.state",
    "load_subgraph_checkpoint": "epochal.torch.checkpoint",
    "malloc_trim": "epochal.torch.leaks",
    "manual_seed": "epochal.torch.seed",
    "mark_tensors": "epochal.torch.tensor_growth",
    "memory_report": "epochal.torch.memory_account",
    "memory_segments": "epochal.torch.segmented_memory",
    "migrate_checkpoint": "epochal.torch.migrate",
    "moe_stats": "epochal.torch.moe",
    "normal": "epochal.torch.init",
    "orthogonal": "epochal.torch.init",
    "parse_schedule": "epochal.torch.schedule_text",
    "picture_of": "epochal.torch.graph.drawn",
    "profile_module": "epochal.torch.graph.module_profile",
    "rss_kb": "epochal.torch.leaks",
    "save_checkpoint": "epochal.torch.checkpoint",
    "save_state": "epochal.torch.state",
    "seed_everything": "epochal.torch.seed",
    "set_data": "epochal.torch.init",
    "set_lr": "epochal.torch.optimizer",
    "snapshot_cpu": "epochal.torch.snapshot",
    "speed_of_light": "epochal.torch.estimate",
    "structural_hash": "epochal.torch.structure",
    "token_budget": "epochal.torch.token_plan",
    "trunc_normal": "epochal.torch.init",
    "unfreeze": "epochal.torch.freezing",
    "uniform": "epochal.torch.init",
    "uniform_bias": "epochal.torch.init",
    "watch": "epochal.torch.watching",
    "watch_memory": "epochal.torch.memory_watch",
    "watch_moe": "epochal.torch.moe_watch",
    "xavier_normal": "epochal.torch.init",
    "xavier_uniform": "epochal.torch.init",
}

__all__ = [
    "WSD",
    "Calibration",
    "CaptureMode",
    "CheckpointInfo",
    "CheckpointNotFoundError",
    "Checkpoints",
    "ClipStats",
    "ConstantLR",
    "Cooldown",
    "CosineScheduler",
    "CountedFlops",
    "CpuWorker",
    "CudaGraph",
    "CyclicLR",
    "EarlyStopping",
    "ExponentialLR",
    "Flops",
    "FlowBuilder",
    "GradScaler",
    "Graph",
    "GroupRates",
    "InverseSqrt",
    "LeakReport",
    "LinearLR",
    "LoadReport",
    "LossGuard",
    "MemoryReport",
    "MemorySegments",
    "MemoryWatch",
    "MergeOp",
    "MigrateReport",
    "ModelSnapshot",
    "ModuleProfile",
    "MoeAccumulator",
    "MoeStats",
    "MoeWatch",
    "MultiStepLR",
    "OneCycleLR",
    "PermanentReduction",
    "Picture",
    "PlateauScheduler",
    "Profile",
    "Reduce",
    "Restored",
    "Retention",
    "Rng",
    "ScalarSum",
    "ScaledLR",
    "Scheduler",
    "SequentialLR",
    "SpeedOfLight",
    "StepDecay",
    "TemporaryOverride",
    "TokenBudget",
    "Trained",
    "TrainingState",
    "WarmupScheduler",
    "autocast",
    "autocast_dtype",
    "calibrate",
    "checkpoint_config",
    "checkpoint_info",
    "checkpoint_keys",
    "checkpoint_version",
    "clip_grad_norm",
    "clip_grad_value",
    "count_flops",
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
    "flops_per_token",
    "format_schedule",
    "freeze",
    "is_frozen",
    "kaiming_normal",
    "kaiming_uniform",
    "leak_report",
    "live_tensor_count",
    "load_checkpoint",
    "load_checkpoint_file",
    "load_state",
    "load_subgraph_checkpoint",
    "malloc_trim",
    "manual_seed",
    "mark_tensors",
    "memory_report",
    "memory_segments",
    "migrate_checkpoint",
    "moe_stats",
    "normal",
    "orthogonal",
    "parse_schedule",
    "picture_of",
    "profile_module",
    "rss_kb",
    "save_checkpoint",
    "save_state",
    "seed_everything",
    "set_data",
    "set_lr",
    "snapshot_cpu",
    "speed_of_light",
    "structural_hash",
    "token_budget",
    "trunc_normal",
    "unfreeze",
    "uniform",
    "uniform_bias",
    "watch",
    "watch_memory",
    "watch_moe",
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
