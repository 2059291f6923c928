"""Runs as a log for people: a line per epoch, or per step for a run that has no epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from epochal.atomic_file import new_text_file
from epochal.exports.epochs import EpochRow, epoch_rows, epochs_of
from epochal.exports.export import Rows, rows_of
from epochal.format import format_duration, format_number
from epochal.series.series import Series
from epochal.store.store import RunView

_HEADER = "# epochal training log"


def write(runs: Sequence[RunView], out: TextIO, *, rows: Rows | None = None) -> None:
    """Write the log of each run in turn; with several each is headed by its name."""
    out.write(f"{_HEADER}\n")
    for run in runs:
        if len(runs) > 1:
            out.write(f"# run: {_one_line(f'{run.info.project}/{run.info.name}')}\n")
        by_epoch = rows_of(run, rows) == "epoch"
        lines = _epoch_lines(epochs_of(run)) if by_epoch else _step_lines(run)
        out.writelines(f"{line}\n" for line in lines)


def write_epoch_log(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the log of ``epoch`` records that are at hand; the file appears when it is complete."""
    with new_text_file(path) as out:
        out.write(f"{_HEADER}\n")
        out.writelines(f"{line}\n" for line in _epoch_lines(epoch_rows(records)))


def _epoch_lines(rows: Iterable[EpochRow]) -> Iterator[str]:
    seconds = 0.0
    for row in rows:
        total = row.total
        place = f"{row.epoch:3d}" if total is None else f"{row.epoch:{len(str(total))}d}/{total}"
        seconds += row.duration_s or 0.0
        took = "" if row.duration_s is None else f"  [{format_duration(row.duration_s)}]"
        yield f"epoch {place}{_figures(row.metrics)}{took}"
    yield f"# total: {format_duration(seconds)}"


def _step_lines(run: RunView) -> Iterator[str]:
    columns = run.all_series("step")
    first, last = np.inf, -np.inf
    for step, figures in _figures_by_step(columns):
        yield f"step {step:>7}{_figures(figures)}"
    for series in columns:
        if len(series):
            first, last = min(first, series.times.min()), max(last, series.times.max())
    yield f"# total: {format_duration(float(max(last - first, 0.0)) if columns else 0.0)}"


def _figures_by_step(columns: Sequence[Series]) -> Iterator[tuple[int, dict[str, float]]]:
    if not columns:
        return
    next_of = [0] * len(columns)
    for step in np.unique(np.concatenate([series.steps for series in columns])).tolist():
        figures: dict[str, float] = {}
        for index, series in enumerate(columns):
            at = next_of[index]
            if at < len(series) and series.steps[at] == step:
                figures[series.name] = float(series.values[at])
                next_of[index] = at + 1
        yield step, figures


def _figures(metrics: Mapping[str, float]) -> str:
    return "".join(f"  {_one_line(k)}={format_number(v)}" for k, v in metrics.items())


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
