"""Makes one series of what several parts, attempts, a rank and its children logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis
from epochal.store.columns import Origin, Piece

# By attempt: what an older attempt logged from here on was logged again by a newer one.
Cuts = Mapping[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """One rank's points in order, and how many were left out for which reason."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    duplicates: int
    hidden: int


def cuts_of(takeovers: Mapping[int, int], *, attempts: Iterable[int]) -> dict[int, int]:
    """Where each attempt is cut, from where each took over: the lowest of all newer ones counts."""
    cuts: dict[int, int] = {}
    lowest: int | None = None
    for attempt in sorted(attempts, reverse=True):
        if lowest is not None:
            cuts[attempt] = lowest
        takeover = takeovers.get(attempt)
        if takeover is not None:
            lowest = takeover if lowest is None else min(lowest, takeover)
    return cuts


def merge(pieces: Sequence[tuple[Origin, Piece]], *, axis: Axis, cuts: Cuts) -> Merged:
    """The points of one rank, ascending; on the time axis nothing is cut and nothing replaced.

    ``pieces`` come in the order of their parts.
    """
    # Later ones win: children before rank 0 itself, older attempts before newer.
    ordered = sorted(pieces, key=lambda item: (not item[0].is_child, item[0].attempt))
    total = sum(piece.values.size for _, piece in ordered)
    visible = [
        _visible(piece, None if axis == "time" else cuts.get(origin.attempt))
        for origin, piece in ordered
    ]
    steps, times, values = _joined(visible)
    hidden = total - values.size
    along = times if axis == "time" else steps
    if axis != "time" and bool(np.all(along[:-1] < along[1:])):
        return Merged(steps, times, values, duplicates=0, hidden=hidden)
    order = _order(along)
    steps, times, values = steps[order], times[order], values[order]
    if axis != "time":
        last_of_step = np.append(steps[1:] != steps[:-1], True)[: steps.size]
        steps, times, values = steps[last_of_step], times[last_of_step], values[last_of_step]
    duplicates = total - hidden - int(values.size)
    return Merged(steps, times, values, duplicates=duplicates, hidden=hidden)


def _joined(pieces: Sequence[Piece]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if len(pieces) == 1:
        return pieces[0].steps, pieces[0].times, pieces[0].values
    return (
        np.concatenate([np.empty(0, np.int64), *(piece.steps for piece in pieces)]),
        np.concatenate([np.empty(0), *(piece.times for piece in pieces)]),
        np.concatenate([np.empty(0), *(piece.values for piece in pieces)]),
    )


def _visible(piece: Piece, cut: int | None) -> Piece:
    if cut is None or piece.steps.size == 0 or int(piece.steps.max()) < cut:
        return piece
    return piece.taken(piece.steps < cut)


def _order(along: NDArray[Any]) -> NDArray[np.intp] | slice:
    if bool(np.all(along[:-1] <= along[1:])):
        return slice(None)
    return np.argsort(along, kind="stable")
