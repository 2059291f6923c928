"""The half that thresholds may be tuned with; half of it was held out once."""

from __future__ import annotations

from benchmarks.health.families.train.bends import (
    curriculum,
    data_mixture,
    inverse_root,
    step_decay,
    trapezoid,
)
from benchmarks.health.families.train.curves import (
    cosine,
    heavy_tails,
    one_cycle,
    power_law,
    scales,
    warm_restarts,
)
from benchmarks.health.families.train.later import (
    decades,
    growing_batches,
    high_floor,
    shards,
    slow_start,
    triangular_rates,
)
from benchmarks.health.families.train.loops import (
    cadences,
    experts,
    language_model,
    replicas,
    resumed,
)
from benchmarks.health.families.train.numbers import (
    adapters,
    coarse_numbers,
    denoising,
    distillation,
    negative_likelihood,
)
from benchmarks.health.families.train.systems import (
    many_experts,
    many_ranks,
    sparse_records,
)
from benchmarks.health.families.train.tasks import (
    classification,
    contrastive,
    epochs,
    fine_tuning,
    oscillating,
    reinforcement,
)
from benchmarks.health.strengths import Strengths

FAMILIES = {
    family.__name__.replace("_", "-"): family
    for family in (
        power_law,
        cosine,
        warm_restarts,
        one_cycle,
        scales,
        heavy_tails,
        language_model,
        cadences,
        experts,
        replicas,
        resumed,
        fine_tuning,
        classification,
        contrastive,
        epochs,
        oscillating,
        reinforcement,
        data_mixture,
        curriculum,
        step_decay,
        inverse_root,
        trapezoid,
        coarse_numbers,
        denoising,
        negative_likelihood,
        adapters,
        distillation,
        many_experts,
        many_ranks,
        sparse_records,
        triangular_rates,
        shards,
        high_floor,
        growing_batches,
        slow_start,
        decades,
    )
}

STRENGTHS = Strengths(
    rise=(1.8, 100.0),
    rise_rows=(10, 150),
    spike=(0.5, 10.0),
    explosion=(30, 1e6),
    vanishing=(1e-9, 2e-3),
    doubling_rows=(8, 40),
    clipped=(2.5, 100),
    overfit=(0.012, 0.12),
    shock=(0.18, 3.0),
    peak_rise=(0.2, 3.0),
    slower=(1.5, 8.0),
    waiting=(0.4, 0.95),
    clock=(0.25, 0.75),
    creep_per_min=(0.012, 0.1),
    filling_s=(300, 1500),
    sol=(5, 48),
    crowding=(0.6, 0.98),
    alive=(0.05, 0.42),
    weights_per_sample=(1.2, 2.5),
    drift=(0.008, 0.5),
    cliff=(0.18, 0.7),
    clock_jump_s=(75, 40_000),
)
