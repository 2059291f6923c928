"""The half that thresholds may be tuned with."""

from __future__ import annotations

from benchmarks.health.families.train.curves import (
    cosine,
    heavy_tails,
    one_cycle,
    power_law,
    scales,
    warm_restarts,
)
from benchmarks.health.families.train.loops import (
    cadences,
    experts,
    language_model,
    replicas,
    resumed,
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
    )
}

STRENGTHS = Strengths(
    rise=(2.0, 30.0),
    rise_rows=(20, 120),
    spike=(0.6, 5.0),
    explosion=(40, 1e4),
    vanishing=(1e-7, 1e-3),
    doubling_rows=(12, 35),
    clipped=(3, 40),
    overfit=(0.015, 0.08),
    shock=(0.2, 1.5),
    peak_rise=(0.25, 1.5),
    slower=(1.6, 5.0),
    waiting=(0.45, 0.9),
    clock=(0.35, 0.7),
    creep_per_min=(0.015, 0.06),
    filling_s=(400, 1200),
    sol=(12, 45),
    crowding=(0.65, 0.95),
    alive=(0.1, 0.4),
    weights_per_sample=(1.25, 1.8),
    drift=(0.01, 0.3),
    cliff=(0.2, 0.5),
    clock_jump_s=(90, 9000),
)
