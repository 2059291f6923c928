"""More bends and paces, some of them written after the first thresholds were set."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch


def triangular_rates(rng: Generator, rows: int) -> Sketch:
    """The rate goes up and down in straight lines, and the loss swings with it as it falls."""
    place = np.arange(rows)
    half = int(rng.integers(100, 600))
    along = np.abs((place % (2 * half)) / half - 1)
    lr = within(rng, 1e-3, 0.1) * (0.1 + 0.9 * (1 - along))
    swing = 1 + rng.uniform(0.03, 0.15) * (1 - along)
    loss = _falling(rng, place) * swing
    return assemble("triangular-rates", rng, loss=loss, lr=lr, norm=_norms(rng, place) * swing)


def shards(rng: Generator, rows: int) -> Sketch:
    """Within each shard of the data the loss falls a little; the next one lifts it again."""
    place = np.arange(rows)
    size = int(rng.integers(80, 500))
    loss = _falling(rng, place) * (1 - rng.uniform(0.02, 0.08) * (place % size) / size)
    lr = parts.warmup_cosine(place, peak=4e-4, warmup=120, total=rows, floor=0.1)
    sketch = assemble("shards", rng, loss=loss, lr=lr, norm=_norms(rng, place))
    starts = np.arange(size, rows, size)
    sketch.pause_s[starts] += rng.uniform(0.2, 6, len(starts))
    return sketch


def high_floor(rng: Generator, rows: int) -> Sketch:
    """Smoothed labels or noisy targets: most of the loss cannot be learned away."""
    place = np.arange(rows)
    floor = within(rng, 0.1, 50)
    gain = rng.uniform(0.06, 0.2) * np.exp(-place / (rows * rng.uniform(0.05, 0.25)))
    loss = floor * (1 + gain) * (1 + parts.gaussian(rng, rows, width=within(rng, 0.003, 0.03)))
    lr = parts.one_cycle(place, peak=within(rng, 1e-4, 1e-1), total=rows)
    return assemble("high-floor", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def growing_batches(rng: Generator, rows: int) -> Sketch:
    """Batches double in stages, and the noise of loss and norm shrinks with each."""
    place = np.arange(rows)
    stage = np.minimum(place // max(200, rows // int(rng.integers(3, 6))), 4)
    width = within(rng, 0.02, 0.1) * 0.7**stage
    smooth = parts.power_law(
        place, start=within(rng, 3, 11), floor=1.5, scale=within(rng, 50, 500), exponent=0.5
    )
    loss = smooth * (1 + width * rng.normal(0, 1, rows))
    norm = _norms(rng, place) * 0.75**stage
    lr = parts.warmup_cosine(place, peak=6e-4, warmup=150, total=rows, floor=0.1)
    return assemble("growing-batches", rng, loss=loss, lr=lr, norm=norm)


def slow_start(rng: Generator, rows: int) -> Sketch:
    """A long warm-up from next to nothing: at first the loss does not move, then it falls."""
    place = np.arange(rows)
    still = int(rng.integers(60, 200))
    smooth = parts.power_law(
        np.maximum(0, place - still),
        start=within(rng, 2, 11),
        floor=0.9,
        scale=within(rng, 80, 400),
        exponent=rng.uniform(0.4, 0.8),
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.004, 0.03), memory=0.2))
    warmup = int(still * rng.uniform(2, 4))
    lr = parts.warmup_cosine(place, peak=1e-3, warmup=warmup, total=rows, floor=0.0)
    return assemble("slow-start", rng, loss=loss, lr=lr, norm=_norms(rng, place))


def decades(rng: Generator, rows: int) -> Sketch:
    """An error that can be learned away: it falls by orders of magnitude, gradients with it."""
    place = np.arange(rows)
    along = place / rows
    depth = rng.uniform(1.5, 5) * np.log(10)
    bent = rng.uniform(0, 0.7)  # steep at first, or even on a log scale
    fall = bent * (1 - np.exp(-6 * along)) + (1 - bent) * along
    smooth = within(rng, 1e-3, 1e3) * np.exp(-depth * fall)
    noise = np.exp(parts.gaussian(rng, rows, width=within(rng, 0.02, 0.25), memory=0.3))
    norm = _norms(rng, place) * (smooth / smooth[0]) ** rng.uniform(0.3, 0.7)
    peak = within(rng, 1e-4, 1e-2)
    if rng.random() < 0.5:
        lr = parts.warmup_cosine(place, peak=peak, warmup=100, total=rows, floor=0.01)
    else:
        lr = np.full(rows, peak)
    return assemble("decades", rng, loss=smooth * noise, lr=lr, norm=norm)


def _falling(rng: Generator, place: Rows) -> Column:
    smooth = parts.power_law(
        place,
        start=within(rng, 1, 11),
        floor=0.7,
        scale=within(rng, 50, max(100, len(place) / 10)),
        exponent=rng.uniform(0.35, 0.8),
    )
    noise = parts.gaussian(rng, len(place), width=within(rng, 0.006, 0.04), memory=0.3)
    return smooth * (1 + noise)


def _norms(rng: Generator, place: Rows) -> Column:
    return parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.05, 30),
        early=rng.uniform(0, 8),
        settle=within(rng, 30, 500),
        width=rng.uniform(0.08, 0.35),
    )
