"""Puts series along what they are asked over: steps, epochs, tokens, clock time, time since start.

A series that cannot be put there comes along its own axis, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError, UsageError
from epochal.series.downsample import Buckets, buckets
from epochal.store.answers import Series
from epochal.store.store import RunView

X = Literal["step", "epoch", "tokens", "wall", "relative"]
Floats = NDArray[np.float64]

# The series that tell what a step is in epochs and in tokens.
EPOCH_OF_STEP = "train/epoch"
TOKENS_OF_STEP = "train/step_tokens"
_OWN: dict[str, X] = {"step": "step", "epoch": "epoch", "time": "wall"}


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A series' points in the order of ``at``, which is finite; ``x`` is what it counts.

    ``values`` are floats for drawing, ``numbers`` the values as they were logged.
    """

    series: Series
    x: X
    at: NDArray[np.float64] | NDArray[np.int64]
    steps: NDArray[np.int64]
    values: Floats
    times: Floats
    numbers: NDArray[Any]

    def taken(self, which: NDArray[Any]) -> Placed:
        """Some of the points, by a mask or by their places."""
        columns = (self.at, self.steps, self.values, self.times, self.numbers)
        return Placed(self.series, self.x, *(column[which] for column in columns))

    def buckets(self, pixels: int, *, lo: float | None = None, hi: float | None = None) -> Buckets:
        """The points between lo and hi cut to a chart's width; every point when they fit."""
        return buckets(self.at, self.values, pixels=pixels, lo=lo, hi=hi)


def place(run: RunView, series: Series, *, x: X = "step") -> Placed:
    """The points of a series along an axis; points that have no place there are left out."""
    if x not in get_args(X):
        raise UsageError(f"x={x!r} is not an axis: use one of {', '.join(get_args(X))}.")
    kind, at = _along(run, series, x)
    placed = Placed(series, kind, at, series.steps, series.values, series.times, series.numbers)
    if at.dtype.kind != "f":
        return placed
    known = np.isfinite(at)
    if not known.all():
        placed = placed.taken(known)
    if bool(np.any(placed.at[1:] < placed.at[:-1])):
        placed = placed.taken(np.argsort(placed.at, kind="stable"))
    return placed


def _along(run: RunView, series: Series, x: X) -> tuple[X, NDArray[np.float64] | NDArray[np.int64]]:
    if x == "wall":
        return "wall", series.times
    if x == "relative":
        return "relative", series.times - _start(run, series)
    if series.axis == "step" and x in ("epoch", "tokens"):
        told = _told(run, EPOCH_OF_STEP if x == "epoch" else TOKENS_OF_STEP, series.rank)
        if told is not None:
            steps, values = told
            return x, np.interp(series.steps, steps, values if x == "epoch" else values.cumsum())
    return _OWN[series.axis], series.times if series.axis == "time" else series.steps


def _start(run: RunView, series: Series) -> float:
    created = run.info.created
    if created is not None:
        return created
    finite = series.times[np.isfinite(series.times)]
    return float(finite.min()) if finite.size else 0.0


def _told(run: RunView, name: str, rank: int) -> tuple[Floats, Floats] | None:
    """Steps and values of the series that translates steps; rank 0's where a rank has none."""
    for candidate in dict.fromkeys((rank, 0)):
        try:
            other = run.series(name, rank=candidate, axis="step")
        except MetricNotFoundError:
            continue
        known = np.isfinite(other.values)
        if known.any():
            return other.steps[known].astype(np.float64), other.values[known]
    return None
