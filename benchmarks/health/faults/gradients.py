"""Faults that gradient norms show."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.curves import RISE_ROWS
from benchmarks.health.faults.planting import fault, onset, ramp, require, soon
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import smoothed


def gradient_explosion(sketch: Sketch, strengths: Strengths) -> Fault:
    """Within eight rows the norm is thirty times the usual or more, for fifteen rows at least."""
    rng = sketch.rng
    require(_has_norm_role(sketch))
    row = onset(sketch, 200, 1500)
    stop = row + int(rng.integers(20, 400))
    length = rng.uniform(1, 8) if sketch.every == 1 else 1.0
    up = ramp(sketch.rows, since=row, length=length)
    up[stop:] = 0.0
    sketch.norm *= within(rng, *strengths.explosion) ** up
    return fault(sketch, "gradient-explosion", row, rows=soon(sketch))


def gradient_vanishing(sketch: Sketch, strengths: Strengths) -> Fault:
    """The norm shrinks to a five-hundredth of the usual or less; the loss stops falling."""
    rng = sketch.rng
    require(_has_norm_role(sketch))
    row = onset(sketch, 300, 1200)
    down = ramp(sketch.rows, since=row, length=rng.uniform(20, 120))
    sketch.norm *= within(rng, *strengths.vanishing) ** down
    smooth = smoothed(sketch.loss, 51)
    if sketch.falls:
        sketch.loss[row:] *= smooth[row] / smooth[row:]
    return fault(sketch, "gradient-vanishing", row, rows=RISE_ROWS)


def gradient_acceleration(sketch: Sketch, strengths: Strengths) -> Fault:
    """The norm doubles every 8 to 40 rows, eight times over, and the loss begins to rise with it.

    Without the rise it is no fault: gradients also grow where a loss leaves a standstill.
    """
    require(_has_norm_role(sketch) and not sketch.is_noisy)
    row = onset(sketch, 200, 1200)
    doublings = (np.arange(sketch.rows) - row) / within(sketch.rng, *strengths.doubling_rows)
    sketch.norm *= 2 ** np.clip(doublings, 0, 8)
    sketch.loss += np.abs(sketch.loss) * 0.15 * np.clip(doublings, 0, 8)
    return fault(sketch, "gradient-acceleration", row, rows=RISE_ROWS)


def always_clipped(sketch: Sketch, strengths: Strengths) -> Fault:
    """The clipping limit is so low that it cuts every step of the run, from the first on."""
    require(sketch.style == "step")
    sketch.clip = float(sketch.norm.min()) / within(sketch.rng, *strengths.clipped)
    sketch.config["max_grad_norm"] = sketch.clip
    return fault(sketch, "always-clipped", 0, rows=600)


def _has_norm_role(sketch: Sketch) -> bool:
    return sketch.style == "step" or sketch.names[1] == "grad_norm"
