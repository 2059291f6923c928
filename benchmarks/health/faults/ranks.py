"""Faults between the ranks of one training."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.machine import WINDOW_OF_PHASES
from benchmarks.health.faults.planting import fault, ramp, require, set_pace
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import add_phases, add_replicas, smoothed


def straggler(sketch: Sketch, strengths: Strengths) -> Fault:
    """One rank takes half as long again or more: by its own step times, or by all ranks' phases.

    Where phases tell, every step is as long as the slowest rank's, and the others wait in sync.
    """
    rng = sketch.rng
    require(sketch.style == "step" and sketch.resume_at is None)
    set_pace(sketch, low_ms=250, high_ms=1500)
    world = int(rng.choice([4, 8]))
    slow = int(rng.integers(1, world))
    row = int(rng.integers(200, 800))
    slower = within(rng, *strengths.slower)
    names = (f"rank {slow}", f"rank-{slow:04d}")
    if rng.random() < 0.5:
        sketch.phases = None
        replicas = add_replicas(sketch, world=world, every=10)
        replicas.step_ms[replicas.at >= row, slow - 1] *= slower
        return fault(sketch, "straggler", row, rows=500, seconds=60, names=names)
    before = sketch.step_ms.copy()
    sketch.step_ms[row:] *= slower
    add_replicas(sketch, world=world, every=10)
    sketch.step_ms, after = before, sketch.step_ms
    phases = add_phases(sketch, ranks=tuple(range(world)))
    sketch.step_ms = after
    late = phases.at >= row + phases.every
    for rank, parts in phases.by_rank.items():
        wall = np.sum(list(parts.values()), axis=0)
        extra = np.where(late, wall * (slower - 1), 0.0)
        if rank == slow:
            parts["forward"] = parts["forward"] + 0.4 * extra
            parts["backward"] = parts["backward"] + 0.6 * extra
        else:
            parts["sync"] = parts["sync"] + extra
    first = int(phases.at[int(np.argmax(late))])
    rows = 3 * WINDOW_OF_PHASES * phases.every
    return fault(sketch, "straggler", first, rows=rows, seconds=60, names=names)


def replica_drift(sketch: Sketch, strengths: Strengths) -> Fault:
    """One rank's weights grow apart from the others', or its loss leaves theirs for good.

    The loss leaves by eight times the noise it has then, or more.
    """
    rng = sketch.rng
    require(sketch.style == "step" and sketch.resume_at is None)
    require(sketch.falls and not sketch.is_noisy)
    world, every = int(rng.choice([2, 4, 8])), 10
    apart = int(rng.integers(1, world))
    row = int(rng.integers(20, 80)) * every
    is_weights = rng.random() < 0.6
    replicas = add_replicas(sketch, world=world, every=every, weights=is_weights)
    samples = len(replicas.at)
    along = ramp(samples, since=row // every, length=20)
    if replicas.weight_norm is not None:
        replicas.weight_norm[:, apart] *= 1 + within(rng, *strengths.drift) * along
    else:
        level = float(smoothed(sketch.loss, 51)[row])
        offset = rng.uniform(8, 25) * sketch.relative_noise() * level
        replicas.loss[:, apart - 1] += offset * along
    # Of two ranks, nobody can say which one left.
    names = (f"rank {apart}", f"rank-{apart:04d}") if world > 2 else ()
    return fault(sketch, "replica-drift", row, rows=60 * every, names=names)
