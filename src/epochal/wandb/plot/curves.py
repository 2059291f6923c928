"""Curves of classifiers: ROC, precision and recall, confusion matrix. NumPy computes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.wandb.data_types.table import Table
from epochal.wandb.plot.custom_chart import CustomChart, plot_table

_AREA = "wandb/area-under-curve/v0"
_DIGITS = 3


def roc_curve(
    y_true: Iterable[Any],
    y_probas: Iterable[Any] | None = None,
    labels: list[str] | None = None,
    classes_to_plot: list[Any] | None = None,
    title: str = "ROC Curve",
    split_table: bool = False,
) -> CustomChart | None:
    """True against false positives of each class, one column of ``y_probas`` for each."""
    rows: list[list[Any]] = []
    for name, truth, scores in _classes(y_true, y_probas, labels, classes_to_plot):
        false, true = _counts(truth, scores)
        keep = np.ones(len(false), dtype=bool)
        keep[1:-1] = (np.diff(false, 2) != 0) | (np.diff(true, 2) != 0)
        false, true = np.r_[0.0, false[keep]], np.r_[0.0, true[keep]]
        rates = (_rounded(false / max(false[-1], 1)), _rounded(true / max(true[-1], 1)))
        rows += [[name, x, y] for x, y in zip(*rates, strict=True)]
    axes = {"x-axis-title": "False positive rate", "y-axis-title": "True positive rate"}
    return _curve(rows, ("fpr", "tpr"), {"title": title, **axes}, split_table)


def pr_curve(
    y_true: Iterable[Any] | None = None,
    y_probas: Iterable[Any] | None = None,
    labels: list[str] | None = None,
    classes_to_plot: list[Any] | None = None,
    interp_size: int = 21,
    title: str = "Precision-Recall Curve",
    split_table: bool = False,
) -> CustomChart | None:
    """Precision against recall of each class, at evenly spaced recalls."""
    wanted = np.linspace(0, 1, interp_size)[::-1]
    rows: list[list[Any]] = []
    for name, truth, scores in _classes(y_true, y_probas, labels, classes_to_plot):
        false, true = _counts(truth, scores)
        recall = np.r_[0.0, true / max(true[-1], 1)]
        precision = np.r_[1.0, true / np.maximum(true + false, 1)]
        # The best precision at this recall or a higher one.
        best = np.maximum.accumulate(precision[::-1])[::-1]
        found = best[np.minimum(np.searchsorted(recall, wanted, side="left"), len(best) - 1)]
        pairs = zip(_rounded(found), _rounded(wanted), strict=True)
        rows += [[name, precise, at] for precise, at in pairs]
    table = Table(columns=["class", "precision", "recall"], data=rows)
    fields = {"x": "recall", "y": "precision", "class": "class"}
    texts = {"title": title, "x-axis-title": "Recall", "y-axis-title": "Precision"}
    return plot_table(_AREA, table, fields, texts, split_table) if rows else None


def confusion_matrix(
    probs: Sequence[Sequence[float]] | None = None,
    y_true: Sequence[Any] | None = None,
    preds: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "Confusion Matrix Curve",
    split_table: bool = False,
) -> CustomChart:
    """How often each class was predicted for each class."""
    if probs is not None and preds is not None:
        raise ValueError("Only one of `probs` or `preds` should be provided, not both.")
    guessed = np.argmax(np.asarray(probs), axis=1) if probs is not None else np.asarray(preds)
    truth = np.asarray(y_true)
    if len(guessed) != len(truth):
        raise ValueError("The number of predictions and true labels must be equal.")
    predicted, actual = guessed.tolist(), truth.tolist()
    found: list[Any] = sorted({*predicted, *actual})
    if class_names is not None:
        if len(set(predicted)) > len(class_names):
            raise ValueError(
                "The number of unique predicted classes exceeds the number of class names."
            )
        if len(set(actual)) > len(class_names):
            raise ValueError("The number of unique true labels exceeds the number of class names.")
        found = list(range(len(class_names)))
    names = class_names or [f"Class_{number + 1}" for number in range(len(found))]
    place = {value: number for number, value in enumerate(found)}
    counts = np.zeros((len(found), len(found)), dtype=int)
    for one, other in zip(actual, predicted, strict=True):
        counts[place[one], place[other]] += 1
    rows = [
        [names[i], names[j], int(counts[i, j])]
        for i in range(len(found))
        for j in range(len(found))
    ]
    columns = ["Actual", "Predicted", "nPredictions"]
    table = Table(columns=columns, data=rows)
    fields = dict(zip(columns, columns, strict=True))
    return plot_table("wandb/confusion_matrix/v1", table, fields, {"title": title}, split_table)


def _curve(
    rows: list[list[Any]], axes: tuple[str, str], texts: dict[str, str], split_table: bool
) -> CustomChart | None:
    if not rows:
        return None
    table = Table(columns=["class", *axes], data=rows)
    fields = {"x": axes[0], "y": axes[1], "class": "class"}
    return plot_table(_AREA, table, fields, texts, split_table)


def _classes(
    y_true: Any, y_probas: Any, labels: list[str] | None, chosen: list[Any] | None
) -> Iterable[tuple[Any, NDArray[np.bool_], NDArray[Any]]]:
    """For each class its name, which samples are of it, and their scores."""
    if y_true is None or y_probas is None:
        return
    truth, scores = np.asarray(y_true), np.asarray(y_probas)
    classes = np.unique(truth)
    for number, value in enumerate(classes.tolist()):
        if chosen is not None and value not in list(chosen):
            continue
        name = labels[value] if labels is not None and isinstance(value, int) else value
        column = scores[..., number] if scores.ndim > 1 else scores
        yield name, truth == value, column


def _counts(truth: NDArray[np.bool_], scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """False and true positives at each distinct threshold, from the highest down."""
    order = np.argsort(-scores, kind="stable")
    hits = truth[order].astype(float)
    last = np.r_[np.flatnonzero(np.diff(scores[order])), len(hits) - 1]
    true = np.cumsum(hits)[last]
    return last + 1 - true, true


def _rounded(values: NDArray[Any]) -> list[float]:
    rounded: list[float] = np.round(values, _DIGITS).tolist()
    return rounded
