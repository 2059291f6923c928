"""Smooth curves under several schedules, scales and noises."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch


def power_law(rng: Generator, rows: int) -> Sketch:
    """A loss that falls as a power of the step, under a constant rate with or without warm-up."""
    place = np.arange(rows)
    loss = _falling(rng, place, start=within(rng, 2, 12))
    warmup = int(rng.choice([1, 50, 200]))
    lr = within(rng, 1e-5, 1e-2) * np.minimum(1.0, (place + 1) / warmup)
    return assemble("power-law", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def cosine(rng: Generator, rows: int) -> Sketch:
    """Warm-up, then a half cosine; the loss gains a last stretch as the rate goes down."""
    place = np.arange(rows)
    loss = _falling(rng, place, start=within(rng, 1, 11))
    loss = loss * (1 - 0.06 * (place / rows) ** 3)
    lr = parts.warmup_cosine(
        place,
        peak=within(rng, 1e-4, 3e-3),
        warmup=int(rng.integers(20, 400)),
        total=rows,
        floor=float(rng.choice([0.0, 0.1])),
    )
    return assemble("cosine", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def warm_restarts(rng: Generator, rows: int) -> Sketch:
    """Each restart of the rate lifts the loss for a while; it then falls below where it was."""
    place = np.arange(rows)
    lr = parts.restarts(
        place, peak=within(rng, 1e-3, 0.1), first=int(rng.integers(300, 1500)), growth=1.5
    )
    loss = _falling(rng, place, start=within(rng, 1, 7))
    lift = rng.uniform(0.05, 0.25) * lr / lr.max() * np.minimum(1.0, place / 300)
    loss = loss * (1 + lift)
    norm = _norms(rng, place) * (1 + 0.5 * lift)
    return assemble("warm-restarts", rng, loss=loss, lr=lr, norm=norm)


def one_cycle(rng: Generator, rows: int) -> Sketch:
    """Rate up and down once; the loss falls slowest where the rate is highest."""
    place = np.arange(rows)
    lr = parts.one_cycle(place, peak=within(rng, 1e-3, 0.5), total=rows)
    pace = np.cumsum(0.3 + 1.2 * (1 - lr / lr.max()))
    smooth = parts.power_law(
        pace.astype(np.int64),
        start=within(rng, 1, 7),
        floor=0.3,
        scale=within(rng, 40, rows / 10),
        exponent=rng.uniform(0.4, 0.9),
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.01, 0.05), memory=0.2))
    return assemble("one-cycle", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def scales(rng: Generator, rows: int) -> Sketch:
    """The same curves in units of a millionth or a million."""
    place = np.arange(rows)
    scale = within(rng, 1e-7, 1e-5) if rng.random() < 0.5 else within(rng, 1e5, 1e7)
    loss = scale * _falling(rng, place, start=within(rng, 1, 9))
    norm = scale * _norms(rng, place)
    lr = parts.warmup_cosine(place, peak=within(rng, 1e-5, 1e-2), warmup=100, total=rows, floor=0.1)
    return assemble("scales", rng, loss=loss, lr=lr, norm=norm)


def heavy_tails(rng: Generator, rows: int) -> Sketch:
    """Gradient norms with heavy tails, and losses of small batches."""
    place = np.arange(rows)
    loss = _falling(rng, place, start=within(rng, 2, 8), width=(0.03, 0.12))
    lr = parts.warmup_cosine(place, peak=within(rng, 1e-5, 1e-3), warmup=200, total=rows, floor=0.1)
    width = rng.uniform(0.4, 0.75)
    norm = within(rng, 0.1, 30) * np.exp(parts.gaussian(rng, rows, width=width))
    sketch = assemble("heavy-tails", rng, loss=loss, lr=lr, norm=norm)
    sketch.is_noisy = True
    return sketch


def _falling(
    rng: Generator, place: Rows, *, start: float, width: tuple[float, float] = (0.005, 0.04)
) -> Column:
    smooth = parts.power_law(
        place,
        start=start,
        floor=start * rng.uniform(0.15, 0.45),
        scale=within(rng, 30, max(60, len(place) / 8)),
        exponent=rng.uniform(0.3, 1.0),
    )
    noise = parts.gaussian(
        rng, len(place), width=within(rng, *width), memory=float(rng.choice([0.0, 0.3, 0.6]))
    )
    return smooth * (1 + noise)


def _norms(rng: Generator, place: Rows) -> Column:
    return parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.05, 20),
        early=rng.uniform(0, 6),
        settle=within(rng, 30, 400),
        width=rng.uniform(0.08, 0.3),
    )
