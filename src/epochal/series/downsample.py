"""Reduces a long series to the width of a chart without losing an extreme, or to one line.

Sampling or striding drops a spike of one step. Here every slice of the axis keeps its exact first,
last, smallest and largest point, and the mean of all its points. A range with no more points than
pixels is returned unchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.series.summary import Summary

Steps = NDArray[Any]  # whole steps, or seconds
Values = NDArray[np.float64]
Positions = NDArray[np.intp]
# Rows with named fields, such as those of ``block_rows``.
Table = NDArray[Any]
_STEPS = ("first_step", "last_step", "min_step", "max_step")
_VALUES = ("first", "last", "min", "max", "mean")
_COUNTS = ("count", "nonfinite", "after")
_POINTS_AT_ONCE = 1 << 18


class Buckets(msgspec.Struct, frozen=True, eq=False):
    """The non-empty slices of a range, in order; all arrays but the last two have one entry each.

    `start` and `last_index` are positions in the range: of the first point of a slice, and of the
    one that `last` is.

    `first`, `last`, `min`, `max` and `mean` are over the finite points of a slice, the first four
    with their steps; a slice without one has nan there, at the steps of its first and last point.
    With `raw`, every slice is one point of the series, unchanged.

    `nonfinite_steps` and `nonfinite_values` have every point that is not finite. Of slices that
    were made from blocks, they have the first nan and the first infinities of each block.
    """

    raw: bool
    first: Values
    first_step: Steps
    last: Values
    last_step: Steps
    min: Values
    min_step: Steps
    max: Values
    max_step: Steps
    mean: Values
    count: Positions
    start: Positions
    last_index: Positions
    nonfinite: Positions
    nonfinite_steps: Steps
    nonfinite_values: Values

    def __len__(self) -> int:
        return self.count.size

    @property
    def finite(self) -> Positions:
        """How many finite points each slice has."""
        return self.count - self.nonfinite


def buckets(
    steps: ArrayLike,
    values: ArrayLike,
    *,
    pixels: int,
    lo: float | None = None,
    hi: float | None = None,
    is_log: bool = False,
) -> Buckets:
    """Cut the points with lo <= step <= hi into at most `pixels` equal slices of the step axis.

    `lo` and `hi` default to the first and the last step. `steps` must ascend; equal ones may occur.
    With `is_log` the slices are equally wide on a logarithmic axis; the points at or below 0, which
    it cannot show, are one slice.
    """
    if pixels < 1:
        raise ValueError(f"pixels must be at least 1, got {pixels}")
    bounds = [bound for bound in (lo, hi) if bound is not None]
    if not all(map(math.isfinite, bounds)) or bounds != sorted(bounds):
        raise ValueError(f"lo and hi must be finite, and lo not above hi; got {lo!r} and {hi!r}")
    at, points = np.asarray(steps), np.asarray(values, dtype=np.float64)
    assert bool(np.all(at[:-1] <= at[1:])), "steps must ascend"
    start = 0 if lo is None else int(np.searchsorted(at, lo, side="left"))
    stop = at.size if hi is None else int(np.searchsorted(at, hi, side="right"))
    at, points = at[start:stop], points[start:stop]
    if at.size <= pixels:
        return _raw(at, points)
    first, last = float(at[0] if lo is None else lo), float(at[-1] if hi is None else hi)
    edges = np.linspace(first, last, pixels + 1)
    if is_log and first > 0:
        edges = np.geomspace(first, last, pixels + 1)
    elif is_log and at[-1] > 0:
        positive = float(at[np.searchsorted(at, 0, side="right")])
        edges = np.append(min(first, float(at[0])), np.geomspace(positive, last, pixels))
    if np.issubdtype(at.dtype, np.integer):
        # The same cut in whole numbers, which spares a converted copy of all steps.
        edges = np.ceil(np.clip(edges, at[0], float(at[-1]) + 1)).astype(np.int64)
    starts = np.searchsorted(at, edges[:-1], side="left")
    return _sliced(at, points, starts=starts[np.diff(starts, append=at.size) > 0])


def block_rows(steps: Steps, values: Values, *, size: int) -> tuple[Table, Table]:
    """Return one row for each block of so many points, and the marks of the blocks.

    A row has the slice that the block is, the steps `begin` and `end` of its first and last point,
    and `after`, the number of points after its last finite one. A mark is the first nan, or the
    first infinity of a sign, of a block.
    """
    starts = np.arange(0, values.size, size)
    slices = _sliced(steps, values, starts=starts)
    rows = np.zeros(starts.size, dtype=block_type(steps.dtype))
    rows["begin"], rows["end"] = steps[starts], steps[starts + slices.count - 1]
    rows["after"] = starts + slices.count - 1 - slices.last_index
    for name in (*_STEPS, *_VALUES, "count", "nonfinite"):
        rows[name] = getattr(slices, name)
    strange = np.flatnonzero(~np.isfinite(values))
    kinds = np.nan_to_num(values[strange], nan=0.0, posinf=1.0, neginf=2.0).astype(np.intp)
    chosen = strange[np.sort(np.unique(strange // size * 3 + kinds, return_index=True)[1])]
    marks = np.zeros(chosen.size, dtype=mark_type(steps.dtype))
    marks["step"], marks["value"] = steps[chosen], values[chosen]
    return rows, marks


def block_type(steps: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a row of blocks; every field has 8 bytes, as its steps have."""
    kinds: dict[str, Any] = dict.fromkeys(("begin", "end", *_STEPS), steps)
    kinds |= dict.fromkeys(_VALUES, np.float64) | dict.fromkeys(_COUNTS, np.int64)
    return np.dtype(list(kinds.items()))


def mark_type(steps: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the marks of such blocks."""
    return np.dtype([("step", steps), ("value", np.float64)])


def join_blocks(rows: Table, marks: Table, *, starts: Positions) -> Buckets:
    """Make slices of neighbouring blocks; each has those from one start to the next."""
    count, number = rows["count"], rows["count"] - rows["nonfinite"]
    width = np.diff(starts, append=len(rows))
    first, last = _ends(number > 0, starts, width)
    least = _extremes(np.fmin, np.ascontiguousarray(rows["min"]), starts, width)
    most = _extremes(np.fmax, np.ascontiguousarray(rows["max"]), starts, width)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.add.reduceat(np.where(number > 0, rows["mean"], 0.0) * number, starts)
        mean = total / np.add.reduceat(number, starts)
    low, high = rows["min"][least], rows["max"][most]
    return Buckets(
        raw=False,
        first=rows["first"][first],
        first_step=rows["first_step"][first],
        last=rows["last"][last],
        last_step=rows["last_step"][last],
        min=low,
        min_step=rows["min_step"][least],
        max=high,
        max_step=rows["max_step"][most],
        mean=mean.clip(low, high),
        count=np.add.reduceat(count, starts),
        start=(count.cumsum() - count)[starts],
        last_index=(count.cumsum() - 1 - rows["after"])[last],
        nonfinite=np.add.reduceat(rows["nonfinite"], starts),
        nonfinite_steps=marks["step"],
        nonfinite_values=marks["value"],
    )


def _raw(steps: Steps, values: Values) -> Buckets:
    every = np.arange(values.size)
    return _at(steps, values, values, [every] * 4, start=every, mean=values, raw=True)


def _sliced(steps: Steps, values: Values, *, starts: Positions) -> Buckets:
    count = np.diff(starts, append=values.size)
    finite = np.isfinite(values)
    known, summed, num_finite = values, values, count
    if not finite.all():
        known, summed = np.where(finite, values, np.nan), np.where(finite, values, 0.0)
        num_finite = np.add.reduceat(finite, starts, dtype=np.intp)
    first, last = _ends(finite, starts, count)
    least, most = (_extremes(choose, known, starts, count) for choose in (np.fmin, np.fmax))
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.add.reduceat(summed, starts) / num_finite
    # Rounding may bring it just above the largest value or below the smallest.
    mean = mean.clip(known[least], known[most])
    return _at(steps, values, known, [first, last, least, most], start=starts, mean=mean)


def _at(
    steps: Steps,
    values: Values,
    known: Values,
    chosen: Sequence[Positions],
    *,
    start: Positions,
    mean: Values,
    raw: bool = False,
) -> Buckets:
    """The slices from the positions of their first, last, smallest and largest points."""
    first, last, least, most = chosen
    strange = np.flatnonzero(~np.isfinite(values))
    inside = np.searchsorted(start, strange, side="right") - 1
    return Buckets(
        raw=raw,
        first=known[first],
        first_step=steps[first],
        last=known[last],
        last_step=steps[last],
        min=known[least],
        min_step=steps[least],
        max=known[most],
        max_step=steps[most],
        mean=mean,
        count=np.diff(start, append=values.size),
        start=start,
        last_index=last,
        nonfinite=np.bincount(inside, minlength=start.size),
        nonfinite_steps=steps[strange],
        nonfinite_values=values[strange],
    )


def _ends(
    finite: NDArray[np.bool_], starts: Positions, count: Positions
) -> tuple[Positions, Positions]:
    """Return each slice's first and last finite position; its ends if it has none."""
    first, last = starts, starts + count - 1
    if not finite.all():
        filled, at = np.add.reduceat(finite, starts, dtype=np.intp) > 0, np.flatnonzero(finite)
        first = starts.copy()
        first[filled] = at[np.searchsorted(at, first[filled], side="left")]
        last[filled] = at[np.searchsorted(at, last[filled], side="right") - 1]
    return first, last


def _extremes(choose: np.ufunc, known: Values, starts: Positions, count: Positions) -> Positions:
    """Return each slice's extreme position, the first of equals; its start if it is all nan."""
    extremes: Values = choose.reduceat(known, starts)
    positions: Positions = starts.copy()
    # Some slices at a time: for all of them it would take as much memory as the points.
    bounds = np.searchsorted(starts, np.arange(0, known.size, _POINTS_AT_ONCE)).tolist()
    for lo, hi in itertools.pairwise(dict.fromkeys([*bounds, starts.size])):
        begin, end = starts[lo], starts[hi - 1] + count[hi - 1]
        some = np.repeat(extremes[lo:hi], count[lo:hi])
        hits = begin + np.flatnonzero(known[begin:end] == some)
        filled = lo + np.flatnonzero(~np.isnan(extremes[lo:hi]))
        positions[filled] = hits[np.searchsorted(hits, starts[filled])]
    return positions


def summarise(steps: ArrayLike, values: ArrayLike) -> Summary:
    """Summarise one series given in the order of its points; steps keep their own number type."""
    points, at = np.asarray(values, dtype=np.float64), np.asarray(steps)
    assert at.shape == points.shape
    if not points.size:
        return Summary(0, 0)
    finite = np.isfinite(points)
    known, known_at = points[finite], at[finite]
    ends = (points[0].item(), points[-1].item(), at[-1].item())
    if not known.size:
        return Summary(points.size, points.size, *ends)
    low, high = known.argmin(), known.argmax()
    lowest = (known[low].item(), known_at[low].item())
    highest = (known[high].item(), known_at[high].item())
    with np.errstate(over="ignore"):
        mean = float(known.mean())
    # Dividing first cannot overflow, but rounds every term.
    mean = mean if math.isfinite(mean) else float((known / known.size).sum())
    return Summary(points.size, points.size - known.size, *ends, *lowest, *highest, mean)


def summarise_rows(steps: ArrayLike, rows: NDArray[np.float64]) -> list[Summary]:
    """Summarise many series over the same steps, each a row of values; as ``summarise`` does."""
    at = np.asarray(steps)
    with np.errstate(over="ignore", invalid="ignore"):
        means = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), np.nan)
    # A value that is not finite makes the mean so; a sum that overflows does too.
    if not np.isfinite(means).all():
        return [summarise(at, row) for row in rows]
    low, high, which = rows.argmin(axis=1), rows.argmax(axis=1), np.arange(len(rows))
    columns = (rows[which, low], at[low], rows[which, high], at[high], means)
    count, last_step = rows.shape[1], at[-1].item()
    return [
        Summary(count, 0, first, last, last_step, *rest)
        for first, last, *rest in zip(
            rows[:, 0].tolist(), rows[:, -1].tolist(), *(c.tolist() for c in columns), strict=True
        )
    ]
