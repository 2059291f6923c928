"""Loops of large trainings: language models, experts, ranks, resumes, sparse logging."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch
from benchmarks.health.tracks import add_experts, add_phases, add_replicas


def language_model(rng: Generator, rows: int) -> Sketch:
    """From ln(vocabulary) down, with benign bumps: up to 15 % of the loss, over in some rows."""
    place = np.arange(rows)
    loss = _perplexity(rng, place)
    norm = _norms(rng, place)
    for at in rng.integers(100, rows, max(1, rows // 2500)):
        bump = rng.uniform(0.02, 0.15) * np.exp(-np.arange(30) / rng.uniform(1, 6))
        stop = min(rows, at + 30)
        loss[at:stop] *= 1 + bump[: stop - at]
        norm[at:stop] *= 1 + 12 * bump[: stop - at]
    return assemble("language-model", rng, loss=loss, lr=_rate(rng, place), norm=norm)


def cadences(rng: Generator, rows: int) -> Sketch:
    """One record for 10 or 100 steps: the loss of one step among many, or their mean."""
    every = int(rng.choice([10, 100]))
    place = np.arange(rows)
    loss = _perplexity(rng, place * every)
    lr = parts.warmup_cosine(
        place,
        peak=within(rng, 1e-4, 1e-3),
        warmup=max(2, int(rng.integers(200, 2000)) // every),
        total=rows,
        floor=0.1,
    )
    pace = Loop(step_ms=(15, 60) if every == 100 else (60, 500))
    norm = _norms(rng, place * every)
    return assemble(
        "cadences", rng, loss=loss, lr=lr, norm=norm, every=every, loop=pace, eval_every=100
    )


def experts(rng: Generator, rows: int) -> Sketch:
    """A mixture of experts whose routers are never quite even."""
    place = np.arange(rows)
    loss = _perplexity(rng, place)
    sketch = assemble("experts", rng, loss=loss, lr=_rate(rng, place), norm=_norms(rng, place))
    count, top_k = ((8, 1), (8, 2), (16, 2), (32, 4), (64, 4), (64, 8))[int(rng.integers(0, 6))]
    evenness = rng.uniform(6, 40)
    add_experts(
        sketch, every=int(rng.choice([5, 10, 20])), count=count, top_k=top_k, evenness=evenness
    )
    return sketch


def replicas(rng: Generator, rows: int) -> Sketch:
    """Several ranks that log, with the skew of machines that are never quite alike."""
    place = np.arange(rows)
    loss = _perplexity(rng, place)
    loop = Loop(plain_share=0.0)
    sketch = assemble(
        "replicas", rng, loss=loss, lr=_rate(rng, place), norm=_norms(rng, place), loop=loop
    )
    world = int(rng.choice([2, 4, 8]))
    add_replicas(sketch, world=world, every=int(rng.choice([10, 20])))
    if rng.random() < 0.5:
        add_phases(sketch, ranks=tuple(range(world)))
    return sketch


def resumed(rng: Generator, rows: int) -> Sketch:
    """Stopped on the way and resumed from a checkpoint some hundred rows older."""
    at = int(rows * rng.uniform(0.3, 0.7))
    place = parts.resumed_place(rows, at=at, back=int(rng.integers(0, min(400, at // 2))))
    loss = _perplexity(rng, place)
    sketch = assemble(
        "resumed", rng, loss=loss, lr=_rate(rng, place), norm=_norms(rng, place), place=place
    )
    sketch.resume_at = at
    sketch.is_clean_stop = bool(rng.random() < 0.6)
    sketch.pause_s[at] = within(rng, 30, 20_000) if sketch.is_clean_stop else within(rng, 4, 20)
    return sketch


def _perplexity(rng: Generator, place: Rows) -> Column:
    start = float(np.log(within(rng, 5_000, 150_000)))
    smooth = parts.power_law(
        place,
        start=start,
        floor=rng.uniform(1.7, 2.8),
        scale=within(rng, 40, 400),
        exponent=rng.uniform(0.35, 0.7),
    )
    noise = parts.gaussian(rng, len(place), width=within(rng, 0.004, 0.025), memory=0.2)
    return smooth * (1 + noise)


def _rate(rng: Generator, place: Rows) -> Column:
    total = int(place.max()) + 1
    warmup = int(rng.integers(50, 400))
    return parts.warmup_cosine(
        place, peak=within(rng, 1e-4, 1e-3), warmup=warmup, total=total, floor=0.1
    )


def _norms(rng: Generator, place: Rows) -> Column:
    return parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.2, 1.5),
        early=rng.uniform(1, 8),
        settle=within(rng, 40, 300),
        width=rng.uniform(0.08, 0.25),
    )
