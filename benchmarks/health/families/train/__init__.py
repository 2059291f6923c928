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
from benchmarks.health.families.train.systems import many_experts, many_ranks, sparse_records
from benchmarks.health.families.train.tasks import (
    classification,
    contrastive,
    epochs,
    fine_tuning,
    oscillating,
    reinforcement,
)

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
