"""What pairs of inputs and targets tell, from where batches are read to the record.

- The distance correlation within batches: whether samples with near inputs have near targets. The
  distances are centred without bias (Székely and Rizzo, 2014), so their mean product is zero on
  average where targets do not depend on inputs. A second figure asks only the nearest input of each
  sample: where in the order of distances its target is, 0.5 for the nearest.
- The spread of targets around their mean: what the best constant answer would cost.
- Features with one value for each class, in every sample: they give the label away. Features with
  one value in all samples say nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
import torch

from epochal.records import Record

LABELS = ("label", "labels", "target", "targets", "y")
_INPUTS = ("input_ids", "inputs", "input", "pixel_values", "x", "tokens")
# Rows and columns that figures are made of; a column keeps its place in every batch.
MOST_ROWS, _MOST_COLUMNS = 256, 128
_DEPTH = 8

Array = np.ndarray[Any, Any]


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Tensors, arrays, texts and numbers of a sample or batch, in order."""
    if isinstance(value, (torch.Tensor, np.ndarray, str, bytes, int, float)):
        yield value
    elif depth < _DEPTH:
        if isinstance(value, Mapping):
            value = value.values()
        elif hasattr(value, "__array__"):
            value = (np.asarray(value),)  # a picture, for example
        elif is_dataclass(value):
            value = vars(value).values()
        elif not isinstance(value, (tuple, list)):
            return
        for item in value:
            yield from leaves(item, depth + 1)


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


# -- the distance correlation ---------------------------------------------------------------------


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


class ConstantFeatures:
    """Features of numbers that have had one value in all samples so far."""

    def __init__(self) -> None:
        self._first: torch.Tensor | None = None
        self._samples = 0
        self._is_left = torch.ones(0, dtype=torch.bool)

    def add(self, inputs: torch.Tensor) -> None:
        """Take in one batch; inputs of several widths have no features to compare."""
        rows = inputs[:MOST_ROWS].reshape(min(len(inputs), MOST_ROWS), -1)[:, :_MOST_FEATURES]
        if self._first is None:
            self._first = rows[0].clone()
            self._is_left = torch.ones_like(self._first, dtype=torch.bool)
        if rows.shape[1:] == self._first.shape:
            self._is_left &= (rows == self._first).all(0)
            self._samples += len(rows)
        else:
            self._is_left.fill_(False)

    def found(self) -> tuple[int, int] | None:
        """How many there are, of how many; None while there are too few samples."""
        counted = int(self._is_left.sum()), len(self._is_left)
        return counted if self._samples >= _LEAST_SAMPLES else None


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


_LEAST_CORRELATION = 0.99999  # of a feature that is the target, but for rounding
_MOST_TARGETS = 4


class TargetCopies:
    """Features that are one of the first targets, scaled and shifted."""

    def __init__(self) -> None:
        self._samples = 0
        self._sums: list[Array] | None = None  # of x, y, x², y² and xy

    def add(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Take in one batch of numbers; a model whose target is its input is left out."""
        is_known = inputs.is_floating_point() and targets.is_floating_point()
        if not is_known or inputs.shape == targets.shape:
            return
        count = min(len(inputs), MOST_ROWS)
        x = inputs[:count].reshape(count, -1)[:, : _MOST_FEATURES // 8].double().numpy()
        y = targets[:count].reshape(count, -1)[:, :_MOST_TARGETS].double().numpy()
        sums = [x.sum(0), y.sum(0), (x * x).sum(0), (y * y).sum(0), x.T @ y]
        if self._sums is None:
            self._sums = sums
        elif self._sums[4].shape == sums[4].shape:
            self._sums = [a + b for a, b in zip(self._sums, sums, strict=True)]
        else:
            return  # inputs of several widths have no features to compare
        self._samples += count

    def found(self) -> tuple[int, int, list[int]] | None:
        """Samples, 0 for the number of classes, and the features; None if there are none."""
        if self._sums is None or self._samples < _LEAST_SAMPLES:
            return None
        x, y, xx, yy, xy = (one / self._samples for one in self._sums)
        spread = np.outer(xx - x * x, yy - y * y)
        both = (xy - np.outer(x, y)) ** 2
        is_copy = (spread > 1e-18) & (both > _LEAST_CORRELATION**2 * spread)
        places = np.flatnonzero(is_copy.any(1))[:_MOST_SHOWN].tolist()
        return (self._samples, 0, places) if places else None


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
    association: Sums | None = None
    telling: tuple[int, int, list[int]] | None = None
    constant: tuple[int, int] | None = None


class PairReader:
    """Reads pairs where batches are collated."""

    def __init__(self) -> None:
        self._reads = 0
        self._telling, self._constant = TellingFeatures(), ConstantFeatures()
        self._copies = TargetCopies()

    def read(self, batch: Any, count: int) -> PairFacts | None:
        """The facts of a batch; None where it is no pair, or left out."""
        self._reads += 1
        if self._reads > FIRST_BATCHES and self._reads % _LATER:
            return None
        pair = pair_of(batch, count)
        if pair is None:
            return None
        self._telling.add(*pair)
        if pair[0].is_floating_point():
            self._constant.add(pair[0])
        inputs, targets = (some_columns(one) for one in pair)
        with np.errstate(all="ignore"):  # of values that are not finite
            self._copies.add(*pair)
            sums = association(inputs, targets, self._reads)
            telling = self._telling.found() or self._copies.found()
        if targets.dtype.kind != "f":
            targets = targets.astype(np.int32)
        return PairFacts(targets, sums, telling, self._constant.found())


class PairFigures:
    """What all batches of a loader told so far, over its epochs."""

    def __init__(self) -> None:
        self._spread = TargetSpread()
        self._association = Association()
        self._batches, self._due_at = 0, 1.0
        self._telling: dict[int | None, tuple[int, int, list[int]] | None] = {}
        self._constant: dict[int | None, tuple[int, int]] = {}  # by the worker that reads

    def add(self, facts: PairFacts, worker: int | None) -> None:
        """Take in one batch."""
        self._batches += 1
        if facts.targets is not None:
            self._spread.add(facts.targets)
        if facts.association is not None:
            self._association.add(facts.association)
        self._telling[worker] = facts.telling
        if facts.constant is not None:
            self._constant[worker] = facts.constant

    def fields(self) -> Record:
        """What a record says of them; nothing where the last one said nearly as much."""
        found: Record = {}
        if self._batches < self._due_at:
            return found
        self._due_at = _MORE * self._batches
        for name, figures in (
            ("targets", self._spread.fields()),
            ("association", self._association.fields()),
            ("telling", self._told()),
        ):
            if figures is not None:
                found[name] = dict(figures)
        if self._spread.label_range is not None:
            found["label_range"] = self._spread.label_range
        if self._constant:
            found["constant_features"], found["features"] = min(self._constant.values())
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
