"""Puts a loop, a machine and a model around a curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.health.parts import pauses, step_times, within
from benchmarks.health.sketch import Column, Rows, Sketch
from benchmarks.health.tracks import add_evals, add_layers, add_phases

LOSS_NAMES = ("loss", "train_loss", "train/loss")


@dataclass(frozen=True, slots=True)
class Loop:
    """How a family's loops go; ranges are drawn from on a log scale."""

    step_ms: tuple[float, float] = (80, 1500)
    jitter: tuple[float, float] = (0.01, 0.08)
    pause_s: tuple[float, float] = (1, 18)
    compile_s: tuple[float, float] = (0.5, 25)
    plain_share: float = 0.3  # of the runs that log plain metrics under names of their own
    sol_share: float = 0.2
    watched_share: float = 0.5
    phases_share: float = 0.4


def assemble(
    family: str,
    rng: Generator,
    *,
    loss: Column,
    lr: Column,
    norm: Column,
    loop: Loop | None = None,
    place: Rows | None = None,
    every: int = 1,
    eval_every: int | None = None,
    eval_gap: float = 0.02,
    eval_noise: float = 0.004,
    classes: int | None = None,
    frozen: int = 0,
) -> Sketch:
    """A sketch with the pace, pauses and tracks of a loop like others."""
    loop = loop or Loop()
    rows = len(loss)
    eval_every = eval_every or int(rng.integers(150, 700))
    step_ms = step_times(
        rng, rows, step_ms=within(rng, *loop.step_ms), jitter=within(rng, *loop.jitter)
    )
    step_ms[0] *= rng.uniform(1, 12)
    is_plain = rng.random() < loop.plain_share
    low, high = loop.pause_s
    sketch = Sketch(
        family=family,
        rng=rng,
        loss=loss,
        lr=lr,
        norm=norm,
        step_ms=step_ms,
        pause_s=pauses(
            rng,
            rows,
            every=eval_every,
            low_s=low,
            high_s=within(rng, low, high),
            first_s=within(rng, *loop.compile_s),
        ),
        every=every,
        place=np.arange(rows) if place is None else place,
        style="metrics" if is_plain else "step",
        names=(str(rng.choice(LOSS_NAMES)), "grad_norm", "lr"),
        tokens=int(2 ** rng.integers(10, 20)),
        counts_pauses=bool(rng.random() < 0.3),
        has_machine=bool(rng.random() < 0.7),
    )
    if not is_plain:
        if rng.random() < loop.sol_share:
            sketch.sol = np.clip(rng.uniform(68, 88) * step_ms.min() / step_ms * 1.05, 20, 97)
        if rng.random() < 0.4:
            sketch.clip = _clip(norm, share=rng.uniform(0.75, 0.995))
    add_evals(sketch, every=eval_every, gap=eval_gap, noise=eval_noise, classes=classes)
    if rng.random() < loop.watched_share or frozen:
        add_layers(sketch, every=int(rng.integers(50, 250)), frozen=frozen)
    if rng.random() < loop.phases_share:
        add_phases(sketch)
    return sketch


def _clip(norm: Column, *, share: float) -> float:
    """A limit that most norms stay below; the large ones of the first rows are all cut."""
    early = norm[250:650] if len(norm) > 650 else norm
    return float(max(np.quantile(norm, share), np.median(early)))
