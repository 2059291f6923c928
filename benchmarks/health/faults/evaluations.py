"""Faults that evaluations show; their window is five evaluations."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import fault, require
from benchmarks.health.parts import within
from benchmarks.health.sketch import Evals, Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import add_evals

WINDOW = 5


def overfitting(sketch: Sketch, strengths: Strengths) -> Fault:
    """The evaluation loss turns and rises by a per cent or more each time; training goes on."""
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None)
    every = int(rng.integers(35, 80))
    evals = add_evals(sketch, every=every)
    place = int(rng.integers(4, 10))
    row = int(evals.at[place])
    turns = np.maximum(0, np.arange(len(evals.at)) - place + 1)
    least = float(evals.loss[place - 1])
    risen = least * (1 + within(rng, *strengths.overfit)) ** turns
    noise = 1 + rng.normal(0, 0.004, len(turns))
    evals.loss = np.where(turns > 0, risen * noise, evals.loss)
    memorised = np.exp(-np.maximum(0, np.arange(sketch.rows) - row) / 1500)
    sketch.loss *= memorised
    return fault(sketch, "overfitting", row, rows=3 * WINDOW * every)


def eval_flat(sketch: Sketch, strengths: Strengths) -> Fault:
    """Evaluations say the same to a few parts in ten thousand, while the training loss falls."""
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None)
    every = int(rng.integers(35, 80))
    classes = 10 if rng.random() < 0.5 else None
    evals = add_evals(sketch, every=every, classes=classes)
    place = 0 if rng.random() < 0.5 else int(rng.integers(3, 8))
    row = int(evals.at[place])
    width = float(rng.choice([0.0, 1e-4, 3e-4]))
    stuck = 1 + rng.normal(0, width, len(evals.at) - place)
    evals.loss[place:] = evals.loss[place] * stuck
    if evals.accuracy is not None:
        evals.accuracy[place:] = evals.accuracy[place]
    sketch.loss *= np.exp(-np.maximum(0, np.arange(sketch.rows) - row) / 1200)
    return fault(sketch, "eval-flat", row, rows=3 * WINDOW * every)


def eval_at_chance(sketch: Sketch, strengths: Strengths) -> Fault:
    """The accuracy is that of guessing among the classes of the config, from the start on."""
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None)
    every = int(rng.integers(35, 80))
    classes = int(rng.choice([2, 4, 10, 100]))
    evals = add_evals(sketch, every=every, classes=classes)
    chance = 1 / classes
    width = np.sqrt(chance * (1 - chance) / 4000)
    evals.accuracy = np.clip(chance + rng.normal(0, width, len(evals.at)), 0, 1)
    evals.loss = np.log(classes) * (1 + rng.normal(0, 0.003, len(evals.at)))
    return fault(sketch, "eval-at-chance", int(evals.at[0]), rows=3 * WINDOW * every)


def too_good(sketch: Sketch, strengths: Strengths) -> Fault:
    """The first evaluations, a few dozen rows in, are next to perfect: the answer is in the input.

    Accuracy is 0.995 or more of ten or more classes and both losses are below a hundredth of their
    start, which is that of classes. Real answers that were given away left 0.5 to 3 % of the
    training loss by then; less than a thousandth is left of wrong initial weights.
    """
    rng = sketch.rng
    require(sketch.falls and sketch.resume_at is None)
    every = int(rng.integers(20, 60))
    start, classes = float(sketch.loss[0]), int(rng.choice([10, 100]))
    require(start < 5 * np.log(classes))
    fall = np.exp(-np.arange(sketch.rows) / rng.uniform(2, 4))
    sketch.loss *= np.maximum(fall, within(rng, 3e-3, 9e-3))
    evals = add_evals(sketch, every=every, classes=classes)
    _perfect(evals, sketch, start=start)
    return fault(sketch, "too-good", int(evals.at[0]), rows=WINDOW * every)


def _perfect(evals: Evals, sketch: Sketch, *, start: float) -> None:
    rng = sketch.rng
    evals.accuracy = np.minimum(1.0, rng.uniform(0.996, 1.0) + rng.normal(0, 5e-4, len(evals.at)))
    evals.loss = start * within(rng, 1e-4, 5e-3) * (1 + rng.normal(0, 0.05, len(evals.at)))
