"""Trainings on quantities: densities, series, forces, graphs."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch


def variational(rng: Generator, rows: int) -> Sketch:
    """A variational autoencoder whose second term is weighed in slowly: the sum rises on purpose.

    It rises by up to a fifth over hundreds of rows, evaluations with it, and falls a little after.
    """
    place = np.arange(rows)
    start = within(rng, 60, 2000)
    begun, done = rows * rng.uniform(0.04, 0.1), rows * rng.uniform(0.3, 0.5)
    weight = np.clip((place - begun) / (done - begun), 0.0, 1.0)
    floor = rng.uniform(0.22, 0.4)
    rebuilt = parts.power_law(
        place, start=start, floor=start * floor, scale=within(rng, 20, 120), exponent=0.9
    )
    penalty = start * floor * rng.uniform(0.06, 0.2) * weight * (1.2 - 0.2 * weight)
    late = 1 - rng.uniform(0.03, 0.08) * np.clip((place - done) / (rows - done), 0.0, 1.0)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.006, 0.03))
    sketch = assemble(
        "variational",
        rng,
        loss=(rebuilt + penalty) * late * (1 + noise),
        lr=np.full(rows, within(rng, 1e-4, 1e-3)),
        norm=parts.gradient_norms(
            rng, place, level=start * within(rng, 0.05, 0.5), early=4, settle=60, width=0.25
        ),
        eval_gap=rng.uniform(0.005, 0.03),
        loop=Loop(step_ms=(20, 200), plain_share=0.5),
    )
    sketch.falls = False
    return sketch


def forecasting(rng: Generator, rows: int) -> Sketch:
    """Squared errors of a series in its own units, whatever those are; small batches, many epochs.

    Errors of a batch are gamma-like. The rate is halved when evaluations ask for it, and the loss
    falls a little at each cut.
    """
    place = np.arange(rows)
    unit = within(rng, 1e-9, 1e-5) if rng.random() < 0.5 else within(rng, 1e4, 1e9)
    per_epoch = int(rng.integers(40, 160))
    cuts = np.sort(rng.uniform(0.15, 1.0, int(rng.integers(3, 7))) * rows)
    halved = np.searchsorted(cuts, place, side="right")
    smooth = parts.power_law(
        place,
        start=unit,
        floor=unit * within(rng, 0.02, 0.12),
        scale=within(rng, 20, 200),
        exponent=rng.uniform(0.6, 1.1),
    )
    smooth = smooth * (1 - rng.uniform(0.01, 0.05)) ** halved
    shape = within(rng, 8, 40)
    norm = parts.gradient_norms(
        rng,
        place,
        level=unit * within(rng, 0.1, 10),
        early=rng.uniform(2, 10),
        settle=within(rng, 30, 200),
        width=rng.uniform(0.25, 0.45),
    )
    sketch = assemble(
        "forecasting",
        rng,
        loss=smooth * rng.gamma(shape, 1 / shape, rows),
        lr=within(rng, 3e-4, 5e-3) * np.exp2(-halved.astype(np.float64)),
        norm=norm,
        eval_every=per_epoch,
        eval_gap=rng.uniform(0.05, 0.25),
        eval_noise=0.015,
        loop=Loop(step_ms=(10, 150), pause_s=(0.1, 3), compile_s=(0.1, 3), plain_share=0.5),
    )
    sketch.rows_per_epoch = per_epoch
    sketch.is_noisy = True
    return sketch


def force_field(rng: Generator, rows: int) -> Sketch:
    """Energies and forces of molecules: the loss falls over two to four decades, the norm with it.

    The rate decays exponentially all the way.
    """
    place = np.arange(rows)
    along = np.log1p(place / (scale := within(rng, 20, 150))) / np.log1p(rows / scale)
    fallen = 10.0 ** (-rng.uniform(2, 4) * along)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.04, 0.1), memory=0.15)
    warmup = int(rng.integers(20, 150))
    lr = within(rng, 5e-4, 1e-2) * np.minimum(1.0, (place + 1) / warmup)
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 1, 100), early=1, settle=60, width=rng.uniform(0.15, 0.35)
    )
    return assemble(
        "force-field",
        rng,
        loss=within(rng, 0.5, 500) * fallen * np.exp(noise),
        lr=lr * within(rng, 0.005, 0.1) ** (place / rows),
        norm=norm * fallen ** rng.uniform(0.3, 0.5),
        eval_gap=rng.uniform(0.03, 0.2),
        eval_noise=0.012,
        eval_every=int(rng.integers(100, 500)),
    )


def graph_nodes(rng: Generator, rows: int) -> Sketch:
    """The nodes of one graph, all in each step: dropout is the only noise, steps are over at once.

    A constant rate without warm-up, plain names, evaluations every few dozen steps.
    """
    place = np.arange(rows)
    classes = int(rng.choice([7, 40, 47]))
    start = float(np.log(classes))
    smooth = parts.power_law(
        place,
        start=start * rng.uniform(0.99, 1.05),
        floor=start * rng.uniform(0.15, 0.3),
        scale=within(rng, 30, 250),
        exponent=rng.uniform(0.5, 0.9),
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.004, 0.025)))
    return assemble(
        "graph-nodes",
        rng,
        loss=loss,
        lr=np.full(rows, within(rng, 1e-3, 2e-2)),
        norm=parts.gradient_norms(
            rng,
            place,
            level=within(rng, 0.02, 0.3),
            early=rng.uniform(0.5, 4),
            settle=within(rng, 40, 200),
            width=rng.uniform(0.08, 0.2),
        ),
        classes=classes,
        eval_every=int(rng.integers(20, 100)),
        eval_gap=rng.uniform(0.03, 0.12),
        eval_noise=0.006,
        loop=Loop(
            step_ms=(8, 60),
            jitter=(0.03, 0.12),
            pause_s=(0.02, 0.3),
            compile_s=(0.2, 4),
            plain_share=0.7,
            sol_share=0.0,
        ),
    )
