"""Reduces a long series to the width of a chart without losing an extreme.

Sampling or striding drops a spike of one step. Here every slice of the axis keeps its exact first,
last, smallest and largest point, and the mean of all its points. A range with no more points than
pixels is returned unchanged.
"""

import itertools
import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Steps = NDArray[Any]  # whole steps, or seconds
Values = NDArray[np.float64]
Positions = NDArray[np.intp]
_POINTS_AT_ONCE = 1 << 18


class Buckets(msgspec.Struct, frozen=True, eq=False):
    """The non-empty slices of a range, in order; all arrays but the last two have one entry each.

    `start` and `last_index` are positions in the range: of the first point of a slice, and of the
    one that `last` is.

    `first`, `last`, `min`, `max` and `mean` are over the finite points of a slice, the first four
    with their steps; a slice without one has nan there, at the steps of its first and last point.
    With `raw`, every slice is one point of the series, unchanged.
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
    for name, bound in (("lo", lo), ("hi", hi)):
        if bound is not None and not math.isfinite(bound):
            raise ValueError(f"{name} must be None or a finite number, got {bound!r}")
    if lo is not None and hi is not None and lo > hi:
        raise ValueError(f"lo must not be above hi, got {lo!r} and {hi!r}")
    at, points = np.asarray(steps), np.asarray(values, dtype=np.float64)
    assert points.ndim == 1
    assert at.shape == points.shape
    assert bool(np.all(at[:-1] <= at[1:])), "steps must ascend"
    start = 0 if lo is None else int(np.searchsorted(at, lo, side="left"))
    stop = at.size if hi is None else int(np.searchsorted(at, hi, side="right"))
    at, points = at[start:stop], points[start:stop]
    if at.size <= pixels:
        return _raw(at, points)
    first, last = float(at[0] if lo is None else lo), float(at[-1] if hi is None else hi)
    if is_log and at[-1] > 0:
        edges = _log_edges(at, first, last, pixels)
    else:
        edges = np.linspace(first, last, pixels + 1)
    return _sliced(at, points, starts=_starts(at, edges))


def _log_edges(at: Steps, first: float, last: float, pixels: int) -> Values:
    positive = float(at[np.searchsorted(at, 0, side="right")])
    if first > 0:
        return np.geomspace(first, last, pixels + 1)
    return np.append(min(first, float(at[0])), np.geomspace(positive, last, pixels))


def _raw(steps: Steps, values: Values) -> Buckets:
    strange = ~np.isfinite(values)
    return Buckets(
        raw=True,
        first=values,
        first_step=steps,
        last=values,
        last_step=steps,
        min=values,
        min_step=steps,
        max=values,
        max_step=steps,
        mean=values,
        count=np.ones(values.size, dtype=np.intp),
        start=np.arange(values.size),
        last_index=np.arange(values.size),
        nonfinite=strange.astype(np.intp),
        nonfinite_steps=steps[strange],
        nonfinite_values=values[strange],
    )


def _starts(steps: Steps, edges: Values) -> Positions:
    """Return the position of the first point of every slice that has one."""
    if np.issubdtype(steps.dtype, np.integer):
        # The same cut in whole numbers, which spares a converted copy of all steps.
        edges = np.ceil(np.clip(edges, steps[0], float(steps[-1]) + 1)).astype(np.int64)
    starts = np.searchsorted(steps, edges[:-1], side="left")
    return starts[np.diff(starts, append=steps.size) > 0]


def _sliced(steps: Steps, values: Values, *, starts: Positions) -> Buckets:
    count = np.diff(starts, append=values.size)
    strange = np.flatnonzero(~np.isfinite(values))
    nonfinite = np.bincount(
        np.searchsorted(starts, strange, side="right") - 1, minlength=starts.size
    )
    known, summed, first, last = values, values, starts, starts + count - 1
    if strange.size:
        known, summed = values.copy(), values.copy()
        known[strange], summed[strange] = np.nan, 0.0
        first, last = _ends(known, starts=starts, count=count, filled=nonfinite < count)
    least = _extremes(np.fmin, known, starts=starts, count=count)
    most = _extremes(np.fmax, known, starts=starts, count=count)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.add.reduceat(summed, starts) / (count - nonfinite)
    return Buckets(
        raw=False,
        first=known[first],
        first_step=steps[first],
        last=known[last],
        last_step=steps[last],
        min=known[least],
        min_step=steps[least],
        max=known[most],
        max_step=steps[most],
        # Rounding may bring it just above the largest value or below the smallest.
        mean=mean.clip(known[least], known[most]),
        count=count,
        start=starts,
        last_index=last,
        nonfinite=nonfinite,
        nonfinite_steps=steps[strange],
        nonfinite_values=values[strange],
    )


def _ends(
    known: Values, *, starts: Positions, count: Positions, filled: NDArray[np.bool_]
) -> tuple[Positions, Positions]:
    """Return the positions of each slice's first and last value that is not nan."""
    first, last = starts.copy(), starts + count - 1
    at = np.flatnonzero(~np.isnan(known))
    first[filled] = at[np.searchsorted(at, first[filled], side="left")]
    last[filled] = at[np.searchsorted(at, last[filled], side="right") - 1]
    return first, last


def _extremes(choose: np.ufunc, known: Values, *, starts: Positions, count: Positions) -> Positions:
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
