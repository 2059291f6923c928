"""Larger trainings drawn up last: a following teacher, coarse weights, folds, long texts."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Sketch
from benchmarks.health.tracks import add_experts, add_layers, add_phases, add_replicas


def momentum_teacher(rng: Generator, rows: int) -> Sketch:
    """A student after a mean of itself, on several ranks.

    A first fall from the logarithm of the outputs; then the teacher is made softer on purpose and
    the loss rises by up to a seventh over a fifth of the run, to fall slowly after. The last layer
    rests at first, and a growing decay shrinks the weights.
    """
    place = np.arange(rows)
    start = float(np.log(rng.choice([4096, 16_384, 65_536])))
    low = rng.uniform(0.3, 0.6)
    fall = low + (1 - low) * (1 + place / within(rng, 30, 150)) ** -rng.uniform(0.9, 1.5)
    begun, softened = rows * rng.uniform(0.03, 0.08), rows * rng.uniform(0.25, 0.4)
    soft = np.clip((place - begun) / (softened - begun), 0.0, 1.0)
    late = np.clip((place - softened) / (rows - softened), 0.0, 1.0)
    lift = (1 + rng.uniform(0.03, 0.14) * soft) * (1 - rng.uniform(0.02, 0.1) * late)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.004, 0.02), memory=rng.uniform(0, 0.4))
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.2, 3), early=0.5, settle=80, width=rng.uniform(0.1, 0.3)
    )
    sketch = assemble(
        "momentum-teacher",
        rng,
        loss=start * fall * lift * (1 + noise),
        lr=parts.warmup_cosine(
            place, peak=within(rng, 2e-4, 2e-3), warmup=max(30, rows // 12), total=rows, floor=1e-3
        ),
        norm=norm * (1 + rng.uniform(0.1, 0.8) * place / rows),
        loop=Loop(step_ms=(250, 1200), plain_share=0.25, watched_share=0.0, phases_share=0.0),
    )
    sketch.evals = None
    sketch.falls = False
    if rng.random() < 0.6:
        _watch_resting(sketch, until=int(rows * rng.uniform(0.01, 0.04)))
    if sketch.style == "step":
        world = int(rng.choice([2, 6, 8]))
        add_replicas(sketch, world=world, every=int(rng.choice([10, 30])))
        if rng.random() < 0.4:
            add_phases(sketch, ranks=tuple(range(world)))
    return sketch


def quantised(rng: Generator, rows: int) -> Sketch:
    """A finished classifier learns to live with coarse weights: it starts nearly as good as it was.

    Logged is the mean of the last batches, to four places. Ranges are fixed on the way, and the
    loss steps down a little there; the rate is cut once.
    """
    place = np.arange(rows)
    classes, top = ((10, 0.93), (100, 0.79), (1000, 0.74))[int(rng.integers(0, 3))]
    per_epoch = max(120, rows // int(rng.integers(4, 15)))
    level = within(rng, 0.25, 1.8)
    lost = rng.uniform(0.1, 0.5) * np.exp(-place / within(rng, 20, 150))
    gained = rng.uniform(0.03, 0.1) * (1 - np.exp(-place / (rows * rng.uniform(0.2, 0.5))))
    fixed, cut = int(rows * rng.uniform(0.3, 0.5)), int(rows * rng.uniform(0.6, 0.75))
    smooth = level * (1 + lost - gained) * np.where(place < fixed, 1.0, rng.uniform(0.98, 0.995))
    smooth = smooth * np.where(place < cut, 1.0, rng.uniform(0.97, 0.995))
    batches = smooth * np.exp(parts.gaussian(rng, rows, width=within(rng, 0.04, 0.14)))
    norm = within(rng, 0.5, 8) * np.exp(parts.gaussian(rng, rows, width=rng.uniform(0.2, 0.4)))
    sketch = assemble(
        "quantised",
        rng,
        loss=np.round(_recent_mean(batches, int(rng.choice([10, 20, 50]))), 4),
        lr=within(rng, 1e-5, 1e-3) * np.where(place < cut, 1.0, 0.1),
        norm=norm * np.where(place < fixed, 1.0, rng.uniform(0.8, 1.0)),
        loop=Loop(step_ms=(60, 600), pause_s=(2, 40), sol_share=0.0, plain_share=0.4),
        classes=classes,
        eval_every=per_epoch,
    )
    sketch.rows_per_epoch = per_epoch
    evals = sketch.evals
    assert evals is not None
    evals.loss = smooth[evals.at] * rng.uniform(0.95, 1.1)
    evals.loss *= 1 + rng.normal(0, 0.004, len(evals.at))
    behind = evals.loss / evals.loss.min() - 1
    evals.accuracy = top - 0.1 * behind + rng.normal(0, 0.0015, len(evals.at))
    return sketch


def folding(rng: Generator, rows: int) -> Sketch:
    """Structures of proteins, each read one to four times over: steps of four lengths at random.

    Two sources of data and crops of all kinds make the loss of a row say little. Evaluations are
    of averaged weights, smooth and behind, and pause the loop for up to a minute and a half.
    """
    place = np.arange(rows)
    smooth = parts.power_law(
        place,
        start=rng.uniform(5, 9),
        floor=rng.uniform(1.2, 2.2),
        scale=within(rng, 60, 500),
        exponent=rng.uniform(0.4, 0.7),
    )
    harder = np.where(rng.random(rows) < 0.25, rng.uniform(1.03, 1.15), 1.0)
    noise = parts.gaussian(rng, rows, width=rng.uniform(0.05, 0.1))
    warmup = int(rng.integers(80, 400))
    cut = np.where(place < rows * rng.uniform(0.7, 0.9), 1.0, 0.95)
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.1, 2), early=rng.uniform(1, 6), settle=120, width=0.4
    )
    sketch = assemble(
        "folding",
        rng,
        loss=smooth * harder * np.exp(noise),
        lr=within(rng, 2e-4, 1.5e-3) * np.minimum(1.0, (place + 1) / warmup) * cut,
        norm=norm,
        loop=Loop(
            step_ms=(700, 3500),
            jitter=(0.01, 0.05),
            pause_s=(20, 90),
            compile_s=(15, 60),
            plain_share=0.4,
            sol_share=0.0,
            phases_share=0.0,
        ),
        eval_every=int(rng.integers(200, 800)),
    )
    sketch.is_noisy = True
    sketch.step_ms *= 1 + rng.uniform(0.06, 0.16) * rng.integers(0, 4, rows)
    if rng.random() < 0.4:
        add_phases(sketch)
    evals = sketch.evals
    assert evals is not None
    averaged = smooth[np.maximum(0, evals.at - int(rng.integers(30, 120)))]
    evals.loss = averaged * rng.uniform(0.9, 1.15) * (1 + rng.normal(0, 0.006, len(evals.at)))
    evals.accuracy_name = "eval/lddt"
    along = (smooth[0] - averaged) / smooth[0]
    evals.accuracy = 0.25 + rng.uniform(0.6, 0.75) * along + rng.normal(0, 0.004, len(evals.at))
    return sketch


def long_context(rng: Generator, rows: int) -> Sketch:
    """A language model gets used to texts ten times as long; a record for four slow steps.

    A short first fall, then some per cent over all the rest. Texts of other lengths make steps of
    other lengths and losses with tails; some models route, some runs are stopped and resumed.
    """
    is_resumed = rng.random() < 0.25
    at = int(rows * rng.uniform(0.3, 0.7))
    place = parts.resumed_place(rows, at=at, back=int(rng.integers(0, 40)) if is_resumed else 0)
    level = rng.uniform(1.5, 2.4)
    first = rng.uniform(0.15, 0.7) * np.exp(-place / within(rng, 6, 60))
    gained = rng.uniform(0.02, 0.07) * np.sqrt(place / rows)
    tails = parts.heavy(rng, rows, width=within(rng, 0.005, 0.025), freedom=rng.uniform(6, 12))
    alike = parts.gaussian(rng, rows, width=within(rng, 0.002, 0.012), memory=0.6)
    warmup = int(rng.integers(5, 60))
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.1, 1), early=rng.uniform(1, 8), settle=15, width=0.2
    )
    sketch = assemble(
        "long-context",
        rng,
        loss=level * (1 + first - gained) * (1 + tails + alike),
        lr=parts.warmup_cosine(
            place, peak=within(rng, 5e-6, 8e-5), warmup=warmup, total=rows, floor=0.1
        ),
        norm=norm,
        place=place,
        every=4,
        loop=Loop(
            step_ms=(800, 2500),
            jitter=(0.06, 0.2),
            pause_s=(10, 60),
            compile_s=(20, 60),
            plain_share=0.2,
        ),
        eval_every=int(rng.integers(50, 200)),
        eval_gap=rng.uniform(-0.05, 0.03),
    )
    sketch.tokens = int(2 ** rng.integers(19, 23))
    evals = sketch.evals
    assert evals is not None
    evals.accuracy_name = "eval/needle"
    found = 1 - rng.uniform(0.4, 0.8) * np.exp(-evals.at / within(rng, 60, 400))
    evals.accuracy = np.clip(found * 0.96 + rng.normal(0, 0.01, len(evals.at)), 0.0, 0.985)
    if rng.random() < 0.35:
        count, top_k = ((8, 2), (16, 4), (128, 8))[int(rng.integers(0, 3))]
        add_experts(
            sketch,
            every=int(rng.choice([5, 25])),
            count=count,
            top_k=top_k,
            layers=1 if count > 100 else 2,
            evenness=rng.uniform(20, 80),
        )
    if is_resumed:
        sketch.resume_at = at
        sketch.counts_pauses = False
        sketch.pause_s[at] = within(rng, 120, 9000)
    return sketch


def _watch_resting(sketch: Sketch, *, until: int) -> None:
    """The last weight has neither gradient nor update before a row; decay shrinks all of them."""
    layers = add_layers(sketch, every=int(sketch.rng.integers(10, 100)))
    shrunk = sketch.rng.uniform(0.05, 0.25) * (layers.at / sketch.rows) ** 2
    layers.params *= (1 - shrunk)[:, None]
    early = layers.at < until
    first = min(int(early.sum()), len(layers.at) - 1)
    layers.params[:first, -1] = layers.params[first, -1]
    layers.ratios[:first, -1] = 0.0
    layers.grads[:first, -1] = np.nan
    layers.zeros[:first, -1] = np.nan


def _recent_mean(values: Column, width: int) -> Column:
    """The mean of a row and those before it, ``width`` at most."""
    sums = np.cumsum(values)
    before = np.concatenate([np.zeros(min(width, len(values))), sums[:-width]])
    means: Column = (sums - before) / np.minimum(np.arange(len(values)) + 1, width)
    return means
