"""Runs as one Parquet table: the rows and columns of the CSV table, with types.

The first column, ``run``, is there for a single run as well, so that several files can be read as
one table. ``step`` and ``epoch`` are integers, ``t`` is in Unix seconds, metrics are floats. A
missing value is null, while nan stays nan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epochal.exports.export import Rows, rows_of
from epochal.exports.table import RESOURCES, epochs_of, run_name, step_columns
from epochal.series.series import Series
from epochal.store.run import RunView


def write(
    runs: Sequence[RunView],
    out: BinaryIO,
    *,
    rows: Rows | None = None,
    names: Sequence[str] = (),
    **_: Any,
) -> None:
    """Write one table of all runs."""
    if runs and rows_of(runs[0], rows, names) == "step":
        columns, names = step_columns(runs, names)
        tables = [_named(run, _step_table(columns[id(run)])) for run in runs]
        order = ["run", "step", "t", *_free(names, ("run", "step", "t")).values()]
    else:
        tables = [_named(run, _epoch_table(run)) for run in runs]
        found = dict.fromkeys(name for table in tables for name in table.column_names)
        order = [*(name for name in found if name not in RESOURCES), *RESOURCES]
    buffer = pa.BufferOutputStream()  # a pipe cannot say how much was written
    if tables:
        pq.write_table(pa.concat_tables(tables, promote_options="permissive").select(order), buffer)
    out.write(buffer.getvalue())


def _named(run: RunView, table: Any) -> Any:
    names = pa.repeat(pa.scalar(run_name(run)), table.num_rows)
    return table.add_column(0, "run", names)


def _step_table(columns: Sequence[Series]) -> Any:
    none = np.zeros(0, dtype=np.int64)
    steps = np.unique(np.concatenate([none, *(series.steps for series in columns)]))
    # The time of a step is the latest at which anything was logged for it.
    times = np.full(steps.size, -np.inf)
    found: dict[str, Any] = {}
    for series in columns:
        rows = np.searchsorted(steps, series.steps)
        np.fmax.at(times, rows, series.times)
        values, is_missing = np.zeros(steps.size, series.values.dtype), np.ones(steps.size, bool)
        values[rows], is_missing[rows] = series.values, False
        found[series.name] = pa.array(values, mask=is_missing)
    own = {"step": pa.array(steps), "t": pa.array(times, mask=~np.isfinite(times))}
    names = _free(found, ("run", *own))
    return pa.table({**own, **{names[name]: column for name, column in found.items()}})


def _epoch_table(run: RunView) -> Any:
    rows = list(epochs_of(run))
    own = {
        "epoch": pa.array([row.epoch for row in rows], pa.int64()),
        "duration_s": _floats(row.duration_s for row in rows),
    }
    resources = {
        name: _floats(row.resources.get(field) for row in rows) for name, field in RESOURCES.items()
    }
    metrics = dict.fromkeys(name for row in rows for name in row.metrics)
    columns = {
        column: _floats(row.metrics.get(name) for row in rows)
        for name, column in _free(metrics, ("run", *own, *resources)).items()
    }
    return pa.table({**own, **columns, **resources})


def _free(names: Iterable[str], taken: Sequence[str]) -> Mapping[str, str]:
    """The column of each metric: its name, unless a column of ours has that name."""
    return {name: f"metric {name}" if name in taken else name for name in names}


def _floats(values: Iterable[float | None]) -> Any:
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
