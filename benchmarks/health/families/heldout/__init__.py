"""The half that is for judging.

It was drawn up without a look at the rules, and judged as a whole before any rule was touched for
what it showed; `benchmarks/RESULTS.md` has that first verdict beside the last.
"""

from __future__ import annotations

from benchmarks.health.families.heldout.newest import (
    click_rates,
    masked_words,
    single_scene,
    tabular,
)
from benchmarks.health.families.heldout.newest_large import (
    folding,
    long_context,
    momentum_teacher,
    quantised,
)
from benchmarks.health.families.heldout.quantities import (
    force_field,
    forecasting,
    graph_nodes,
    variational,
)
from benchmarks.health.families.heldout.sequences import (
    group_policy,
    instruction_tuning,
    large_pretraining,
    speech,
)
from benchmarks.health.families.heldout.together import (
    paired_embeddings,
    routed_tokens,
)
from benchmarks.health.families.heldout.vision import (
    masked_patches,
    mixed_images,
    scenes,
    unfreezing,
)
from benchmarks.health.strengths import Strengths

FAMILIES = {
    family.__name__.replace("_", "-"): family
    for family in (
        mixed_images,
        masked_patches,
        unfreezing,
        scenes,
        large_pretraining,
        instruction_tuning,
        group_policy,
        speech,
        variational,
        forecasting,
        force_field,
        graph_nodes,
        routed_tokens,
        paired_embeddings,
        masked_words,
        click_rates,
        single_scene,
        tabular,
        momentum_teacher,
        quantised,
        folding,
        long_context,
    )
}

NEWEST = (
    "masked-words",
    "click-rates",
    "single-scene",
    "tabular",
    "momentum-teacher",
    "quantised",
    "folding",
    "long-context",
)
"""Those drawn up last, when all rules but two thresholds were as they are now."""

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
