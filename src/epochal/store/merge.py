"""Makes one series of what several attempts, a rank and its children logged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.record import Axis
from epochal.store.columns import Column, Origin

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


def cuts_of(takeovers: Mapping[int, int], *, attempts: range) -> dict[int, int]:
    """Where each attempt is cut, from where each took over: the lowest of all newer ones counts."""
    cuts: dict[int, int] = {}
    lowest: int | None = None
    for attempt in reversed(attempts):
        if lowest is not None:
            cuts[attempt] = lowest
        takeover = takeovers.get(attempt)
        if takeover is not None:
            lowest = takeover if lowest is None else min(lowest, takeover)
    return cuts


def merge(columns: Mapping[Origin, Column], *, rank: int, axis: Axis, cuts: Cuts) -> Merged:
    """The points of one rank, ascending; on the time axis nothing is cut and nothing replaced."""
    # Later ones win: children before rank 0 itself, older attempts before newer.
    origins = sorted(
        (origin for origin in columns if origin.rank == rank),
        key=lambda origin: (not origin.is_child, origin.attempt),
    )
    pieces = [
        _visible(columns[origin], None if axis == "time" else cuts.get(origin.attempt))
        for origin in origins
    ]
    total = sum(len(columns[origin].values) for origin in origins)
    if not pieces:
        return Merged(*Column().arrays(), duplicates=0, hidden=0)
    steps, times, values = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    hidden = total - values.size
    order = _order(times if axis == "time" else steps)
    steps, times, values = steps[order], times[order], values[order]
    if axis != "time" and steps.size:
        last_of_step = np.append(steps[1:] != steps[:-1], True)
        steps, times, values = steps[last_of_step], times[last_of_step], values[last_of_step]
    return Merged(
        steps, times, values, duplicates=total - hidden - int(values.size), hidden=int(hidden)
    )


def _visible(
    column: Column, cut: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    steps, times, values = column.arrays()
    if cut is None:
        return steps, times, values
    kept = steps < cut
    return steps[kept], times[kept], values[kept]


def _order(along: NDArray[Any]) -> NDArray[np.intp] | slice:
    if bool(np.all(along[:-1] <= along[1:])):
        return slice(None)
    return np.argsort(along, kind="stable")
