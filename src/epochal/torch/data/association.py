"""Whether samples with near inputs have near targets: a distance correlation within batches.

For each batch the distances between its inputs and those between its targets are centred in rows
and columns without bias (Székely and Rizzo, 2014). Their mean product is zero on average where
targets do not depend on inputs, whatever the size of a batch. A second figure asks only the nearest
input of each sample: where in the order of distances its target stands, 0.5 for the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from epochal.torch.data.pair import Array

ROWS = 32
_LEAST_ROWS = 6

# Covariance and variances of both sorts of distances, and the place of the nearest.
Sums = tuple[float, float, float, float]


def association(inputs: Array, targets: Array, place: int) -> Sums | None:
    """The sums of one batch; ``place`` decides which of its rows are taken."""
    count = len(inputs)
    if count < _LEAST_ROWS:
        return None
    if count > ROWS:
        rows = (np.arange(ROWS) * (count // ROWS) + place) % count
        inputs, targets = inputs[rows], targets[rows]
    apart, targets_apart = _distances(inputs), _distances(targets)
    nearest = _nearest(apart, targets_apart)
    of_inputs, of_targets = _centred(apart), _centred(targets_apart)
    pairs = len(inputs) * (len(inputs) - 3)
    both = float(np.vdot(of_inputs, of_targets)) / pairs
    alone = float(np.vdot(of_inputs, of_inputs)) / pairs
    beside = float(np.vdot(of_targets, of_targets)) / pairs
    return (both, alone, beside, nearest) if math.isfinite(alone + beside) else None


def _nearest(inputs: Array, targets: Array) -> float:
    """By how much the target of the nearest input is nearer than the median one."""
    places = np.arange(len(inputs))
    others = inputs + np.where(places[:, None] == places, np.inf, 0)
    apart = targets[places, others.argmin(1)][:, None]
    # The distance to itself is 0 and must not count.
    below = (targets < apart).sum(1) - (apart[:, 0] > 0)
    equal = (targets == apart).sum(1) - (apart[:, 0] == 0)
    return float(0.5 - ((below + equal / 2) / (len(inputs) - 1)).mean())


def _distances(rows: Array) -> Array:
    if rows.dtype.kind == "f":
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        products = (rows @ rows.T).astype(np.float64)
        apart = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * products, 0))
        np.fill_diagonal(apart, 0)
        distances: Array = apart
    else:
        distances = (rows[:, None] != rows[None]).mean(2)
    return distances


def _centred(distances: Array) -> Array:
    count = len(distances)
    of_row = distances.sum(1) / (count - 2)
    whole = distances.sum() / ((count - 1) * (count - 2))
    centred: Array = distances - of_row[:, None] - of_row[None] + whole
    np.fill_diagonal(centred, 0)
    return centred


class Association:
    """The sums of many batches."""

    def __init__(self) -> None:
        self._batches = 0
        self._sums = np.zeros(4)
        self._squares = np.zeros(4)

    def add(self, sums: Sums) -> None:
        """Take in one batch."""
        self._batches += 1
        self._sums += sums
        self._squares += np.square(sums)

    def fields(self) -> Mapping[str, Any] | None:
        """The correlation with its standard error; None where distances do not differ."""
        covariance, of_inputs, of_targets, nearest = self._sums.tolist()
        if self._batches < 2 or min(of_inputs, of_targets) <= 0:
            return None
        scale = math.sqrt(of_inputs * of_targets)
        spread = np.maximum(0.0, self._squares - self._sums * self._sums / self._batches)
        errors = np.sqrt(spread * self._batches / (self._batches - 1))
        return {
            "batches": self._batches,
            "correlation": float(f"{covariance / scale:.5g}"),
            "error": float(f"{errors[0] / scale:.3g}"),
            "nearest": float(f"{nearest / self._batches:.5g}"),
            "nearest_error": float(f"{errors[3] / self._batches:.3g}"),
        }
