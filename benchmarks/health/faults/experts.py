"""Faults of routers; their window is fifty router records."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import fault, ramp, require
from benchmarks.health.parts import within
from benchmarks.health.sketch import Experts, Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import add_experts

WINDOW = 50


def moe_imbalance(sketch: Sketch, strengths: Strengths) -> Fault:
    """One expert per layer takes 60 % or more of all it could ever get; the others still get some.

    A token picks an expert once, so the largest imbalance there can be is E/k.
    """
    rng = sketch.rng
    experts, every, place = _routed(sketch, ((8, 1), (16, 2), (32, 4), (64, 4), (64, 8)))
    along = ramp(len(experts.at), since=place, length=rng.uniform(2, 15))[:, None]
    wanted = within(rng, *strengths.crowding) / experts.top_k
    count = experts.load.shape[2]
    hot = int(rng.integers(0, count))
    share = experts.load[:, :, hot] * (1 - along) + wanted * along
    rest = (1 - share) / (1 - experts.load[:, :, hot])
    experts.load *= rest[:, :, None]
    experts.load[:, :, hot] = share
    experts.aux_loss *= 1 + 2 * along[:, 0]
    return fault(sketch, "moe-imbalance", int(experts.at[place]), rows=3 * WINDOW * every)


def moe_collapse(sketch: Sketch, strengths: Strengths) -> Fault:
    """The routers use less than half of their experts; the rest get no token at all."""
    rng = sketch.rng
    experts, every, place = _routed(sketch, ((8, 1), (8, 2), (16, 2), (32, 4), (64, 4)))
    count = experts.load.shape[2]
    alive = max(experts.top_k, int(within(rng, *strengths.alive) * count))
    along = ramp(len(experts.at), since=place, length=rng.uniform(2, 15))
    left = np.ones(count)
    left[alive:] = 0.0
    experts.load *= np.where(along[:, None, None] < 1, 1 - along[:, None, None] * (1 - left), left)
    experts.load /= experts.load.sum(axis=2, keepdims=True)
    experts.entropy *= 1 - along * rng.uniform(0.75, 0.98)
    experts.aux_loss *= 1 + 3 * along
    return fault(sketch, "moe-collapse", int(experts.at[place]), rows=3 * WINDOW * every)


def _routed(sketch: Sketch, shapes: tuple[tuple[int, int], ...]) -> tuple[Experts, int, int]:
    rng = sketch.rng
    require(sketch.resume_at is None)
    every = int(rng.choice([2, 5]))
    count, top_k = shapes[int(rng.integers(0, len(shapes)))]
    experts = add_experts(sketch, every=every, count=count, top_k=top_k)
    return experts, every, int(rng.integers(40, 150))
