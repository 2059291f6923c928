"""What pairs of inputs and targets tell, from where batches are read to the record.

- The spread of targets around their mean: what the best constant answer would cost.
- Features with one value for each class, in every sample: they give the label away. Features with
  one value in all samples say nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from epochal.records import Record
from epochal.torch.data.batch import LABELS, leaves

_INPUTS = ("input_ids", "inputs", "input", "pixel_values", "x", "tokens")
# Rows and columns that figures are made of; a column keeps its place in every batch.
MOST_ROWS, _MOST_COLUMNS = 256, 128

Array = np.ndarray[Any, Any]


def pair_of(batch: Any, count: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Inputs and targets with a row for each sample; None where a batch is something else.

    A tuple of more than two says not which of them the targets are.
    """
    if isinstance(batch, Mapping):
        targets = next((batch[name] for name in LABELS if name in batch), None)
        named = [batch[name] for name in _INPUTS if name in batch]
        inputs = next((one for one in [*named, *batch.values()] if one is not targets), None)
    elif isinstance(batch, (tuple, list)) and len(batch) == 2:
        inputs, targets = batch
    else:
        return None
    inputs = next((one for one in leaves(inputs) if isinstance(one, torch.Tensor)), None)
    if not isinstance(inputs, torch.Tensor) or not isinstance(targets, torch.Tensor):
        return None
    for one in (inputs, targets):
        if one.device.type != "cpu" or one.is_complex() or one.layout != torch.strided:
            return None
        if not one.dim() or one.shape[0] != count or not one.numel():
            return None
    return inputs.detach(), targets.detach()


def some_columns(tensor: torch.Tensor) -> Array:
    """Rows of at most so many columns, evenly spread over the elements of a sample."""
    rows = tensor[:MOST_ROWS].reshape(min(len(tensor), MOST_ROWS), -1)
    rows = rows[:, :: -(-rows.shape[1] // _MOST_COLUMNS)]
    kept = rows.to(torch.float32 if tensor.is_floating_point() else torch.int64)
    return kept.contiguous().numpy()


# -- the spread of targets ------------------------------------------------------------------------


_IGNORED = -100  # as torch's losses have it by default
_MOST_COUNTED = 4096


class TargetSpread:
    """Frequencies of whole targets, or moments of others at their place, over many batches."""

    def __init__(self) -> None:
        self._samples = 0
        self._counts: Counter[int] = Counter()
        self._sums: Array | None = None  # of values and of their squares
        self._is_share, self._is_binary = True, True
        self.label_range: list[int] | None = None

    def add(self, targets: Array) -> None:
        """Take in the targets of one batch, a row for each sample."""
        if targets.dtype.kind != "f":
            self._count(targets)
        elif np.isfinite(targets.sum()):
            self._sum(targets.astype(np.float64))

    def _count(self, targets: Array) -> None:
        self._samples += len(targets)
        labels = targets[targets != _IGNORED]
        if labels.size:
            ends = [int(labels.min()), int(labels.max()), *(self.label_range or ())]
            self.label_range = [min(ends), max(ends)]
        if len(self._counts) <= _MOST_COUNTED:
            values, counts = np.unique(labels[labels >= 0], return_counts=True)
            self._counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def _sum(self, values: Array) -> None:
        sums = np.stack([values.sum(0), np.square(values).sum(0)])
        if self._sums is not None and sums.shape != self._sums.shape:
            sums = sums.mean(1, keepdims=True)
            self._sums = self._sums.mean(1, keepdims=True)
        self._samples += len(values)
        self._sums = sums if self._sums is None else self._sums + sums
        self._is_share = self._is_share and bool(values.min() >= 0 and values.max() <= 1)
        self._is_binary = self._is_binary and bool(np.isin(values, (0, 1)).all())

    def fields(self) -> Mapping[str, Any] | None:
        """What the best constant answer costs: nats of classes and shares, or a variance."""
        found: dict[str, float] = {}
        if self._samples < 2:
            return None
        if self._sums is not None:
            means, squares = self._sums / self._samples
            unbiased = self._samples / (self._samples - 1)
            found["variance"] = float((squares - means * means).mean()) * unbiased
            if self._is_share:
                found["entropy"] = float(np.mean([_entropy([one, 1 - one]) for one in means]))
            if self._is_binary:
                found |= {"classes": 2, "majority": float(max(means.mean(), 1 - means.mean()))}
        elif 0 < len(self._counts) <= _MOST_COUNTED:
            total, classes = self._counts.total(), len(self._counts)
            nats = _entropy([count / total for count in self._counts.values()])
            nats += (classes - 1) / (2 * total)  # without the bias: Miller and Madow
            majority = max(self._counts.values()) / total
            found = {"classes": classes, "entropy": nats, "majority": majority}
        if not found:
            return None
        rounded = {
            name: value if isinstance(value, int) else float(f"{max(0.0, value):.6g}")
            for name, value in found.items()
        }
        return {"samples": self._samples, **rounded}


def _entropy(shares: Iterable[float]) -> float:
    return -sum(share * math.log(share) for share in shares if share > 0)


# -- features that tell the label -----------------------------------------------------------------


# Of wider samples the first features are looked at.
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
        rows = inputs[:MOST_ROWS].reshape(len(labels), -1)[:, :_MOST_FEATURES]
        if self._places is None:
            self._width = rows.shape[1]
            self._places = np.arange(self._width)
        if rows.shape[1] != self._width:
            self._is_over = True
            return
        if rows.is_floating_point() and rows.dtype not in _NUMPY_FLOATS:
            rows = rows.to(torch.float32)
        self._refute(rows.numpy()[:, self._places], labels)

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


# -- from batches to the record -------------------------------------------------------------------


# The first batches count, and later ones now and then: data may be in an order.
FIRST_BATCHES, _LATER = 32, 8
# Figures are written again when so many times the batches have counted.
_MORE = 1.5


@dataclass(slots=True)
class PairFacts:
    """What one batch tells of its inputs and targets."""

    targets: Array | None = None
    telling: tuple[int, int, list[int]] | None = None


class PairReader:
    """Reads pairs where batches are collated."""

    def __init__(self) -> None:
        self._reads = 0
        self._telling = TellingFeatures()

    def read(self, batch: Any, count: int) -> PairFacts | None:
        """The facts of a batch; None where it is no pair, or left out."""
        self._reads += 1
        if self._reads > FIRST_BATCHES and self._reads % _LATER:
            return None
        pair = pair_of(batch, count)
        if pair is None:
            return None
        self._telling.add(*pair)
        targets = some_columns(pair[1])
        if targets.dtype.kind != "f":
            targets = targets.astype(np.int32)
        return PairFacts(targets, self._telling.found())


class PairFigures:
    """What all batches of a loader told so far, over its epochs."""

    def __init__(self) -> None:
        self._spread = TargetSpread()
        self._batches, self._due_at = 0, 1.0
        self._telling: dict[int | None, tuple[int, int, list[int]] | None] = {}

    def add(self, facts: PairFacts, worker: int | None) -> None:
        """Take in one batch."""
        self._batches += 1
        if facts.targets is not None:
            self._spread.add(facts.targets)
        self._telling[worker] = facts.telling

    def fields(self) -> Record:
        """What a record says of them; nothing where the last one said nearly as much."""
        found: Record = {}
        if self._batches < self._due_at:
            return found
        self._due_at = _MORE * self._batches
        for name, figures in (("targets", self._spread.fields()), ("telling", self._told())):
            if figures is not None:
                found[name] = dict(figures)
        if self._spread.label_range is not None:
            found["label_range"] = self._spread.label_range
        return found

    def _told(self) -> dict[str, Any] | None:
        known = [one for one in self._telling.values() if one is not None]
        if not known or len(known) < len(self._telling):
            return None  # a process that reads batches has seen the contrary
        features = set.intersection(*(set(one[2]) for one in known))
        if not features:
            return None
        samples, classes, _ = max(known)
        return {"samples": samples, "classes": classes, "features": sorted(features)}
