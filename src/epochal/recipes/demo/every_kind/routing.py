"""How the made-up model's router spreads tokens over experts: one layer slowly gives up two."""

from __future__ import annotations

import numpy as np

from epochal.recipes.demo.every_kind import scenario
from epochal.records import Record
from epochal.run import typed
from epochal.run.accepted import strict_values

NUM_EXPERTS = 8
TOP_K = 2
# Layers are named by whoever wrote the model: anything may stand in them.
LAYERS = ("blocks.1.mlp", "blocks.3.mlp", "blocks.5.mlp", "blocks.7.mlp", "<b>blocks.9</b>&mlp")
_FADING_LAYER = 3
_FADING_EXPERTS = (2, 6)


def routing_records(at: float, step: int, *, seed: int) -> tuple[Record, Record]:
    """What the router did at a step: its figures, and each expert's share of the work."""
    load = _load(step, seed=seed)
    worst = load[_FADING_LAYER]
    figures = {
        "aux_loss": 0.012,
        "z_loss": 0.0011,
        "expert_utilization": float((load > 0.1 / NUM_EXPERTS).mean()),
        "load_imbalance": float((load.max(axis=1) * NUM_EXPERTS).mean()),
        "active_experts": float((load > 0.1 / NUM_EXPERTS).sum(axis=1).mean()),
        "max_expert_fraction": float(load.max()),
        "min_active_expert_fraction": float(worst[worst > 0].min()),
        "load_cv": float((load.std(axis=1) * NUM_EXPERTS).mean()),
        "router_entropy": 0.88,
        "router_confidence": 0.42,
    }
    shares = [[round(float(share), 5) for share in layer] for layer in load]
    experts = {"log": "experts", "t": at, "step": step, "layers": list(LAYERS)}
    return (
        typed.moe_record(at, strict_values(), step, figures),
        {**experts, "load": shares, "top_k": TOP_K},
    )


def _load(step: int, *, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    habits = np.random.default_rng((seed, 7)).uniform(0.6, 1.4, (len(LAYERS), NUM_EXPERTS))
    noise = np.random.default_rng((seed, 8, step)).uniform(0.9, 1.1, habits.shape)
    load = habits * noise
    for expert in _FADING_EXPERTS:
        load[_FADING_LAYER, expert] *= max(0.004, 1.0 - step / (0.8 * scenario.NUM_STEPS))
    shares: np.ndarray[tuple[int, int], np.dtype[np.float64]] = load / load.sum(
        axis=1, keepdims=True
    )
    return shares
