"""The series of an archive: every point where they fit, else as many slices as fit.

A long series keeps the mean, the smallest, largest and last value of each slice, and moving
averages.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError
from epochal.query.formula import is_formula
from epochal.series.series import Series
from epochal.series.smooth import Smoothing
from epochal.server.series import SLICE_COLUMNS, SeriesBlock, Slicing, series_block, series_body
from epochal.server.wire import Knots, XKind
from epochal.store.store import RunView

Floats = NDArray[np.float64]

# Beyond this many series only the lowest rank of each is kept.
MAX_SERIES = 4000
MAX_KNOTS = 2000
# A point is 24 bytes; nothing that training logs is compressed to less than a tenth.
_MAX_COMPRESSION = 10
# A slice is 96 bytes before compression and about so many as base64 after it.
_SLICE_TEXT_BYTES = 80
_MIN_PIXELS = 8
_MAX_ATTEMPTS = 8
_MIN_FILL = 0.85
_TARGET_FILL = 0.94
_MANTISSA = float(1 << 20)
# Moving averages that are kept for each slice. The page makes those of other weights from them, to
# within about a hundredth of the noise.
SMOOTHED_WEIGHTS = (1 / 3, 2 / 3, 7 / 8, 29 / 30, 109 / 110)
# Higher levels take several times as long for less than one percent.
_LEVEL = 4


# One series of a run, by the id of the run.
Line = tuple[str, Series]


def lines_of(run: RunView, *, all_ranks: bool, names: Sequence[str] = ()) -> Iterator[Line]:
    """Every series of a run on its own axis, or on the one that was defined for it.

    ``names`` may have formulas: their results are there as well, where the run has the metrics.
    """
    metrics = list(run.metrics())
    known = {metric.name for metric in metrics}
    asked = (run.metric(name) for name in dict.fromkeys(names) if name not in known)
    formulas = [one for one in asked if one is not None and one.name in names]
    for metric in (*metrics, *formulas):
        for rank in metric.ranks if all_ranks else metric.ranks[:1]:
            try:
                series = run.series(metric.name, rank=rank, axis=metric.axis)
            except MetricNotFoundError:  # a formula with an axis that the run did not record
                continue
            yield run.info.id, series.reindex(metric.x or "step", run)


def failed_formulas(runs: Sequence[RunView], names: Sequence[str]) -> dict[str, str]:
    """Formulas that have a result for none of the runs, and why."""
    found: dict[str, str] = {}
    for name in filter(is_formula, dict.fromkeys(names)):
        for run in runs:
            try:
                run.series(name)
            except MetricNotFoundError as error:
                found.setdefault(name, str(error))
            else:
                found.pop(name, None)
                break
    return found


def pack_series(lines: Sequence[Line], *, budget_bytes: int) -> list[str]:
    """Series bodies in base64, one per run: exact where they fit, else downsampled."""
    points = sum(len(series) for _, series in lines)
    if points * 24 < budget_bytes * _MAX_COMPRESSION:
        bodies = _bodies(lines, pixels=0)
        if sum(map(len, bodies)) <= budget_bytes:
            return bodies
    longest = max((len(series) for _, series in lines), default=0)
    pixels = budget_bytes // (_SLICE_TEXT_BYTES * max(len(lines), 1))
    best: list[str] | None = None
    tried: set[int] = set()
    for _ in range(_MAX_ATTEMPTS):
        pixels = max(_MIN_PIXELS, min(pixels, longest))
        if pixels in tried:
            break
        tried.add(pixels)
        bodies = _bodies(lines, pixels=pixels)
        size = sum(map(len, bodies))
        fits = size <= budget_bytes
        if best is None or fits:
            best = bodies
        if fits and size >= _MIN_FILL * budget_bytes:
            break
        pixels = int(pixels * max(0.2, min(4.0, _TARGET_FILL * budget_bytes / max(size, 1))))
    return best or []


def knots_of(run: RunView) -> dict[XKind, Knots]:
    """Knots that convert steps to the other axes by linear interpolation."""
    longest: Series | None = None
    for metric in run.metrics():
        if metric.axis == "step" and 0 in metric.ranks:
            try:
                series = run.series(metric.name, axis="step")
            except MetricNotFoundError:
                continue
            if longest is None or series.steps.size > longest.steps.size:
                longest = series
    if longest is None or longest.steps.size == 0:
        return {}
    found: dict[XKind, Knots] = {}
    kinds: tuple[XKind, ...] = ("wall", "epoch", "tokens")
    for kind in kinds:
        moved = longest.reindex(kind, run)
        # Points without x were dropped: then steps and x no longer correspond.
        if moved.x == kind and len(moved) == len(longest):
            found[kind] = _thinned(longest.steps.astype(np.float64), moved.at.astype(np.float64))
    return found


def _bodies(lines: Sequence[Line], *, pixels: int) -> list[str]:
    by_run: dict[str, list[SeriesBlock]] = {}
    for run_id, series in lines:
        by_run.setdefault(run_id, []).append(_block(run_id, series, pixels=pixels))
    return [
        base64.b64encode(
            gzip.compress(series_body(blocks, missing=(), positions={}), _LEVEL, mtime=0)
        ).decode()
        for blocks in by_run.values()
    ]


def _block(run_id: str, series: Series, *, pixels: int) -> SeriesBlock:
    block = series_block(run_id, series, Slicing(pixels))
    if block.head.raw:
        return block
    last = series.buckets(pixels).last_index
    averages = {
        str(one): _rounded(series.smoothed(one).floats[last])
        for one in (Smoothing("ema", weight) for weight in SMOOTHED_WEIGHTS)
    }
    columns = list(block.columns)
    mean = SLICE_COLUMNS.index("mean")
    columns[mean] = _rounded(columns[mean])
    head = msgspec.structs.replace(block.head, columns=list(averages))
    return SeriesBlock(head, [*columns, *averages.values()])


def _rounded(values: Floats) -> Floats:
    """Values to six digits, which compress to half of their size."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * _MANTISSA) / _MANTISSA, exponent)


def _thinned(steps: Floats, at: Floats) -> Knots:
    chosen = np.unique(np.linspace(0, steps.size - 1, min(steps.size, MAX_KNOTS)).round())
    which = chosen.astype(np.int64)
    return Knots(step=steps[which].tolist(), at=at[which].tolist())
