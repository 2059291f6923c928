"""Faults that the loss itself shows."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import (
    fault,
    lift_evaluations,
    onset,
    raise_loss,
    ramp,
    require,
    soon,
)
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import add_layers, last_rows, smoothed, watched_t

# Three windows of a hundred rows: what tells a rise from noise and swings.
RISE_ROWS = 300
# Three windows of five hundred: what tells no gain from a small one.
PLATEAU_ROWS = 1500
NEVER_FELL_ROWS = 900


def nonfinite(sketch: Sketch, strengths: Strengths) -> Fault:
    """A loss, norm, evaluation or layer's gradient is NaN or infinite: once, or from then on."""
    rng = sketch.rng
    row = onset(sketch, 60, 800)
    value = float(rng.choice([np.nan, np.inf]))
    stop = row + 1 if rng.random() < 0.5 else sketch.rows
    where = rng.choice(["loss", "norm", "eval", "layer"], p=[0.5, 0.25, 0.15, 0.1])
    if where == "eval":
        require(sketch.evals is not None)
        assert sketch.evals is not None
        place = last_rows(sketch.evals.at, row).start
        require(place < len(sketch.evals.at))
        sketch.evals.loss[place:] = value
        row = int(sketch.evals.at[place])
        at = round(float(sketch.t()[row]) + 0.001, 3)
    elif where == "layer":
        layers = add_layers(sketch, every=40)
        place = last_rows(layers.at, row).start
        layers.grads[place:, int(rng.integers(0, len(layers.names)))] = np.inf
        row = int(layers.at[place])
        at = watched_t(sketch, row)
    else:
        column = sketch.loss if where == "loss" else sketch.norm
        column[row:stop] = value
        at = float(sketch.t()[row])
    return fault(sketch, "nonfinite", row, at=at)


def divergence(sketch: Sketch, strengths: Strengths) -> Fault:
    """The loss rises to 1.8 times what it was or more and stays there, twice as noisy.

    Evaluations rise with it: where they do not, harder data has lifted the training loss.
    """
    require(sketch.falls)
    row = onset(sketch, 300, 1200)
    length = within(sketch.rng, *strengths.rise_rows)
    up = ramp(sketch.rows, since=row, length=length)
    rise = within(sketch.rng, *strengths.rise)
    sketch.norm *= raise_loss(sketch, row, up, by=rise - 1)
    return fault(sketch, "divergence", row, rows=RISE_ROWS)


def loss_spike(sketch: Sketch, strengths: Strengths) -> Fault:
    """The loss jumps by half of itself or more, 15 times its noise, and is back in 20 rows."""
    require(sketch.falls and not sketch.is_noisy)
    row = onset(sketch, 200, 1500)
    level = float(smoothed(sketch.loss, 51)[row])
    height = level * max(within(sketch.rng, *strengths.spike), 15 * sketch.relative_noise())
    width = int(sketch.rng.integers(1, 7))
    tail = np.exp(-np.arange(14) / sketch.rng.uniform(0.5, 3))
    shape = np.concatenate([np.ones(width), tail[1:]])
    stop = min(sketch.rows, row + len(shape))
    sketch.loss[row:stop] += height * shape[: stop - row]
    return fault(sketch, "loss-spike", row, rows=soon(sketch))


def plateau(sketch: Sketch, strengths: Strengths) -> Fault:
    """A loss that would have fallen by a tenth more stops dead, the rate still high.

    It would have fallen by its own noise at least, or nobody could tell.
    """
    require(sketch.falls)
    row = onset(sketch, 500, 1000)
    smooth = smoothed(sketch.loss, 151)
    kept = min(0.9, 1 - sketch.relative_noise())
    require(float(smooth[row + PLATEAU_ROWS]) < kept * float(smooth[row]))
    require(float(sketch.lr[row]) > 0.3 * float(sketch.lr.max()))
    sketch.loss[row:] *= smooth[row] / smooth[row:]
    sketch.lr[row:] = sketch.lr[row]
    if sketch.evals is not None:
        late = last_rows(sketch.evals.at, row)
        sketch.evals.loss[late] *= smooth[row] / smooth[sketch.evals.at[late]]
    return fault(sketch, "plateau", row, rows=PLATEAU_ROWS)


def never_fell(sketch: Sketch, strengths: Strengths) -> Fault:
    """The loss stays where it began, with the noise of its family, though the rate is not 0."""
    require(sketch.falls and sketch.resume_at is None)
    start = float(sketch.loss[0])
    # Where the curve is steep, what is left of it beside its mean is not only noise.
    rough = np.clip(sketch.loss / smoothed(sketch.loss, 31) - 1, -0.5, 0.5)[::-1]
    sketch.loss = start * (1 + rough)
    if sketch.evals is not None:
        sketch.evals.loss = np.full(len(sketch.evals.at), start * 1.01)
        sketch.evals.loss *= 1 + sketch.rng.normal(0, 0.004, len(sketch.evals.at))
        sketch.evals.accuracy = None
    return fault(sketch, "never-fell", 0, rows=NEVER_FELL_ROWS)


def no_warmup(sketch: Sketch, strengths: Strengths) -> Fault:
    """The full rate from the first step: the loss rises above its start, norms leap, for a while.

    Within 40 rows the loss is a sixth or more above where it began, and four times its noise; it
    comes back slowly. The first row is of weights without a step. Norms do not fall meanwhile, and
    grow more than the loss.
    """
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None and not sketch.is_noisy)
    sketch.lr = np.full(sketch.rows, float(sketch.lr.max()))
    delay, rise = int(rng.integers(40, 160)), rng.uniform(5, 40)
    shock = max(within(rng, *strengths.shock), 4 * sketch.relative_noise())
    late = np.maximum(0, np.arange(sketch.rows) - delay)
    lift = np.minimum(1.0, np.arange(sketch.rows) / rise) * np.exp(-late / 120)
    smooth = smoothed(sketch.loss, 9)
    rough = (sketch.loss / smooth)[::-1]
    sketch.loss = np.where(late == 0, sketch.loss[0], smooth[late]) * (1 + shock * lift) * rough
    usual = smoothed(sketch.norm, 9)
    rough = sketch.norm / usual
    sketch.norm = np.where(late == 0, usual[0], usual[late]) * rough
    sketch.norm *= 1 + (rng.uniform(4, 25) + 2 * shock) * lift
    return fault(sketch, "no-warmup", 0, rows=RISE_ROWS)


def lr_too_high(sketch: Sketch, strengths: Strengths) -> Fault:
    """The loss falls while the rate warms up; at the peak it turns, rises and stays up."""
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None)
    row = int(rng.integers(120, 400))
    smooth = smoothed(sketch.loss, 31)
    require(float(smooth[row]) < 0.9 * float(smooth[0]))
    sketch.lr = float(sketch.lr.max()) * np.minimum(1.0, (np.arange(sketch.rows) + 1) / row)
    up = ramp(sketch.rows, since=row, length=rng.uniform(40, 150))
    raise_loss(sketch, row, up, by=within(rng, *strengths.peak_rise), width=31)
    sketch.norm *= 1 + 2 * up
    return fault(sketch, "lr-too-high", row, rows=450)


def repeated_data(sketch: Sketch, strengths: Strengths) -> Fault:
    """At the end of each epoch the training loss falls off a cliff; evaluations get worse.

    Epochs that step down while evaluations are no worse are what several epochs do in health, and a
    single step of less than a quarter as well. So there is something to find by the third
    evaluation after the first cliff or the second, and by the second that is a tenth above the last
    three before.
    """
    rng = sketch.rng
    require(sketch.falls and not sketch.is_noisy and sketch.resume_at is None)
    require(sketch.style == "step")
    row = int(rng.integers(250, 700))
    sketch.rows_per_epoch = row
    epoch = np.arange(sketch.rows) // row
    smooth = smoothed(sketch.loss, 51)
    cliff = within(rng, *strengths.cliff)
    sketch.loss = np.where(epoch > 0, smooth[row], smooth) * (sketch.loss / smooth)
    sketch.loss = sketch.loss * (1 - cliff) ** epoch
    sketch.lr = np.where(epoch > 0, sketch.lr[row - 1], sketch.lr)
    since = np.maximum(0, np.arange(sketch.rows) - row)
    lift_evaluations(sketch, row, 1 + cliff * since / row)
    shows = row if cliff > 0.25 else 2 * row
    limit = shows - row + 150
    if sketch.evals is not None:
        at, losses = sketch.evals.at, sketch.evals.loss
        # Evaluations that begin only now would gain from their first one on.
        require(bool(at[0] < row))
        later = at > shows + 60
        worse = at[later & (losses > 1.1 * np.median(losses[at < shows][-3:]))]
        require(len(worse) > 1 and int(later.sum()) > 2)
        # They are written behind their row.
        limit = max(limit, max(int(worse[1]), int(at[later][2])) - row + 1)
    return fault(sketch, "repeated-data", row, rows=limit)
