"""Tasks whose healthy curves look odd: adversarial, reinforced, nearly done at the start."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Sketch


def fine_tuning(rng: Generator, rows: int) -> Sketch:
    """From a low loss a little lower, with noise larger than the gain of many rows."""
    place = np.arange(rows)
    start = within(rng, 0.05, 1.5)
    smooth = parts.power_law(
        place, start=start, floor=start * rng.uniform(0.5, 0.8), scale=rows / 6, exponent=1.0
    )
    loss = smooth * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.05, 0.25)))
    lr = parts.warmup_cosine(
        place, peak=within(rng, 1e-6, 1e-4), warmup=rows // 20, total=rows, floor=0.0
    )
    norm = parts.gradient_norms(rng, place, level=1.0, early=0.3, settle=50, width=0.3)
    frozen = int(rng.choice([0, 4]))  # adapters: the base model is watched but not trained
    return assemble("fine-tuning", rng, loss=loss, lr=lr, norm=norm, eval_noise=0.01, frozen=frozen)


def classification(rng: Generator, rows: int) -> Sketch:
    """Cross-entropy from ln(classes), with an accuracy at each evaluation."""
    place = np.arange(rows)
    classes = int(rng.choice([2, 5, 10, 100, 1000]))
    smooth = parts.power_law(
        place,
        start=float(np.log(classes)),
        floor=float(np.log(classes)) * rng.uniform(0.08, 0.3),
        scale=within(rng, 40, rows / 10),
        exponent=rng.uniform(0.5, 1.0),
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.02, 0.1)))
    lr = parts.one_cycle(place, peak=within(rng, 0.01, 0.5), total=rows)
    norm = parts.gradient_norms(rng, place, level=1.5, early=1, settle=200, width=0.2)
    return assemble(
        "classification",
        rng,
        loss=loss,
        lr=lr,
        norm=norm,
        classes=classes,
        eval_every=max(50, rows // int(rng.integers(10, 40))),
        eval_gap=rng.uniform(0.02, 0.08),
        eval_noise=0.008,
    )


def contrastive(rng: Generator, rows: int) -> Sketch:
    """Preference or contrastive losses: from ln 2 down slowly, in small noisy gains."""
    place = np.arange(rows)
    gain = rng.uniform(0.15, 0.6) * (1 - np.exp(-place / (rows * rng.uniform(0.15, 0.4))))
    loss = np.log(2) * (1 - gain) * (1 + parts.gaussian(rng, rows, width=rng.uniform(0.01, 0.06)))
    lr = parts.warmup_cosine(
        place, peak=within(rng, 1e-7, 5e-6), warmup=rows // 10, total=rows, floor=0.0
    )
    norm = parts.gradient_norms(rng, place, level=8.0, early=0, settle=50, width=0.25)
    return assemble("contrastive", rng, loss=loss, lr=lr, norm=norm, eval_noise=0.006)


def epochs(rng: Generator, rows: int) -> Sketch:
    """Several epochs: the training loss drops a little at each boundary, and the gap grows."""
    place = np.arange(rows)
    per_epoch = max(200, rows // int(rng.integers(3, 9)))
    smooth = parts.power_law(
        place, start=within(rng, 2, 6), floor=1.0, scale=within(rng, 50, rows / 8), exponent=0.6
    )
    drops = (1 - rng.uniform(0.01, 0.04)) ** (place // per_epoch)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.01, 0.04), memory=0.3)
    loss = smooth * drops * (1 + noise)
    lr = parts.warmup_cosine(place, peak=3e-4, warmup=100, total=rows, floor=0.1)
    norm = parts.gradient_norms(rng, place, level=0.8, early=2, settle=100, width=0.2)
    sketch = assemble("epochs", rng, loss=loss, lr=lr, norm=norm, eval_every=per_epoch // 3)
    sketch.rows_per_epoch = per_epoch
    assert sketch.evals is not None
    # Training sees its data again, evaluation does not: its loss falls without the drops.
    sketch.evals.loss /= drops[sketch.evals.at]
    return sketch


def oscillating(rng: Generator, rows: int) -> Sketch:
    """Two networks against each other: after a first fall the loss swings round a level."""
    place = np.arange(rows)
    level, period = within(rng, 0.3, 3), within(rng, 30, 300)
    phase = 2 * np.pi * place / period + np.cumsum(rng.normal(0, 0.05, rows))
    swing = rng.uniform(0.15, 0.45) * np.sin(phase) * np.minimum(1.0, place / 200)
    first = 1 + rng.uniform(0.5, 1.5) * np.exp(-place / within(rng, 40, 200))
    noise = parts.gaussian(rng, rows, width=rng.uniform(0.03, 0.12))
    loss = level * first * (1 + swing) * np.exp(noise)
    lr = np.full(rows, within(rng, 5e-5, 5e-4))
    norm = parts.gradient_norms(rng, place, level=1.0, early=0.5, settle=100, width=0.4)
    norm *= 1 + 0.5 * np.abs(swing)
    sketch = assemble("oscillating", rng, loss=loss, lr=lr, norm=norm, loop=Loop(plain_share=0.6))
    if rng.random() < 0.4:
        sketch.names = ("loss_d", "grad_norm_d", "lr_d")
    return _unlike_others(sketch)


def reinforcement(rng: Generator, rows: int) -> Sketch:
    """Policy or value losses: no trend to speak of, tails that reach far."""
    place = np.arange(rows)
    loss: Column
    if rng.random() < 0.5:
        loss = parts.heavy(rng, rows, width=within(rng, 0.01, 0.2), freedom=rng.uniform(3, 6))
    else:
        level = within(rng, 0.2, 20) * (1 + 0.6 * np.exp(-place / (rows / 4)))
        loss = level * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.3, 0.6), memory=0.5))
    lr = within(rng, 1e-5, 1e-3) * np.linspace(1, 0.02, rows)
    norm = 0.5 * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.4, 0.7), memory=0.3))
    sketch = assemble("reinforcement", rng, loss=loss, lr=lr, norm=norm, loop=Loop(plain_share=0.6))
    sketch.is_noisy = True
    return _unlike_others(sketch)


def _unlike_others(sketch: Sketch) -> Sketch:
    """There is no held-out loss to speak of, nor a fall."""
    sketch.evals = None
    sketch.falls = False
    return sketch
