"""Faults of single layers, as a watched model tells them; their window is five samples."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import fault, harm, require
from benchmarks.health.parts import within
from benchmarks.health.sketch import Layers, Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import add_layers, watched_t

WINDOW = 5


def dead_layer(sketch: Sketch, strengths: Strengths) -> Fault:
    """One weight's gradient is exactly zero in all its elements: from the start, or from then on.

    Its update is what weight decay alone gives.
    """
    layers, every, place, column = _watched(sketch)
    layers.grads[place:, column] = 0.0
    layers.zeros[place:, column] = 1.0
    layers.ratios[place:, column] = 1e-7
    return _told(sketch, "dead-layer", layers, place, column, 3 * WINDOW * every)


def frozen_layer(sketch: Sketch, strengths: Strengths) -> Fault:
    """One weight has a gradient like the others' and never changes: no optimizer has it."""
    layers, every, place, column = _watched(sketch)
    layers.ratios[place:, column] = 0.0
    layers.params[place:, column] = layers.params[place, column]
    return _told(sketch, "frozen-layer", layers, place, column, 3 * WINDOW * every)


def update_ratio(sketch: Sketch, strengths: Strengths) -> Fault:
    """Updates of 15 % of the weights and more, or of less than a millionth, in one or all layers.

    The rate is not on its way down: small updates at a schedule's end are as they should be. Large
    ones do harm: the loss rises. Beside a loss that falls on they are how small weights learn.
    """
    rng = sketch.rng
    layers, every, place, column = _watched(sketch)
    stop = place + 3 * WINDOW
    require(stop < len(layers.at))
    rates = sketch.lr[layers.at[place:stop]]
    require(float(rates.min()) > 0.3 * float(sketch.lr.max()))
    is_large = rng.random() < 0.5
    size = within(rng, 0.15, 1.0) if is_large else within(rng, 1e-9, 1e-6)
    if is_large:
        harm(sketch, int(layers.at[place]), length=3 * every, strengths=strengths)
    is_everywhere = rng.random() < 0.5
    columns = slice(None) if is_everywhere else slice(column, column + 1)
    shape = layers.ratios[place:, columns].shape
    layers.ratios[place:, columns] = size * np.exp(rng.normal(0, 0.1, shape))
    told = None if is_everywhere else column
    return _told(sketch, "update-ratio", layers, place, told, 3 * WINDOW * every)


def weight_norm(sketch: Sketch, strengths: Strengths) -> Fault:
    """A weight's norm grows by a fifth or more from sample to sample, or shrinks as fast.

    The loss rises while it grows: what grows while the loss falls by a fifth is needed.
    """
    rng = sketch.rng
    layers, every, place, column = _watched(sketch)
    growth = within(rng, *strengths.weights_per_sample)
    direction = 1 if rng.random() < 0.7 else -1
    if direction == 1:
        harm(sketch, int(layers.at[place]), length=3 * every, strengths=strengths)
    samples = np.minimum(np.arange(len(layers.at) - place) + 1, 30)
    factor = growth ** (direction * samples)
    is_everywhere = rng.random() < 0.4
    columns = slice(None) if is_everywhere else slice(column, column + 1)
    layers.params[place:, columns] *= factor[:, None]
    told = None if is_everywhere else column
    return _told(sketch, "weight-norm", layers, place, told, 3 * 8 * every)


def _watched(sketch: Sketch) -> tuple[Layers, int, int, int]:
    rng = sketch.rng
    require(sketch.resume_at is None)
    every = int(rng.integers(15, 50))
    layers = add_layers(sketch, every=every)
    place = 0 if rng.random() < 0.25 else int(rng.integers(6, 20))
    return layers, every, place, int(rng.integers(0, len(layers.names)))


def _told(
    sketch: Sketch, rule: str, layers: Layers, place: int, column: int | None, rows: int
) -> Fault:
    names = () if column is None else _words(layers.names[column])
    row = int(layers.at[place])
    return fault(sketch, rule, row, rows=rows, names=names, at=watched_t(sketch, row))


def _words(name: str) -> tuple[str, ...]:
    return name, name.removesuffix(".weight")
