"""Losses whose numbers are unlike others': coarse, flat, below zero, of two parts."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Sketch


def coarse_numbers(rng: Generator, rows: int) -> Sketch:
    """Loss and norm as bfloat16 holds them (eight bits), with bumps that recover."""
    place = np.arange(rows)
    smooth = parts.power_law(
        place, start=within(rng, 4, 12), floor=2.0, scale=within(rng, 50, 600), exponent=0.5
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.002, 0.012)))
    norm = parts.gradient_norms(rng, place, level=0.6, early=4, settle=120, width=0.15)
    for at in rng.integers(50, rows, max(1, rows // 1500)):
        stop = min(rows, at + int(rng.integers(2, 25)))
        bump = rng.uniform(0.02, 0.1) * np.linspace(1, 0, stop - at)
        loss[at:stop] *= 1 + bump
        norm[at:stop] *= 1 + 15 * bump
    lr = parts.warmup_cosine(place, peak=3e-4, warmup=200, total=rows, floor=0.1)
    return assemble("coarse-numbers", rng, loss=_bfloat16(loss), lr=lr, norm=_bfloat16(norm))


def denoising(rng: Generator, rows: int) -> Sketch:
    """A denoising loss: soon near its floor, skewed noise many times what is still gained."""
    place = np.arange(rows)
    floor = within(rng, 0.01, 0.3)
    smooth = floor * (1 + 6 * np.exp(-place / 60) + 0.5 * (1 + place / 200) ** -0.4)
    loss = smooth * rng.gamma(shape := rng.uniform(12, 60), 1 / shape, rows)
    lr = np.full(rows, within(rng, 5e-5, 4e-4)) * np.minimum(1.0, (place + 1) / 500)
    norm = 0.1 * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.3, 0.55)))
    return assemble("denoising", rng, loss=loss, lr=lr, norm=norm, eval_noise=0.015)


def negative_likelihood(rng: Generator, rows: int) -> Sketch:
    """A density's negative log-likelihood: crosses zero and goes on down."""
    place = np.arange(rows)
    depth, offset = within(rng, 1, 40), rng.uniform(0.2, 0.7)
    smooth = depth * (offset - np.log1p(place / within(rng, 40, 300)) / np.log1p(rows / 40))
    loss = smooth + depth * parts.gaussian(rng, rows, width=within(rng, 0.01, 0.05))
    lr = parts.warmup_cosine(place, peak=1e-3, warmup=50, total=rows, floor=0.05)
    norm = parts.gradient_norms(rng, place, level=12, early=3, settle=80, width=0.3)
    sketch = assemble("negative-likelihood", rng, loss=loss, lr=lr, norm=norm)
    sketch.falls = False
    return sketch


def adapters(rng: Generator, rows: int) -> Sketch:
    """Low-rank adapters: most weights watched but untrained, chat data with loud batches."""
    place = np.arange(rows)
    start = within(rng, 0.6, 2.2)
    smooth = start * (0.62 + 0.38 * np.exp(-place / (rows * rng.uniform(0.05, 0.4))))
    loss = smooth * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.08, 0.3)))
    lr = within(rng, 5e-5, 4e-4) * np.minimum(1.0, (place + 1) / 20) * (1 - place / rows)
    norm = 0.4 * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.2, 0.5), memory=0.2))
    return assemble(
        "adapters", rng, loss=loss, lr=lr, norm=norm, frozen=8, eval_gap=0.05, eval_noise=0.008
    )


def distillation(rng: Generator, rows: int) -> Sketch:
    """A student after its teacher: a small loss with short swings, plain names."""
    place = np.arange(rows)
    start = within(rng, 1e-3, 0.5)
    smooth = start * (0.25 + 0.75 * (1 + place / within(rng, 80, 900)) ** -0.7)
    swing = 1 + 0.08 * np.sin(2 * np.pi * place / within(rng, 12, 60))
    loss = smooth * swing * np.exp(parts.heavy(rng, rows, width=0.03, freedom=5))
    lr = parts.one_cycle(place, peak=within(rng, 1e-4, 1e-2), total=rows)
    norm = parts.gradient_norms(rng, place, level=0.05, early=2, settle=300, width=0.35)
    return assemble("distillation", rng, loss=loss, lr=lr, norm=norm, loop=Loop(plain_share=0.8))


def _bfloat16(values: Column) -> Column:
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32).astype(np.float64)
