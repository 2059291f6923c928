"""Runs as CSV: a row per epoch with its resources, or a row per step with every metric.

Epochs can also be written as a log for people, one line per epoch.

Numbers are written so that reading them gives the same number back; a missing one is an empty cell,
nan and infinities are ``nan``, ``inf``, ``-inf``. Lines end with a single newline.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from epochal.base.atomic_file import new_text_file
from epochal.errors import MetricNotFoundError
from epochal.exports.export import Rows, rows_of
from epochal.records import finite
from epochal.records.format import format_duration, format_number
from epochal.series.series import Series
from epochal.store.brief import find_metric
from epochal.store.metrics import by_importance, matching
from epochal.store.run import RunView

# Column, and the field of an epoch's resources that fills it.
RESOURCES = {
    "cpu_pct": "cpu_pct",
    "ram_used": "ram_used",
    "gpu_pct": "gpu_pct",
    "vram_alloc": "vram_allocated_bytes",
    "vram_spill": "vram_spill",
}
_BLOCK_STEPS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One epoch; ``epoch`` counts completed ones, ``duration_s`` in seconds, None where unknown."""

    epoch: int
    total: int | None = None
    duration_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)


def epochs_of(run: RunView) -> Iterator[EpochRow]:
    """The epochs of a run, in order, later attempts over earlier ones."""
    return epoch_rows(entry.record for entry in run.entries("epoch"))


def epoch_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[EpochRow]:
    """The rows of ``epoch`` records as a run writes them."""
    for record in records:
        words = record.get("nonfinite") or {}
        metrics = {
            name: float(words[name]) if value is None and name in words else value
            for name, value in (record.get("m") or {}).items()
        }
        yield EpochRow(
            epoch=record["epoch"],
            total=record.get("total"),
            duration_s=finite(record.get("duration_s")),
            metrics={name: value for name, value in metrics.items() if value is not None},
            resources={k: v for k, v in (record.get("resources") or {}).items() if v is not None},
        )


def write(
    runs: Sequence[RunView],
    out: TextIO,
    *,
    rows: Rows | None = None,
    names: Sequence[str] = (),
    **_: Any,
) -> None:
    """Write one table; with several runs its first column names the run."""
    kind = rows_of(runs[0], rows, names) if runs else "epoch"
    table = csv.writer(out, lineterminator="\n")
    named = len(runs) > 1
    if kind == "epoch":
        _write_epochs(table, [(run_name(run), list(epochs_of(run))) for run in runs], named=named)
    else:
        _write_steps(table, runs, names, named=named)


def write_epoch_table(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a table of ``epoch`` records at hand; the file appears when it is complete."""
    with new_text_file(path) as out:
        _write_epochs(csv.writer(out, lineterminator="\n"), [("", list(epoch_rows(records)))])


def write_epoch_log(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a line for each of some ``epoch`` records; the file appears when it is complete."""
    seconds = 0.0
    with new_text_file(path) as out:
        out.write("# epochal training log\n")
        for row in epoch_rows(records):
            total = row.total
            at = f"{row.epoch:3d}" if total is None else f"{row.epoch:{len(str(total))}d}/{total}"
            seconds += row.duration_s or 0.0
            took = "" if row.duration_s is None else f"  [{format_duration(row.duration_s)}]"
            metrics = (f"  {_one_line(k)}={format_number(v)}" for k, v in row.metrics.items())
            out.write(f"epoch {at}{''.join(metrics)}{took}\n")
        out.write(f"# total: {format_duration(seconds)}\n")


def _one_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _write_epochs(
    table: Any, runs: Sequence[tuple[str, list[EpochRow]]], *, named: bool = False
) -> None:
    metrics = list(dict.fromkeys(m for _, rows in runs for row in rows for m in row.metrics))
    table.writerow([*_first(named, "run"), "epoch", "duration_s", *metrics, *RESOURCES])
    for name, rows in runs:
        for row in rows:
            table.writerow(
                [
                    *_first(named, name),
                    row.epoch,
                    _cell(row.duration_s),
                    *(_cell(row.metrics.get(metric)) for metric in metrics),
                    *(_cell(row.resources.get(field)) for field in RESOURCES.values()),
                ]
            )


def _write_steps(
    table: Any, runs: Sequence[RunView], chosen: Sequence[str], *, named: bool
) -> None:
    columns, names = step_columns(runs, chosen)
    table.writerow([*_first(named, "run"), "step", "t", *names])
    for run in runs:
        first = _first(named, run_name(run))
        rows = _step_rows(columns[id(run)], names)
        table.writerows(((*first, *row) for row in rows) if first else rows)


def step_columns(
    runs: Sequence[RunView], chosen: Sequence[str] = ()
) -> tuple[Mapping[int, Sequence[Series]], list[str]]:
    """The series of each run by its ``id()``, and the names of all of them in order.

    They are all series of steps, or those that are chosen by name, pattern or formula. Raises
    ``MetricNotFoundError`` for a name that no run has.
    """
    if chosen:
        return _chosen_columns(runs, chosen)
    columns = {id(run): run.all_series("step") for run in runs}
    metrics = by_importance(metric for run in runs for metric in run.metrics())
    exported = {series.name for found in columns.values() for series in found}
    names = [name for name in dict.fromkeys(m.name for m in metrics) if name in exported]
    return columns, names


def _chosen_columns(
    runs: Sequence[RunView], chosen: Sequence[str]
) -> tuple[Mapping[int, Sequence[Series]], list[str]]:
    columns: dict[int, dict[str, Series]] = {id(run): {} for run in runs}
    names: dict[str, None] = {}
    for text in chosen:
        mistakes = []
        for run in runs:
            try:
                for name in matching(text, run.metrics()) or (text,):
                    series = run.series(find_metric(run, name, "step").name, axis="step")
                    columns[id(run)][series.name] = series
                    names[series.name] = None
            except MetricNotFoundError as error:
                mistakes.append(error)
        if len(mistakes) == len(runs):
            raise mistakes[0]
    return {run: list(found.values()) for run, found in columns.items()}, list(names)


def _step_rows(columns: Sequence[Series], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Rows in blocks of steps: columns of numbers become text only as they are written."""
    if not columns:
        return
    # Series that were logged together share their steps and times: these are looked at once.
    together = {(id(series.steps), id(series.times)): series for series in columns}
    steps = np.unique(np.concatenate([series.steps for series in together.values()]))
    for start in range(0, steps.size, _BLOCK_STEPS):
        block = steps[start : start + _BLOCK_STEPS]
        # The time of a step is the latest at which anything was logged for it.
        times = np.full(block.size, -np.inf)
        places: dict[int, tuple[int, int, list[int]]] = {}
        for series in together.values():
            low, high = np.searchsorted(series.steps, [block[0], block[-1] + 1]).tolist()
            rows = np.searchsorted(block, series.steps[low:high])
            np.fmax.at(times, rows, series.times[low:high])
            places[id(series.steps)] = (low, high, rows.tolist())
        cells: dict[str, list[str]] = {}
        for series in columns:
            low, high, at = places[id(series.steps)]
            texts = list(map(repr, series.values[low:high].tolist()))
            if len(at) < block.size:
                spread = dict(zip(at, texts, strict=True))
                texts = [spread.get(row, "") for row in range(block.size)]
            cells[series.name] = texts
        blank = [""] * block.size
        filled = [cells.get(name, blank) for name in names]
        moments = [repr(t) if math.isfinite(t) else "" for t in times.tolist()]
        yield from zip(block.tolist(), moments, *filled, strict=True)


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else repr(value)


def _first(named: bool, text: str) -> tuple[str, ...]:
    return (text,) if named else ()


def run_name(run: RunView) -> str:
    """What a table calls a run."""
    info = run.info
    return f"{info.project}/{info.name}"
