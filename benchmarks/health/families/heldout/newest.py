"""Trainings drawn up last: words under masks, clicks, one scene, rows of a table."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Rows, Sketch
from benchmarks.health.tracks import add_phases


def masked_words(rng: Generator, rows: int) -> Sketch:
    """Words under masks, in short sequences first and in long ones for the last tenth.

    The loss rests at the frequencies of words before it finds their order. The second phase has a
    warm-up of its own, steps a little longer, and a bump of some per cent that ends lower; in some
    runs it is an attempt of its own.
    """
    place = np.arange(rows)
    turn = int(rows * rng.uniform(0.83, 0.92))
    since = np.maximum(0, place - turn)
    is_second = place >= turn
    knee, width = rng.uniform(150, 450), rng.uniform(25, 70)
    found = 1 / (1 + np.exp(-(place - knee) / width))
    order = np.maximum(0, place - knee)
    rest = rng.uniform(6.2, 7.2) * (1 - rng.uniform(0.02, 0.06) * np.minimum(1.0, place / knee))
    low = parts.power_law(
        order,
        start=rng.uniform(3.6, 4.6),
        floor=rng.uniform(1.2, 1.7),
        scale=within(rng, 60, 400),
        exponent=rng.uniform(0.4, 0.7),
    )
    first = (np.log(30_522) - rest[0]) * np.exp(-place / within(rng, 8, 30))
    bump = rng.uniform(0.015, 0.055) * np.exp(-since / within(rng, 15, 60))
    settled = rng.uniform(0.02, 0.05) * (1 - np.exp(-since / within(rng, 40, 150)))
    smooth = (first + rest * (1 - found) + low * found) * (1 + np.where(is_second, bump, 0.0))
    noise = parts.gaussian(rng, rows, width=within(rng, 0.004, 0.016), memory=rng.uniform(0, 0.3))
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.2, 2), early=rng.uniform(1, 5), settle=60, width=0.14
    )
    sketch = assemble(
        "masked-words",
        rng,
        loss=smooth * (1 - np.where(is_second, settled, 0.0)) * (1 + noise),
        lr=_two_phases(rng, place, turn=turn),
        norm=norm * np.where(is_second, rng.uniform(0.8, 1.5), 1.0),
        loop=Loop(step_ms=(300, 2500), jitter=(0.005, 0.04), phases_share=0.0),
        eval_gap=rng.uniform(-0.04, 0.02),  # evaluations drop no words
        eval_noise=0.003,
    )
    sketch.step_ms[turn:] *= rng.uniform(1.02, 1.2)
    if rng.random() < 0.4:
        add_phases(sketch)
    if rng.random() < 0.35:
        sketch.resume_at = turn
        sketch.counts_pauses = False
        sketch.pause_s[turn] = within(rng, 60, 6000)
    return sketch


def click_rates(rng: Generator, rows: int) -> Sketch:
    """Clicks in the order of their days, each seen once in huge batches.

    A few dozen rows take the loss to nearly what it will ever be. From there it gains some per
    cent in all, under the swing of the days and a drift that remembers.
    """
    place = np.arange(rows)
    base = within(rng, 0.09, 0.5)
    still = rng.uniform(0.05, 0.1) * (1 + place / within(rng, 60, 400)) ** -rng.uniform(0.2, 0.4)
    quick = (np.log(2) / base - 1) * np.exp(-place / within(rng, 4, 20))
    smooth = base * (1 + still - 0.01 * place / rows + quick)
    days = np.sin(2 * np.pi * (place / rows * rng.uniform(6, 30) + rng.uniform(0, 1)))
    swing = rng.uniform(0.002, 0.012) * days * np.minimum(1.0, place / 100)
    drift = parts.gaussian(rng, rows, width=within(rng, 0.001, 0.005), memory=0.97)
    noise = parts.gaussian(rng, rows, width=within(rng, 0.002, 0.012))
    turn = int(rows * rng.uniform(0.6, 0.9))
    down = np.clip((rows - place) / (rows - turn), 0.02, 1.0) ** 2
    norm = within(rng, 3e-3, 0.2) * np.exp(parts.gaussian(rng, rows, width=0.2, memory=0.5))
    sketch = assemble(
        "click-rates",
        rng,
        loss=smooth * (1 + swing + drift) * (1 + noise),
        lr=within(rng, 1e-3, 20) * np.minimum(1.0, (place + 1) / rng.integers(10, 120)) * down,
        norm=norm * (1 + rng.uniform(1, 8) * np.exp(-place / 15)),
        loop=Loop(step_ms=(15, 160), jitter=(0.04, 0.16), pause_s=(2, 30), sol_share=0.0),
        eval_every=max(60, rows // int(rng.integers(8, 30))),
    )
    evals = sketch.evals
    assert evals is not None
    # The day that is held out is always the same one.
    told = smooth[evals.at] * (1 + rng.normal(0, within(rng, 6e-4, 2e-3), len(evals.at)))
    evals.loss = told * rng.uniform(1.0, 1.04)
    evals.accuracy_name = "eval/auc"
    evals.accuracy = rng.uniform(0.76, 0.83) - 0.6 * (told / base - told.min() / base)
    return sketch


def single_scene(rng: Generator, rows: int) -> Sketch:
    """One scene from its photographs: squared errors of colours, a hundredth and far less.

    Points are added every so often along the first half: a bump of a few per cent each time, and
    steps that end up to a fifth longer. Rays drawn at random make gamma-like noise.
    """
    place = np.arange(rows)
    smooth = parts.power_law(
        place,
        start=within(rng, 0.03, 0.2),
        floor=within(rng, 3e-4, 3e-3),
        scale=within(rng, 8, 60),
        exponent=rng.uniform(0.7, 1.0),
    )
    smooth = smooth * (1 + place / 300) ** -rng.uniform(0.1, 0.35)
    begun, done = 0.04 * rows, rows * rng.uniform(0.4, 0.6)
    grows = (place > begun) & (place < done)
    period = int(rng.integers(60, 250))
    bump = rng.uniform(0.0, 0.04) * np.exp(-(place % period) / rng.uniform(4, 15)) * grows
    shape = within(rng, 120, 800)
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 1e-3, 0.1), early=2, settle=40, width=rng.uniform(0.15, 0.3)
    )
    sketch = assemble(
        "single-scene",
        rng,
        loss=smooth * (1 + bump) * rng.gamma(shape, 1 / shape, rows),
        lr=within(rng, 5e-4, 2e-2) * within(rng, 0.01, 0.2) ** (place / rows),
        norm=norm * (smooth / smooth[0]) ** rng.uniform(0.2, 0.5),
        loop=Loop(
            step_ms=(6, 60),
            jitter=(0.02, 0.1),
            pause_s=(0.3, 8),
            compile_s=(0.2, 20),
            plain_share=0.5,
            sol_share=0.0,
            phases_share=0.0,
        ),
        eval_every=max(50, rows // int(rng.integers(6, 40))),
        eval_gap=rng.uniform(0.1, 0.5),
        eval_noise=0.008,
    )
    longer = rng.uniform(0.0, 0.2) * np.clip((place - begun) / (done - begun), 0.0, 1.0)
    sketch.step_ms *= 1 + longer
    assert sketch.evals is not None
    sketch.evals.accuracy_name = "eval/psnr"
    sketch.evals.accuracy = -10 * np.log10(sketch.evals.loss)
    return sketch


def tabular(rng: Generator, rows: int) -> Sketch:
    """Rows of a table: learned early, and the rate goes to nothing while nothing is left to learn.

    What is learned follows the sum of the rates so far; towards the end evaluations say the same
    again and again, since the weights hardly move.
    """
    place = np.arange(rows)
    per_epoch = int(rng.integers(40, 250))
    left = 1 - place / rows
    if rng.random() < 0.5:
        rate = np.exp(-place / (rows * rng.uniform(0.07, 0.16)))
    else:
        rate = left ** rng.uniform(4, 9)
    spent = np.cumsum(rate) / within(rng, 15, max(30, rows / 60))
    is_yes_or_no = rng.random() < 0.5
    start = np.log(2) * rng.uniform(1.0, 1.1) if is_yes_or_no else within(rng, 0.3, 3)
    floor = rng.uniform(0.3, 0.75)
    smooth = start * (floor + (1 - floor) * (1 + spent) ** -rng.uniform(1.0, 2.0))
    noise = parts.gaussian(rng, rows, width=within(rng, 0.02, 0.09))
    sketch = assemble(
        "tabular",
        rng,
        loss=smooth * np.exp(noise),
        lr=within(rng, 3e-4, 1e-2) * rate,
        norm=parts.gradient_norms(
            rng,
            place,
            level=within(rng, 0.05, 1),
            early=rng.uniform(0.5, 3),
            settle=within(rng, 20, 150),
            width=rng.uniform(0.15, 0.35),
        ),
        loop=Loop(
            step_ms=(2, 20),
            jitter=(0.04, 0.2),
            pause_s=(0.02, 0.6),
            compile_s=(0.1, 2),
            plain_share=0.5,
            sol_share=0.0,
        ),
        classes=2 if is_yes_or_no else None,
        eval_every=per_epoch,
    )
    sketch.rows_per_epoch = per_epoch
    evals = sketch.evals
    assert evals is not None
    moves = np.sqrt(rate[evals.at]) * rng.normal(0, 1, len(evals.at))
    evals.loss = smooth[evals.at] * rng.uniform(1.01, 1.08) * (1 + 0.006 * moves)
    if evals.accuracy is not None:
        learned = (start - smooth[evals.at]) / (start * (1 - floor))
        evals.accuracy = 0.5 + rng.uniform(0.2, 0.4) * learned + 0.004 * moves
    return sketch


def _two_phases(rng: Generator, place: Rows, *, turn: int) -> Column:
    """Up and down in straight lines, twice, the second time from a lower peak."""
    rows = len(place)
    since = np.maximum(0, place - turn)
    peak, again = within(rng, 1e-4, 6e-3), rng.uniform(0.4, 0.7)
    warmup, second = max(20, rows // 12), max(10, (rows - turn) // 8)
    down = np.sqrt(np.maximum(0.0, 1 - place / turn * rng.uniform(0.8, 0.95)))
    one = np.minimum((place + 1) / warmup, down)
    two = again * np.minimum((since + 1) / second, 1 - since / (rows - turn))
    return peak * np.where(place < turn, one, two)
