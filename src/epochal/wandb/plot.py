"""``wandb.plot``: tables with a chart, which the page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.exchange.imports.media import CHARTS
from epochal.exchange.media import types
from epochal.records import Record
from epochal.wandb.data_types import Table, WBValue

# By the name of a Vega specification: the chart, and the fields that are its x, y and color. A
# matrix has a value instead of a color. A specification of ``wandb.sklearn`` names its columns.
_CHARTS: Mapping[str, Sequence[str]] = {
    **{chart.split("/")[1]: (kind, *names.values()) for kind, chart, names in CHARTS},
    "calibration": ("line", "mean_predicted_value", "fraction_of_positives", "model"),
    "class_proportions": ("bar", "class", "count", "dataset"),
    "elbow": ("line", "cluster_ranges", "errors"),
    "feature_importances": ("bar", "feature_names", "importances"),
    "learning_curve": ("line", "train_size", "score", "dataset"),
    "metrics": ("bar", "metric_name", "metric_value"),
    "residuals_plot": ("scatter", "y_pred", "residuals", "dataset"),
}
_DIGITS = 3


@dataclass
class CustomChartSpec:
    """Which chart is drawn of which columns."""

    spec_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    string_fields: dict[str, Any] = field(default_factory=dict)


class CustomChart(WBValue, types.Sample):
    """A table, and how it is drawn; of a chart that is not known, the table alone."""

    def __init__(self, table: Table, spec: CustomChartSpec) -> None:
        super().__init__()
        self.table, self.spec = table, spec

    def record(self, keep: types.Keep) -> Record:
        """The table with its chart."""
        name = self.spec.spec_name.removeprefix("wandb/").partition("/")[0]
        kind, *parts = _CHARTS.get(name, ("",))
        axes = ("x", "y", "value" if kind == "matrix" else "color")
        columns = (self.spec.fields.get(part, part) for part in parts)
        chart = {axis: column for axis, column in zip(axes, columns, strict=False) if column}
        title = self.spec.string_fields.get("title") or None
        is_known = bool(chart) and set(chart.values()) <= set(self.table.columns)
        drawn = {"kind": kind, **chart, "title": title} if is_known else None
        return types.Table(self.table.data, self.table.columns, chart=drawn).record(keep)


def plot_table(
    vega_spec_name: str,
    data_table: Table,
    fields: Mapping[str, Any],
    string_fields: Mapping[str, Any] | None = None,
    split_table: bool = False,
) -> CustomChart:
    """A chart of a table, drawn by the specification of that name."""
    if not isinstance(data_table, Table):
        raise TypeError(f"Expected `data_table` to be `wandb.Table`, got {type(data_table)}.")
    spec = CustomChartSpec(vega_spec_name, dict(fields), dict(string_fields or {}))
    return CustomChart(data_table, spec)


def visualize(id: str, value: Table) -> CustomChart:  # noqa: A002 (W&B's name)
    """A chart of a table, drawn by the specification of that id."""
    return plot_table(id, value, {"nPredictions": "Count"})  # as wandb.sklearn names it


def line(
    table: Table,
    x: str,
    y: str,
    stroke: str | None = None,
    title: str = "",
    split_table: bool = False,
) -> CustomChart:
    """A line, or one for each value of the column ``stroke``."""
    fields = {"x": x, "y": y, "stroke": stroke}
    return plot_table("wandb/line/v0", table, fields, {"title": title})


def scatter(
    table: Table, x: str, y: str, title: str = "", split_table: bool = False
) -> CustomChart:
    """Points."""
    return plot_table("wandb/scatter/v0", table, {"x": x, "y": y}, {"title": title})


def bar(
    table: Table, label: str, value: str, title: str = "", split_table: bool = False
) -> CustomChart:
    """A bar for each row."""
    fields = {"label": label, "value": value}
    return plot_table("wandb/bar/v0", table, fields, {"title": title})


def histogram(table: Table, value: str, title: str = "", split_table: bool = False) -> CustomChart:
    """The distribution of a column."""
    return plot_table("wandb/histogram/v0", table, {"value": value}, {"title": title})


def line_series(
    xs: Iterable[Any],
    ys: Iterable[Iterable[Any]],
    keys: Iterable[str] | None = None,
    title: str = "",
    xname: str = "x",
    split_table: bool = False,
) -> CustomChart:
    """Several lines of given points; ``xs`` may be one list for all."""
    rows = [list(one) for one in ys]
    given = list(xs)
    is_shared = not given or isinstance(given[0], (str, bytes)) or not hasattr(given[0], "__iter__")
    columns = [given] * len(rows) if is_shared else [list(one) for one in given]
    if len(columns) != len(rows):
        raise ValueError(f"Number of x-series ({len(columns)}) must match y-series ({len(rows)}).")
    names = [f"line_{number}" for number in range(len(rows))] if keys is None else list(keys)
    if len(names) != len(rows):
        raise ValueError(f"Number of keys ({len(names)}) must match y-series ({len(rows)}).")
    data = [
        [x, name, y]
        for name, column, row in zip(names, columns, rows, strict=True)
        for x, y in zip(column, row, strict=False)
    ]
    table = Table(columns=[xname, "key", "value"], data=data)
    fields = {"step": xname, "lineKey": "key", "lineVal": "value"}
    return plot_table("wandb/lineseries/v0", table, fields, {"title": title})


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
        rows += _points(name, false / max(false[-1], 1), true / max(true[-1], 1))
    return _curve(rows, ["class", "fpr", "tpr"], title)


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
        rows += _points(name, wanted, found)
    return _curve(rows, ["class", "recall", "precision"], title)


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
    predicted, actual = guessed.tolist(), np.asarray(y_true).tolist()
    if len(predicted) != len(actual):
        raise ValueError("The number of predictions and true labels must be equal.")
    found: list[Any] = sorted({*predicted, *actual})
    if class_names is not None and len(found) > len(class_names):
        raise ValueError("The number of classes exceeds the number of class names.")
    if class_names is not None:
        found = list(range(len(class_names)))
    names = class_names or [f"Class_{number + 1}" for number in range(len(found))]
    counts = Counter(zip(actual, predicted, strict=True))
    rows = [
        [name, other, counts[one, two]]
        for one, name in zip(found, names, strict=True)
        for two, other in zip(found, names, strict=True)
    ]
    table = Table(columns=["Actual", "Predicted", "nPredictions"], data=rows)
    return plot_table("wandb/confusion_matrix/v1", table, {}, {"title": title})


def _curve(rows: list[list[Any]], columns: list[str], title: str) -> CustomChart | None:
    if not rows:
        return None
    fields = {"class": "class", "x": columns[1], "y": columns[2]}
    table = Table(columns=columns, data=rows)
    return plot_table("wandb/area-under-curve/v0", table, fields, {"title": title})


def _points(name: Any, xs: NDArray[Any], ys: NDArray[Any]) -> list[list[Any]]:
    pairs = zip(np.round(xs, _DIGITS).tolist(), np.round(ys, _DIGITS).tolist(), strict=True)
    return [[name, x, y] for x, y in pairs]


def _classes(
    y_true: Any, y_probas: Any, labels: list[str] | None, chosen: list[Any] | None
) -> Iterator[tuple[Any, NDArray[np.bool_], NDArray[Any]]]:
    """For each class its name, which samples are of it, and their scores."""
    if y_true is None or y_probas is None:
        return
    truth, scores = np.asarray(y_true), np.asarray(y_probas)
    for number, value in enumerate(np.unique(truth).tolist()):
        if chosen is None or value in list(chosen):
            name = labels[value] if labels is not None and isinstance(value, int) else value
            yield name, truth == value, scores[..., number] if scores.ndim > 1 else scores


def _counts(truth: NDArray[np.bool_], scores: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """False and true positives at each distinct threshold, from the highest down."""
    order = np.argsort(-scores, kind="stable")
    hits = truth[order].astype(float)
    last = np.r_[np.flatnonzero(np.diff(scores[order])), len(hits) - 1]
    true = np.cumsum(hits)[last]
    return last + 1 - true, true
