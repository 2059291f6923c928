"""Trainings of many parts: experts that are evened out, ranks that see different data."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Sketch
from benchmarks.health.tracks import add_experts, add_phases, add_replicas


def routed_tokens(rng: Generator, rows: int) -> Sketch:
    """Many small experts, several per token, that a bias evens out along the first tenth.

    The rate is cut to a third twice near the end, and the loss steps down a little there.
    """
    place = np.arange(rows)
    cuts = [int(share * rows) for share in (0.8, 0.9)]
    smooth = parts.power_law(
        place,
        start=float(np.log(within(rng, 50_000, 160_000))),
        floor=rng.uniform(1.5, 2.2),
        scale=within(rng, 30, 250),
        exponent=rng.uniform(0.4, 0.65),
    )
    lr = within(rng, 2e-4, 6e-4) * np.minimum(1.0, (place + 1) / rng.integers(80, 400))
    for cut in cuts:
        since = np.maximum(0, place - cut)
        smooth = smooth * (1 - rng.uniform(0.01, 0.025) * (1 - np.exp(-since / 60)))
        lr = lr * np.where(place < cut, 1.0, 0.316)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.003, 0.015), memory=0.2)
    sketch = assemble(
        "routed-tokens",
        rng,
        loss=smooth * (1 + noise),
        lr=lr,
        norm=parts.gradient_norms(
            rng,
            place,
            level=within(rng, 0.1, 1),
            early=rng.uniform(3, 15),
            settle=within(rng, 40, 250),
            width=rng.uniform(0.08, 0.2),
        ),
        loop=Loop(step_ms=(400, 3000), jitter=(0.02, 0.1), pause_s=(3, 40), plain_share=0.15),
    )
    count, top_k = ((64, 8), (64, 6), (48, 2), (160, 6))[int(rng.integers(0, 4))]
    experts = add_experts(
        sketch,
        every=int(rng.choice([10, 20, 40])),
        count=count,
        top_k=top_k,
        layers=2 if count < 100 else 1,
        evenness=rng.uniform(8, 40),
    )
    left = rng.uniform(0.4, 0.8)
    evened = left + (1 - left) * np.exp(-experts.at / (0.1 * rows))
    experts.load = experts.load ** evened[:, None, None]
    experts.load /= experts.load.sum(axis=2, keepdims=True)
    return sketch


def paired_embeddings(rng: Generator, rows: int) -> Sketch:
    """Images and captions on four ranks, each with data of its own.

    The loss starts at the logarithm of the batch, moves little while the rate warms up, then falls
    fast and ever slower. A rank's data may be harder or easier by about the noise, all the way.
    """
    place = np.arange(rows)
    start = float(np.log(2 ** rng.integers(9, 16)))
    begun = rng.uniform(40, 250)
    along = np.logaddexp(0.0, (place - begun) / 20) * 20  # rows since, with a soft beginning
    along = along - along[0]
    smooth = parts.power_law(
        along.astype(np.int64),
        start=start,
        floor=start * rng.uniform(0.06, 0.15),
        scale=within(rng, 80, 400),
        exponent=rng.uniform(0.5, 0.8),
    )
    noise = parts.gaussian(rng, rows, width=within(rng, 0.006, 0.03), memory=0.1)
    warmup = int(begun * rng.uniform(2, 5))
    sketch = assemble(
        "paired-embeddings",
        rng,
        loss=smooth * (1 + noise),
        lr=parts.warmup_cosine(
            place, peak=within(rng, 2e-4, 2e-3), warmup=warmup, total=rows, floor=0.0
        ),
        norm=parts.gradient_norms(
            rng,
            place,
            level=within(rng, 0.2, 2),
            early=rng.uniform(0, 2),
            settle=within(rng, 60, 300),
            width=rng.uniform(0.12, 0.3),
        ),
        loop=Loop(plain_share=0.0, jitter=(0.02, 0.1), phases_share=0.0),
        eval_gap=rng.uniform(-0.03, 0.05),
    )
    world = 4
    replicas = add_replicas(sketch, world=world, every=int(rng.choice([8, 16, 40])))
    harder = rng.uniform(-1, 1, world - 1) * sketch.relative_noise()
    replicas.loss *= 1 + harder
    if rng.random() < 0.5:
        add_phases(sketch, ranks=tuple(range(world)))
    return sketch
