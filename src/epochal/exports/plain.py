"""Runs as lines of three words, ``step kind value``: what awk and gnuplot read.

    0 val 10.9876
    0 train 10.9871
    250 hellaswag 0.2463

The loss is ``train``, the evaluation's ``val``, the share of HellaSwag ``hellaswag``; every other
series goes by its name, with ``_`` for blanks. A value reads back as the number it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

import numpy as np

from epochal.exports.export import Rows, rows_of
from epochal.series.plain_kind import plain_kind, plain_word
from epochal.series.series import Series
from epochal.store.store import RunView

_BLOCK_STEPS = 4096


def write(runs: Sequence[RunView], out: TextIO, *, rows: Rows | None = None) -> None:
    """Write each run by step, or by epoch where it has only those; several are headed by name."""
    for run in runs:
        if len(runs) > 1:
            out.write(f"# run {plain_word(f'{run.info.project}/{run.info.name}')}\n")
        axis = rows or ("step" if _has_steps(run) else rows_of(run, None))
        roles = {metric.name: metric.role for metric in run.metrics() if metric.axis == axis}
        columns = [
            (plain_kind(series.name, role=roles[series.name]), series)
            for series in run.all_series(axis)
        ]
        out.writelines(_lines(columns))


def _has_steps(run: RunView) -> bool:
    return any(metric.axis == "step" and 0 in metric.ranks for metric in run.metrics())


def _lines(columns: Sequence[tuple[str, Series]]) -> Iterator[str]:
    """All points by step, of one step in the order of series; a block of steps at a time."""
    if not columns:
        return
    steps = np.unique(np.concatenate([series.steps for _, series in columns]))
    for start in range(0, steps.size, _BLOCK_STEPS):
        block = steps[start : start + _BLOCK_STEPS]
        points: list[tuple[int, int, float]] = []
        for order, (_, series) in enumerate(columns):
            low, high = np.searchsorted(series.steps, [block[0], block[-1] + 1])
            taken = zip(
                series.steps[low:high].tolist(), series.values[low:high].tolist(), strict=True
            )
            points += [(step, order, value) for step, value in taken]
        points.sort(key=lambda point: point[:2])
        for step, order, value in points:
            yield f"{step} {columns[order][0]} {value!r}\n"
