"""Charts of the columns of a table: lines, points, bars, a distribution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from epochal.wandb.data_types.table import Table
from epochal.wandb.plot.custom_chart import CustomChart, plot_table


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
    return plot_table("wandb/line/v0", table, fields, {"title": title}, split_table)


def scatter(
    table: Table, x: str, y: str, title: str = "", split_table: bool = False
) -> CustomChart:
    """Points."""
    return plot_table("wandb/scatter/v0", table, {"x": x, "y": y}, {"title": title}, split_table)


def bar(
    table: Table, label: str, value: str, title: str = "", split_table: bool = False
) -> CustomChart:
    """A bar for each row."""
    fields = {"label": label, "value": value}
    return plot_table("wandb/bar/v0", table, fields, {"title": title}, split_table)


def histogram(table: Table, value: str, title: str = "", split_table: bool = False) -> CustomChart:
    """The distribution of a column."""
    fields = {"value": value}
    return plot_table("wandb/histogram/v0", table, fields, {"title": title}, split_table)


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
    table = Table(columns=["step", "lineKey", "lineVal"], data=data)
    fields = {"step": "step", "lineKey": "lineKey", "lineVal": "lineVal"}
    texts = {"title": title, "xname": xname}
    return plot_table("wandb/lineseries/v0", table, fields, texts, split_table)
