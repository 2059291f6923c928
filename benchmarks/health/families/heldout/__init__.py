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
from benchmarks.health.families.heldout.together import paired_embeddings, routed_tokens
from benchmarks.health.families.heldout.vision import (
    masked_patches,
    mixed_images,
    scenes,
    unfreezing,
)

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
