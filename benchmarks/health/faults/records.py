"""Faults of what is written down: clocks and counters."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import fault, require
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch
from benchmarks.health.strengths import Strengths


def clock_anomaly(sketch: Sketch, strengths: Strengths) -> Fault:
    """The clock goes back by more than a minute, or ahead by more than an hour within a step."""
    rng = sketch.rng
    require(sketch.resume_at is None)
    row = int(rng.integers(100, 1500))
    jump = within(rng, *strengths.clock_jump_s)
    jump = -jump if rng.random() < 0.7 else 3600 + jump
    sketch.clock_shift = np.where(np.arange(sketch.rows) >= row, jump, 0.0)
    sketch.has_machine = False  # whose clock it is would be another question
    return fault(sketch, "clock-anomaly", row, rows=5)


def step_anomaly(sketch: Sketch, strengths: Strengths) -> Fault:
    """The counter starts over from a hundred rows earlier or more, stands still, or leaps ahead."""
    rng = sketch.rng
    require(sketch.resume_at is None)
    row = int(rng.integers(150, 1500))
    rows = np.arange(sketch.rows)
    kind = rng.choice(["back", "still", "ahead"])
    if kind == "back":
        shift = np.where(rows >= row, -int(rng.integers(100, row)), 0)
    elif kind == "still":
        stop = row + int(rng.integers(30, 300))
        shift = -np.clip(rows - row + 1, 0, stop - row)
    else:
        shift = np.where(rows >= row, int(within(rng, 1e5, 1e7)), 0)
    sketch.step_shift = (shift * sketch.every).astype(np.int64)
    sketch.layers = sketch.phases = sketch.experts = sketch.replicas = sketch.evals = None
    return fault(sketch, "step-anomaly", row, rows=20)
