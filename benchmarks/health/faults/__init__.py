"""One class of faults per rule; the docstring of each planting function defines the class."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.health.faults.curves import (
    divergence,
    loss_spike,
    lr_too_high,
    never_fell,
    no_warmup,
    nonfinite,
    plateau,
    repeated_data,
)
from benchmarks.health.faults.evaluations import eval_at_chance, eval_flat, overfitting, too_good
from benchmarks.health.faults.experts import moe_collapse, moe_imbalance
from benchmarks.health.faults.gradients import (
    always_clipped,
    gradient_acceleration,
    gradient_explosion,
    gradient_vanishing,
)
from benchmarks.health.faults.layers import dead_layer, frozen_layer, update_ratio, weight_norm
from benchmarks.health.faults.machine import (
    gpu_throttling,
    input_bound,
    low_sol,
    memory_creep,
    memory_full,
    silent_run,
    throughput_drop,
)
from benchmarks.health.faults.planting import Plant, Sickness
from benchmarks.health.faults.ranks import replica_drift, straggler
from benchmarks.health.faults.records import clock_anomaly, step_anomaly

_PLANTS: tuple[Plant, ...] = (
    nonfinite,
    divergence,
    loss_spike,
    gradient_explosion,
    gradient_vanishing,
    gradient_acceleration,
    always_clipped,
    plateau,
    overfitting,
    no_warmup,
    lr_too_high,
    dead_layer,
    frozen_layer,
    update_ratio,
    throughput_drop,
    input_bound,
    straggler,
    gpu_throttling,
    memory_creep,
    memory_full,
    eval_flat,
    eval_at_chance,
    never_fell,
    weight_norm,
    replica_drift,
    low_sol,
    moe_imbalance,
    moe_collapse,
    silent_run,
    clock_anomaly,
    step_anomaly,
    repeated_data,
    too_good,
)


def sicknesses() -> Mapping[str, Sickness]:
    """Every class, by the name of its rule."""
    named = {plant.__name__.replace("_", "-"): plant for plant in _PLANTS}
    return {rule: Sickness(rule, plant) for rule, plant in named.items()}
