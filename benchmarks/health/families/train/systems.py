"""Larger systems than the tuning half has: more experts, more ranks, sparser records."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch
from benchmarks.health.tracks import add_experts, add_phases, add_replicas


def many_experts(rng: Generator, rows: int) -> Sketch:
    """128 or more experts, several per token."""
    place = np.arange(rows)
    sketch = assemble(
        "many-experts", rng, loss=_loss(rng, place), lr=_rate(place), norm=_norms(rng, place)
    )
    count, top_k = ((128, 4), (128, 8), (256, 8), (60, 4), (4, 1), (16, 1))[int(rng.integers(0, 6))]
    add_experts(
        sketch,
        every=int(rng.choice([10, 25, 50])),
        count=count,
        top_k=top_k,
        layers=1 if count > 100 else 3,
        evenness=rng.uniform(5, 60),
    )
    return sketch


def many_ranks(rng: Generator, rows: int) -> Sketch:
    """Up to sixteen ranks, resumed once on the way."""
    at = int(rows * rng.uniform(0.4, 0.6))
    place = parts.resumed_place(rows, at=at, back=int(rng.integers(0, 200)))
    sketch = assemble(
        "many-ranks",
        rng,
        loss=_loss(rng, place),
        lr=_rate(place),
        norm=_norms(rng, place),
        place=place,
        loop=Loop(plain_share=0.0, pause_s=(3, 28), jitter=(0.02, 0.12)),
    )
    sketch.resume_at = at
    sketch.pause_s[at] = within(rng, 60, 5000)
    world = int(rng.choice([3, 16]))
    add_replicas(sketch, world=world, every=int(rng.choice([25, 50])))
    if rng.random() < 0.5:
        add_phases(sketch, ranks=tuple(range(world)))
    return sketch


def sparse_records(rng: Generator, rows: int) -> Sketch:
    """A record for 5, 20 or 50 steps, of steps that take seconds."""
    every = int(rng.choice([5, 20, 50]))
    place = np.arange(rows)
    rate = parts.warmup_cosine(
        place, peak=2e-4, warmup=max(2, 1000 // every), total=rows, floor=0.05
    )
    return assemble(
        "sparse-records",
        rng,
        loss=_loss(rng, place * every),
        lr=rate,
        norm=_norms(rng, place * every),
        every=every,
        loop=Loop(step_ms=(100, 600)),
        eval_every=60,
    )


def _loss(rng: Generator, place: Rows) -> Column:
    smooth = rng.uniform(1.5, 3.2) + within(rng, 2, 9) * np.exp(
        -((place / within(rng, 150, 1500)) ** rng.uniform(0.35, 0.6))
    )
    return smooth * (
        1 + parts.gaussian(rng, len(place), width=within(rng, 0.003, 0.03), memory=0.15)
    )


def _rate(place: Rows) -> Column:
    return parts.warmup_cosine(place, peak=5e-4, warmup=250, total=int(place.max()) + 1, floor=0.0)


def _norms(rng: Generator, place: Rows) -> Column:
    return parts.gradient_norms(
        rng, place, level=within(rng, 0.1, 3), early=rng.uniform(1, 12), settle=150, width=0.2
    )
