"""Curves that bend where something was changed on purpose."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch


def data_mixture(rng: Generator, rows: int) -> Sketch:
    """Exponential decay, and data sources that take turns with losses of their own."""
    place = np.arange(rows)
    start = within(rng, 1.5, 9)
    smooth = start * (rng.uniform(0.2, 0.5) + 0.5 * np.exp(-place / (rows * rng.uniform(0.1, 0.3))))
    period = int(within(rng, 25, 500))
    sources = 1 + rng.uniform(0.02, 0.12) * np.sin(2 * np.pi * place / period)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.006, 0.05), memory=0.45)
    loss = smooth * sources * (1 + noise)
    lr = within(rng, 2e-5, 5e-3) * np.minimum(1.0, (place + 1) / 80) * 0.9995 ** (place / 4)
    return assemble("data-mixture", rng, loss=loss, lr=lr, norm=_norms(rng, place) * sources)


def curriculum(rng: Generator, rows: int) -> Sketch:
    """Stages of harder data: the loss steps up by up to 30 % and falls again in each."""
    place = np.arange(rows)
    stages = int(rng.integers(2, 6))
    bounds = np.sort(rng.integers(rows // 8, rows, stages - 1))
    stage = np.searchsorted(bounds, place, side="right")
    begun = np.concatenate([[0], bounds])[stage]
    level = within(rng, 1, 6) * np.cumprod(rng.uniform(0.8, 1.02, stages))[stage]
    lift = np.concatenate([[rng.uniform(0.6, 1.2)], rng.uniform(0.05, 0.3, stages - 1)])[stage]
    settle = np.where(stage == 0, rows / 15, rows / 40)
    smooth = level * (1 + lift * np.exp(-(place - begun) / settle))
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.008, 0.03), memory=0.3))
    lr = parts.warmup_cosine(place, peak=4e-4, warmup=150, total=rows, floor=0.2)
    norm = _norms(rng, place) * (1 + 0.6 * lift * np.exp(-(place - begun) / 30))
    sketch = assemble("curriculum", rng, loss=loss, lr=lr, norm=norm)
    for bound in bounds.tolist():
        sketch.pause_s[bound] += rng.uniform(1, 12)  # the loader opens other files
    return sketch


def step_decay(rng: Generator, rows: int) -> Sketch:
    """The rate is cut tenfold at the end of some epochs, and the loss drops there by a quarter."""
    place = np.arange(rows)
    per_epoch = max(150, rows // int(rng.integers(8, 20)))
    epoch = place // per_epoch
    total = int(epoch.max()) + 1
    cuts = (epoch >= total // 2).astype(int) + (epoch >= 3 * total // 4)
    lr = within(rng, 0.02, 0.5) * 0.1**cuts
    drop = np.cumprod([1.0, rng.uniform(0.7, 0.85), rng.uniform(0.8, 0.93)])[cuts]
    smooth = parts.power_law(
        place, start=within(rng, 2, 7), floor=0.8, scale=rows / 25, exponent=0.8
    )
    loss = smooth * drop * (1 + parts.gaussian(rng, rows, width=within(rng, 0.02, 0.08)))
    sketch = assemble(
        "step-decay",
        rng,
        loss=loss,
        lr=lr,
        norm=_norms(rng, place),
        eval_every=per_epoch,
        classes=int(rng.choice([10, 100])),
        eval_gap=0.06,
    )
    sketch.rows_per_epoch = per_epoch
    return sketch


def inverse_root(rng: Generator, rows: int) -> Sketch:
    """Warm-up, then one over the root of the step; noise shrinks along with the rate."""
    place = np.arange(rows)
    warmup = int(rng.integers(30, 600))
    lr = within(rng, 2e-4, 2e-3) * np.minimum((place + 1) / warmup, np.sqrt(warmup / (place + 1)))
    width = within(rng, 0.01, 0.06) * np.sqrt(lr / lr.max())
    smooth = within(rng, 0.5, 5) * (0.3 + (1 + place / within(rng, 60, 500)) ** -0.45)
    loss = smooth * (1 + width * rng.normal(0, 1, rows))
    return assemble("inverse-root", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def trapezoid(rng: Generator, rows: int) -> Sketch:
    """A long constant rate, then a short way down on which the loss falls faster again."""
    place = np.arange(rows)
    turn = int(rows * rng.uniform(0.75, 0.9))
    down = np.clip((rows - place) / (rows - turn), 0.0, 1.0)
    lr = within(rng, 1e-4, 4e-3) * np.minimum(1.0, (place + 1) / 100) * down
    smooth = parts.power_law(
        place, start=10.8, floor=rng.uniform(2, 3), scale=within(rng, 30, 200), exponent=0.5
    )
    smooth = smooth * (1 - rng.uniform(0.05, 0.12) * (1 - down))
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.004, 0.03), memory=0.25))
    return assemble(
        "trapezoid", rng, loss=loss, lr=lr, norm=_norms(rng, place), loop=Loop(pause_s=(2, 28))
    )


def _norms(rng: Generator, place: Rows) -> Column:
    return parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.02, 60),
        early=rng.uniform(0, 10),
        settle=within(rng, 20, 600),
        width=rng.uniform(0.05, 0.38),
    )
