"""Inputs that give the label away: features with one value for each class, in every sample."""

from __future__ import annotations

import numpy as np
import torch

from epochal.torch.data.pair import MOST_ROWS, Array

# Of wider samples the first and the last features are looked at: hints are put before or behind.
_MOST_FEATURES = 16384
_MOST_CLASSES = 256
_MOST_SHOWN = 16
# Samples of each class before features that are equal by chance are refuted.
_LEAST_SAMPLES, _LEAST_OF_CLASS = 200, 20

# Others, as bfloat16 and float8, numpy does not know.
_NUMPY_FLOATS = (torch.float16, torch.float32, torch.float64)


class TellingFeatures:
    """Features that no two samples of one class contradicted so far."""

    def __init__(self) -> None:
        self._places: Array | None = None  # features that are left
        self._width = 0
        self._values: dict[int, Array] = {}  # what the first sample of each class has there
        self._samples = 0
        self._is_over = False

    def add(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Take in one batch; only labels with one whole number for each sample count."""
        labels = None if self._is_over else _labels(targets)
        if labels is None:
            self._is_over = True
            return
        rows = inputs[:MOST_ROWS].reshape(len(labels), -1)
        if self._places is None:
            self._width = rows.shape[1]
            half = min(self._width, _MOST_FEATURES) // 2
            last = np.arange(max(half, self._width - _MOST_FEATURES + half), self._width)
            self._places = np.concatenate([np.arange(half), last])
        if rows.shape[1] != self._width:
            self._is_over = True
            return
        is_whole = len(self._places) == self._width
        part = rows if is_whole else rows[:, torch.from_numpy(self._places)]
        if part.is_floating_point() and part.dtype not in _NUMPY_FLOATS:
            part = part.to(torch.float32)
        self._refute(part.numpy(), labels)

    def _refute(self, rows: Array, labels: Array) -> None:
        assert self._places is not None
        self._samples += len(labels)
        left = np.ones(len(self._places), bool)
        for label in np.unique(labels).tolist():
            own = rows[labels == label]
            first = self._values.setdefault(label, own[0])
            left &= (own == first).all(0)
        if len(self._values) > _MOST_CLASSES:
            self._is_over = True
        if not left.all():
            self._places = self._places[left]
            self._values = {label: value[left] for label, value in self._values.items()}
        if not len(self._places):
            self._is_over = True

    def found(self) -> tuple[int, int, list[int]] | None:
        """Samples, classes, and the features that tell every class from the others."""
        classes = len(self._values)
        least = max(_LEAST_SAMPLES, _LEAST_OF_CLASS * classes)
        if self._is_over or self._places is None or classes < 2 or self._samples < least:
            return None
        values = np.stack(list(self._values.values()))
        differs = (values != values[:1]).any(0)
        if len(np.unique(values[:, differs], axis=0)) < classes:
            return None
        return self._samples, classes, self._places[differs][:_MOST_SHOWN].tolist()


def _labels(targets: torch.Tensor) -> Array | None:
    if targets.shape not in ((len(targets),), (len(targets), 1)):
        return None
    values = targets[:MOST_ROWS].reshape(-1)
    if values.is_floating_point() and not bool(((values == 0) | (values == 1)).all()):
        return None
    labels: Array = values.to(torch.int64).numpy()
    return labels
