"""Every rule there is, in the order they look at a record; advice, built on the others, last."""

from __future__ import annotations

from epochal.health.rule import Rule
from epochal.health.rules.advice_cuts import AdviceCuts
from epochal.health.rules.advice_fading import AdviceFading
from epochal.health.rules.advice_guard import AdviceGuard
from epochal.health.rules.advice_rate_room import AdviceRateRoom
from epochal.health.rules.advice_stuck import AdviceStuck
from epochal.health.rules.advice_unstable import AdviceUnstable
from epochal.health.rules.alert_failed import AlertFailed
from epochal.health.rules.dead_layer import DeadLayer
from epochal.health.rules.frozen_layer import FrozenLayer
from epochal.health.rules.gpu_throttling import GpuThrottling
from epochal.health.rules.input_bound import InputBound
from epochal.health.rules.low_sol import LowSol
from epochal.health.rules.memory_creep import MemoryCreep
from epochal.health.rules.memory_full import MemoryFull
from epochal.health.rules.moe_collapse import MoeCollapse
from epochal.health.rules.moe_imbalance import MoeImbalance
from epochal.health.rules.out_of_memory import OutOfMemory
from epochal.health.rules.replica_drift import ReplicaDrift
from epochal.health.rules.silent_run import SilentRun
from epochal.health.rules.straggler import Straggler
from epochal.health.rules.throughput_drop import ThroughputDrop
from epochal.health.rules.update_ratio import UpdateRatio
from epochal.health.rules.weight_norm import WeightNorm
from epochal.health.rules_on_curves import CURVE_RULES

MACHINE_RULES: tuple[type[Rule], ...] = (
    DeadLayer,
    FrozenLayer,
    UpdateRatio,
    WeightNorm,
    ThroughputDrop,
    InputBound,
    Straggler,
    GpuThrottling,
    MemoryCreep,
    MemoryFull,
    OutOfMemory,
    LowSol,
    ReplicaDrift,
    MoeImbalance,
    MoeCollapse,
    SilentRun,
    AlertFailed,
)
ADVICE_RULES: tuple[type[Rule], ...] = (
    AdviceUnstable,
    AdviceStuck,
    AdviceFading,
    AdviceGuard,
    AdviceCuts,
    AdviceRateRoom,
)

RULES: tuple[type[Rule], ...] = (*CURVE_RULES, *MACHINE_RULES, *ADVICE_RULES)
