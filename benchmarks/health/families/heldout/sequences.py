"""Trainings on text and speech, from the first token to the last preference."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch


def large_pretraining(rng: Generator, rows: int) -> Sketch:
    """A language model at full scale: batches so large that hardly any noise is left.

    Warm-up, a constant rate and a way down by one minus the root; slow wiggles of up to 2.5 %;
    some runs lose a node and go on from a checkpoint.
    """
    is_resumed = rng.random() < 0.4
    at = int(rows * rng.uniform(0.3, 0.8))
    back = int(rng.integers(0, 120)) if is_resumed else 0
    place = parts.resumed_place(rows, at=at, back=back)
    total = int(place.max()) + 1
    turn = int(total * rng.uniform(0.7, 0.85))
    down = 1 - (1 - within(rng, 0.01, 0.2)) * np.sqrt(
        np.clip((place - turn) / (total - turn), 0, 1)
    )
    lr = within(rng, 1e-4, 8e-4) * np.minimum(1.0, (place + 1) / rng.integers(100, 500)) * down
    smooth = parts.power_law(
        place,
        start=float(np.log(within(rng, 32_000, 256_000))),
        floor=rng.uniform(1.4, 1.9),
        scale=within(rng, 25, 150),
        exponent=rng.uniform(0.38, 0.55),
    )
    smooth = smooth * (1 - rng.uniform(0.02, 0.05) * (1 - down))
    wiggle = _wiggles(rng, place)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.0012, 0.005), memory=0.1)
    norm = parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.08, 0.6),
        early=within(rng, 4, 30),
        settle=within(rng, 40, 200),
        width=rng.uniform(0.04, 0.12),
    )
    norm *= (1 + place / 500) ** -0.08 * (1 + rng.uniform(10, 40) * wiggle)
    sketch = assemble(
        "large-pretraining",
        rng,
        loss=smooth * (1 + wiggle) * (1 + noise),
        lr=lr,
        norm=norm,
        place=place,
        loop=Loop(
            step_ms=(1200, 5000),
            jitter=(0.002, 0.015),
            pause_s=(5, 55),
            compile_s=(20, 60),
            plain_share=0.15,
            sol_share=0.4,
        ),
        eval_every=int(rng.integers(250, 1000)),
        eval_gap=rng.uniform(-0.01, 0.02),
        eval_noise=0.0015,
    )
    if is_resumed:
        sketch.resume_at = at
        sketch.counts_pauses = False  # no loop's timer runs while there is no loop
        sketch.is_clean_stop = bool(rng.random() < 0.5)
        sketch.pause_s[at] = within(rng, 300, 8000) if sketch.is_clean_stop else within(rng, 15, 40)
    return sketch


def instruction_tuning(rng: Generator, rows: int) -> Sketch:
    """Three epochs over answers: a quick first fall, then a mild step down at each epoch's edge.

    Evaluations go down as well, by less than the steps.
    """
    place = np.arange(rows)
    per_epoch = -(-rows // 3)
    start = within(rng, 0.8, 2.4)
    quick = rng.uniform(0.15, 0.35) * np.exp(-place / within(rng, 15, 120))
    stairs = (1 - rng.uniform(0.02, 0.08)) ** (place // per_epoch)
    learned = start * (0.7 + quick - rng.uniform(0.03, 0.08) * place / rows)
    loss = learned * stairs * np.exp(parts.gaussian(rng, rows, width=within(rng, 0.04, 0.1)))
    warmup = max(10, int(0.03 * rows))
    lr = within(rng, 5e-6, 2e-4) * np.minimum((place + 1) / warmup, (rows - place) / rows)
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.3, 6), early=rng.uniform(0.5, 4), settle=40, width=0.25
    )
    sketch = assemble(
        "instruction-tuning",
        rng,
        loss=loss,
        lr=lr,
        norm=norm * (1 + 0.15 * (place // per_epoch)),
        loop=Loop(plain_share=0.5, step_ms=(300, 3000)),
        eval_every=per_epoch // int(rng.choice([3, 4, 6])),
    )
    sketch.rows_per_epoch = per_epoch
    assert sketch.evals is not None
    at = sketch.evals.at
    sketch.evals.loss = learned[at] * stairs[at] ** 0.4 * rng.uniform(1.0, 1.06)
    sketch.evals.loss *= 1 + rng.normal(0, 0.003, len(at))
    return sketch


def group_policy(rng: Generator, rows: int) -> Sketch:
    """A policy by groups of answers: advantages cancel, so the loss is noise round nearly nothing.

    What is left is the penalty for leaving the first policy, which grows to about the width of the
    noise and stays.
    """
    place = np.arange(rows)
    width = within(rng, 0.003, 0.06)
    penalty = width * rng.uniform(0.3, 1.2) * (1 - np.exp(-place / (rows * rng.uniform(0.2, 0.4))))
    loss = penalty + parts.heavy(rng, rows, width=width, freedom=rng.uniform(4, 8))
    lr = within(rng, 3e-7, 5e-6) * np.minimum(1.0, (place + 1) / 10)
    norm = within(rng, 0.05, 1) * np.exp(
        parts.gaussian(rng, rows, width=rng.uniform(0.2, 0.45), memory=0.2)
    )
    sketch = assemble(
        "group-policy",
        rng,
        loss=loss,
        lr=lr,
        norm=norm,
        # Answers are of other lengths each time, and so are the steps that write them.
        loop=Loop(step_ms=(1500, 5000), jitter=(0.06, 0.2), sol_share=0.0, plain_share=0.5),
    )
    sketch.evals = None
    sketch.falls = False
    sketch.is_noisy = True
    return sketch


def speech(rng: Generator, rows: int) -> Sketch:
    """Speech to letters: down to saying nothing at all, a few hundred rows of that, then a knee.

    Norms are huge while the loss is and larger than usual at the knee; the noise grows as easy
    and hard utterances come apart. Rates rise, hold, and decay.
    """
    place = np.arange(rows)
    silence = rng.uniform(2.6, 3.3)
    knee, width = rng.uniform(220, 650), rng.uniform(20, 60)
    told = 1 / (1 + np.exp(-(place - knee) / width))
    since = np.maximum(0, place - knee)
    low = (
        rng.uniform(0.05, 0.12)
        + rng.uniform(0.3, 0.45) * (1 + since / within(rng, 60, 300)) ** -0.6
    )
    still = 1 - rng.uniform(0.02, 0.06) * np.minimum(1.0, place / knee)
    first = within(rng, 2, 12) * np.exp(-place / within(rng, 10, 35))
    smooth = silence * (still * (1 - told) + low * told + first)
    spread = within(rng, 0.01, 0.03) + rng.uniform(0.02, 0.08) * told
    loss = smooth * np.exp(spread * rng.normal(0, 1, rows))
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.5, 5), early=within(rng, 6, 30), settle=25, width=0.22
    )
    norm *= 1 + rng.uniform(0.5, 1.5) * 4 * told * (1 - told) + 0.5 * told
    return assemble(
        "speech",
        rng,
        loss=loss,
        lr=_three_stages(place, peak=within(rng, 3e-5, 1e-3), warmup=min(800, rows // 10)),
        norm=norm,
        eval_every=int(rng.integers(120, 500)),
        eval_gap=rng.uniform(0.02, 0.1),
        eval_noise=0.012,
        loop=Loop(jitter=(0.05, 0.15), sol_share=0.0),  # utterances of other lengths
    )


def _wiggles(rng: Generator, place: Rows) -> Column:
    """Shares of the loss: up within a dozen rows, back within some hundred."""
    wiggle = np.zeros(len(place))
    for at in rng.integers(200, len(place), max(1, len(place) // 2500)):
        since = np.arange(len(place)) - at
        shape = np.minimum(1.0, (since + 1) / rng.uniform(3, 15))
        shape = shape * np.exp(-np.maximum(0, since - 15) / rng.uniform(15, 90))
        wiggle += rng.uniform(0.004, 0.025) * np.where(since < 0, 0.0, shape)
    return np.minimum(wiggle, 0.03)


def _three_stages(place: Rows, *, peak: float, warmup: int) -> Column:
    """Up in a line, level for two fifths of the run, then down exponentially to a twentieth."""
    rows = len(place)
    hold = warmup + int(0.4 * rows)
    along = np.clip((place - hold) / max(1, rows - hold), 0.0, 1.0)
    return peak * np.minimum(1.0, (place + 1) / warmup) * 0.05**along
