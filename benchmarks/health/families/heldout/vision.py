"""Trainings on images: mixed labels, masked patches, a thawed backbone, a busy file system."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health import parts
from benchmarks.health.assembly import Loop, assemble
from benchmarks.health.parts import within
from benchmarks.health.sketch import Column, Sketch
from benchmarks.health.tracks import add_layers, add_phases


def mixed_images(rng: Generator, rows: int) -> Sketch:
    """Cut-mix and smoothed labels: evaluations, of whole images, are well below the training loss.

    How much of a batch is mixed decides its loss, so the noise has two humps; norms grow towards
    the end as they do with weight decay and a falling rate.
    """
    place = np.arange(rows)
    classes = int(rng.choice([10, 100, 1000]))
    per_epoch = max(100, rows // int(rng.integers(30, 100)))
    start = float(np.log(classes))
    smooth = parts.power_law(
        place,
        start=start * rng.uniform(1.0, 1.04),
        floor=start * rng.uniform(0.28, 0.42),
        scale=within(rng, 100, max(200, rows / 12)),
        exponent=rng.uniform(0.5, 0.9),
    )
    mixed = (rng.beta(0.8, 0.8, rows) - 0.5) * rng.uniform(0.08, 0.3)
    loss = smooth * (1 + mixed * np.minimum(1.0, place / 300)) * (1 + rng.normal(0, 0.015, rows))
    lr = parts.warmup_cosine(
        place, peak=within(rng, 0.1, 2), warmup=5 * per_epoch, total=rows, floor=0.0
    )
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.5, 4), early=rng.uniform(0.5, 3), settle=150, width=0.2
    )
    sketch = assemble(
        "mixed-images",
        rng,
        loss=loss,
        lr=lr,
        norm=norm * (1 + rng.uniform(0.2, 1.0) * (place / rows) ** 2),
        classes=classes,
        eval_every=per_epoch,
        eval_gap=0.0,
        eval_noise=0.01,
    )
    sketch.rows_per_epoch = per_epoch
    assert sketch.evals is not None
    fallen = 1 - smooth[sketch.evals.at] / smooth[0]
    sketch.evals.loss *= 1 - rng.uniform(0.3, 0.7) * fallen
    return sketch


def masked_patches(rng: Generator, rows: int) -> Sketch:
    """A masked autoencoder in half precision, a record for eight accumulated steps.

    The loss falls at once to the mean colour of a patch, hardly moves there, and falls again when
    the model finds shapes. The scale of the loss is too large at first: the first records' updates
    are skipped, and neither weights nor rate move.
    """
    skipped = int(rng.integers(1, 4))
    place = np.arange(rows)
    moved = np.maximum(0, place - skipped)
    knee, width = rng.uniform(250, 700), rng.uniform(60, 180)
    share = 1 / (1 + np.exp((moved - knee) / width))
    smooth = (
        rng.uniform(0.36, 0.46)
        + rng.uniform(0.2, 0.3) * np.exp(-moved / within(rng, 10, 60))
        + rng.uniform(0.1, 0.2) * share
        + rng.uniform(0.12, 0.2) * (1 + moved / within(rng, 100, 500)) ** -0.3
    )
    loss = smooth * (1 + parts.gaussian(rng, rows, width=within(rng, 0.003, 0.012)))
    warmup = int(np.clip(rows / 20, 60, 600))
    lr = parts.warmup_cosine(
        moved, peak=within(rng, 3e-4, 2.4e-3), warmup=warmup, total=rows, floor=0.0
    )
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.05, 1), early=rng.uniform(1, 6), settle=25, width=0.12
    )
    sketch = assemble(
        "masked-patches",
        rng,
        loss=_half(loss),
        lr=lr,
        norm=norm * (1 + 0.6 * (1 - share)),
        every=8,
        loop=Loop(step_ms=(60, 400), jitter=(0.01, 0.06)),
        eval_gap=0.006,
        eval_noise=0.002,
    )
    if sketch.layers is not None:
        sketch.layers.ratios[sketch.layers.at < skipped] = 0.0
    return sketch


def unfreezing(rng: Generator, rows: int) -> Sketch:
    """A new head on a frozen backbone, which is trained as well from some row on.

    There the norm steps up, the rate starts over lower, and the loss falls further after a bump.
    """
    place = np.arange(rows)
    classes = int(rng.choice([3, 12, 37, 102]))
    turn = int(min(rows * rng.uniform(0.1, 0.25), within(rng, 400, 1200)))
    start = float(np.log(classes)) * rng.uniform(1.0, 1.15)
    since = np.maximum(0, place - turn)
    trained = np.minimum(place, turn) / (turn / rng.uniform(3, 6))
    head = start * (rng.uniform(0.5, 0.65) + 0.35 * np.exp(-trained))
    left = rng.uniform(0.3, 0.5)
    thawed = left + (1 - left) * (1 + since / within(rng, 80, max(160, rows / 15))) ** -0.8
    bump = rng.uniform(0, 0.05) * np.exp(-since / 15) * (place >= turn)
    smooth = head * thawed * (1 + bump)
    loss = smooth * np.exp(parts.gaussian(rng, rows, width=within(rng, 0.03, 0.09)))
    peak, cut = within(rng, 5e-4, 1e-2), rng.uniform(1.5, 10)
    later = parts.warmup_cosine(since, peak=peak / cut, warmup=40, total=rows - turn, floor=0.02)
    norm = parts.gradient_norms(
        rng, place, level=within(rng, 0.2, 3), early=0.5, settle=80, width=rng.uniform(0.15, 0.3)
    )
    lift = np.where(place < turn, 1.0, rng.uniform(1.8, 4) * (1 + 0.5 * np.exp(-since / 60)))
    sketch = assemble(
        "unfreezing",
        rng,
        loss=loss,
        lr=np.where(place < turn, peak, later),
        norm=norm * lift,
        classes=classes,
        eval_every=max(40, rows // int(rng.integers(15, 50))),
        eval_gap=rng.uniform(0.02, 0.08),
        eval_noise=0.008,
        loop=Loop(watched_share=0.0, phases_share=0.0, sol_share=0.0),
    )
    # More to go back through; half as long again or more would be a drop of the pace by definition.
    sketch.step_ms[turn:] *= rng.uniform(1.03, 1.15)
    if rng.random() < 0.7:
        _watch_thawed(sketch, turn=turn, every=int(rng.integers(20, 120)))
    return sketch


def scenes(rng: Generator, rows: int) -> Sketch:
    """Segmentation by momentum on a shared cluster: large first norms, steps that wait at times.

    The file system has slow stretches, in which a step takes up to a fifth longer, and single
    steps of up to three times the usual.
    """
    place = np.arange(rows)
    start = float(np.log(rng.choice([19, 21, 150]))) * rng.choice([1.0, 1.4])  # with a second head
    smooth = parts.power_law(
        place,
        start=start,
        floor=start * rng.uniform(0.05, 0.12),
        scale=within(rng, 40, 300),
        exponent=rng.uniform(0.45, 0.7),
    )
    loss = smooth * np.exp(parts.gaussian(rng, rows, width=within(rng, 0.05, 0.1)))
    lr = within(rng, 2e-3, 5e-2) * (1 - place / rows) ** 0.9
    norm = parts.gradient_norms(
        rng,
        place,
        level=within(rng, 0.5, 8),
        early=within(rng, 8, 80),
        settle=within(rng, 15, 60),
        width=rng.uniform(0.2, 0.35),
    )
    sketch = assemble(
        "scenes",
        rng,
        loss=loss,
        lr=lr,
        norm=norm,
        loop=Loop(jitter=(0.04, 0.13), pause_s=(4, 50), sol_share=0.0, phases_share=0.0),
        eval_gap=rng.uniform(0.05, 0.15),
        eval_noise=0.012,
    )
    slow = _slow_stretches(rng, rows)
    stalls = rng.random(rows) < 0.006
    sketch.step_ms *= np.where(stalls, rng.uniform(1.3, 2.5, rows), 1.0)
    sketch.step_ms = slow * np.minimum(sketch.step_ms, 2.5 * float(np.median(sketch.step_ms)))
    if rng.random() < 0.6:
        _tell_waits(sketch, slow)
    return sketch


def _half(values: Column) -> Column:
    """Eleven bits, as half precision holds them."""
    return values.astype(np.float16).astype(np.float64)


def _watch_thawed(sketch: Sketch, *, turn: int, every: int) -> None:
    """Two of three blocks have neither gradient nor update before the row ``turn``."""
    layers = add_layers(sketch, every=every)
    early = layers.at < turn
    first = int(early.sum())
    backbone = slice(0, 2 * len(layers.names) // 3)
    layers.params[:first, backbone] = layers.params[first, backbone]
    layers.ratios[:first, backbone] = 0.0
    layers.grads[:first, backbone] = np.nan
    layers.zeros[:first, backbone] = np.nan


def _slow_stretches(rng: Generator, rows: int) -> Column:
    """Times the usual step: a few stretches, each with soft edges."""
    slow = np.ones(rows)
    place = np.arange(rows)
    for _ in range(int(rng.integers(1, 5))):
        middle, half = rng.uniform(0, rows), rows * rng.uniform(0.01, 0.04)
        edges = np.clip((half - np.abs(place - middle)) / (0.3 * half), 0.0, 1.0)
        slow = np.maximum(slow, 1 + rng.uniform(0.06, 0.2) * edges)
    return slow


def _tell_waits(sketch: Sketch, slow: Column) -> None:
    """What slow stretches add is time that the input waits."""
    phases = add_phases(sketch)
    longer = slow[phases.at]
    for parts_of_rank in phases.by_rank.values():
        wall = np.sum(list(parts_of_rank.values()), axis=0)
        for name in parts_of_rank:
            parts_of_rank[name] = parts_of_rank[name] / longer
        parts_of_rank["data"] = parts_of_rank["data"] + wall * (1 - 1 / longer)
