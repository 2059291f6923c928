"""What the best constant answer would cost: the spread of targets around their mean.

A model that uses nothing of its inputs can still learn how frequent each class is, or the mean of
each element of the targets. Both are counted for each column, and for all columns together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from epochal.torch.data.pair import Array

_MOST_CLASSES = 4096
_MOST_CELLS = 1 << 17


class TargetSpread:
    """Frequencies of whole targets, or moments of others, over many batches."""

    def __init__(self) -> None:
        self._samples = 0
        self._width: int | None = None  # None until the first batch, 0 where widths differ
        self._is_whole: bool | None = None
        self._pooled: Counter[int] | None = Counter()
        self._cells: Array | None = None  # columns x classes
        self._sums = np.zeros((2, 1))  # of values and of their squares
        self._is_share, self._is_binary = True, True

    def add(self, targets: Array) -> None:
        """Take in the targets of one batch, a row for each sample."""
        is_whole = targets.dtype.kind != "f"
        if self._is_whole is None:
            self._is_whole, self._width = is_whole, targets.shape[1]
        if is_whole != self._is_whole:
            return
        if targets.shape[1] != self._width:
            self._width = 0
        self._samples += len(targets)
        self._count(targets) if is_whole else self._sum(targets)

    def _count(self, targets: Array) -> None:
        known = targets[targets >= 0]  # a negative one is to be ignored
        if self._pooled is not None and known.size:
            values, counts = np.unique(known, return_counts=True)
            self._pooled.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            if len(self._pooled) > _MOST_CLASSES:
                self._pooled = None
        width = self._width or 0
        if width < 2 or self._pooled is None or not self._pooled:
            self._cells = None
            return
        classes = max(self._pooled) + 1
        if width * classes > _MOST_CELLS:
            self._cells, self._width = None, 0
            return
        cells = np.zeros((width, classes), np.int64)
        if self._cells is not None:
            cells[:, : self._cells.shape[1]] = self._cells
        places = np.broadcast_to(np.arange(width), targets.shape)[targets >= 0]
        np.add.at(cells, (places, known), 1)
        self._cells = cells

    def _sum(self, targets: Array) -> None:
        values = targets.astype(np.float64)
        if not np.isfinite(values.sum()):
            self._samples -= len(targets)
            return
        self._is_share = self._is_share and bool(values.min() >= 0 and values.max() <= 1)
        self._is_binary = self._is_binary and bool(((values == 0) | (values == 1)).all())
        sums = np.stack([values.sum(0), (values * values).sum(0)])
        if not self._width:
            self._sums = self._sums.mean(1, keepdims=True)
            sums = sums.mean(1, keepdims=True)
        self._sums = self._sums + sums

    def fields(self) -> Mapping[str, Any] | None:
        """Nats and variances, each with what all columns together have."""
        if self._samples < 2:
            return None
        found: dict[str, Any] = {"samples": self._samples}
        if self._is_whole:
            if not self._pooled:
                return None
            counts = np.array(list(self._pooled.values()))
            found |= {"classes": len(counts), "entropy": _entropy(counts[None])}
            if self._cells is not None:
                found["column_entropy"] = _entropy(self._cells)
        else:
            means, squares = self._sums / self._samples
            unbiased = self._samples / (self._samples - 1)
            found["column_variance"] = float((squares - means * means).mean()) * unbiased
            found["variance"] = float(squares.mean() - means.mean() ** 2)
            if self._is_share:
                found["column_entropy"] = float(_binary_entropy(means).mean())
                found["entropy"] = float(_binary_entropy(means.mean(keepdims=True)).mean())
            if self._is_binary:
                found["classes"] = 2
        return {
            name: value if isinstance(value, int) else float(f"{max(0.0, value):.6g}")
            for name, value in found.items()
        }


def _entropy(counts: Array) -> float:
    """The mean of the rows' entropies in nats, weighed by their counts, without the bias."""
    totals = counts.sum(1)
    rows = counts[totals > 0]
    totals = totals[totals > 0]
    shares = rows / totals[:, None]
    nats = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(1)
    nats += ((rows > 0).sum(1) - 1) / (2 * totals)  # Miller and Madow
    return float((nats * totals).sum() / totals.sum())


def _binary_entropy(shares: Array) -> Array:
    inside = np.clip(shares, 1e-12, 1 - 1e-12)
    nats: Array = -(inside * np.log(inside) + (1 - inside) * np.log1p(-inside))
    return nats
