"""Puts a series along what a chart asks for: steps, epochs, tokens, clock time or time since start.

A series that cannot be put there comes along its own axis, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochal.server.wire import AxisName, XKind
from epochal.store.answers import Series
from epochal.store.store import MetricNotFoundError, RunView

Floats = NDArray[np.float64]

_EPOCH_OF_STEP = "train/epoch"
_TOKENS_OF_STEP = "train/step_tokens"
_OWN: dict[AxisName, XKind] = {"step": "step", "epoch": "epoch", "time": "wall"}


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A series' points in the order of ``at``, all of it finite."""

    series: Series
    axis: AxisName
    x: XKind
    at: Floats
    values: Floats
    times: Floats


def place(run: RunView, series: Series, *, x: XKind) -> Placed:
    """The points of a series along an axis; points that have no place there are left out."""
    assert series.axis != "none"
    kind, at = _along(run, series, series.axis, x)
    placed = (at, series.values, series.times)
    known = np.isfinite(at)
    if not known.all():
        placed = (at[known], series.values[known], series.times[known])
    if bool(np.any(placed[0][1:] < placed[0][:-1])):
        order = np.argsort(placed[0], kind="stable")
        placed = (placed[0][order], placed[1][order], placed[2][order])
    return Placed(series, series.axis, kind, *placed)


def _along(run: RunView, series: Series, axis: AxisName, x: XKind) -> tuple[XKind, Floats]:
    if x == "wall":
        return "wall", series.times
    if x == "relative":
        start = run.info.created
        finite = series.times[np.isfinite(series.times)]
        first = float(finite.min()) if finite.size else 0.0
        return "relative", series.times - (first if start is None else start)
    if axis == "step" and x in ("epoch", "tokens"):
        at = _epochs(run, series) if x == "epoch" else _tokens(run, series)
        if at is not None:
            return x, at
    return _OWN[axis], series.x.astype(np.float64)


def _epochs(run: RunView, series: Series) -> Floats | None:
    epochs = _other(run, _EPOCH_OF_STEP, series.rank)
    return None if epochs is None else np.interp(series.steps, *epochs)


def _tokens(run: RunView, series: Series) -> Floats | None:
    tokens = _other(run, _TOKENS_OF_STEP, series.rank)
    return None if tokens is None else np.interp(series.steps, tokens[0], np.cumsum(tokens[1]))


def _other(run: RunView, name: str, rank: int) -> tuple[Floats, Floats] | None:
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
