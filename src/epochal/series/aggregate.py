"""Several series as one: mean, median, spread and interval over the members at each position.

Members are aligned by position. A member's value at a position is the one that it logged there.
Between its points it is the last one before, for less than the usual distance of its own points. A
member has no value before its first point, after its last one, or in a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.series.series import Series
from epochal.series.statistics import Floats, t_quantile

Counts = NDArray[np.int64]
# A float that may be nan or infinite; JSON has null for those.
Number = Annotated[float, msgspec.Meta(extra_json_schema={"type": ["number", "null"]})]

CONFIDENCE = 0.95
# Times between points differ a little; steps do not.
_UNEVEN = 2.0


class Aggregate(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Numbers over the members at each position; arrays of one length.

    ``n`` members have a finite value there, ``nonfinite`` have nan or infinity, ``ended`` have
    logged their last point before. ``std`` divides by n - 1. ``low`` and ``high`` are the ends of
    the 95 % interval of the mean by the t distribution. nan where n is too small: 1 for most, 2 for
    ``std``, ``se`` and the interval.
    """

    at: Floats
    n: Counts
    nonfinite: Counts
    ended: Counts
    mean: Floats
    median: Floats
    std: Floats
    se: Floats
    low: Floats
    high: Floats
    min: Floats
    max: Floats
    q25: Floats
    q75: Floats

    def __len__(self) -> int:
        return self.at.size


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers over ``n`` values, as in ``Aggregate``; nan (null in JSON) where n is too small."""

    n: int
    mean: Number
    median: Number
    std: Number
    se: Number
    low: Number
    high: Number
    min: Number
    max: Number
    q25: Number
    q75: Number


STATISTICS = Aggregate.__struct_fields__[1:]


def numbers_of(values: ArrayLike) -> dict[str, Any]:
    """The fields of ``Numbers`` over some finite values."""
    found = _statistics(np.asarray(values, dtype=np.float64).reshape(-1, 1))
    return {name: array[0].item() for name, array in found.items()}


def aggregate(members: Sequence[Series], at: ArrayLike, *, is_even: bool = True) -> Aggregate:
    """Aggregate members at positions that ascend; see the module for how they are aligned.

    ``is_even`` is for steps and epochs. On other axes a value lasts twice the usual distance.
    """
    places = np.asarray(at, dtype=np.float64)
    matrix = np.full((len(members), places.size), np.nan)
    nonfinite, ended = np.zeros((2, places.size), dtype=np.int64)
    for row, one in zip(matrix, members, strict=True):
        if len(one):
            values, is_there = values_at(one, places, is_even=is_even)
            known = np.isfinite(values)
            row[known] = values[known]
            nonfinite += is_there & ~known
            ended += places > one.at[-1]
    return Aggregate(at=places, nonfinite=nonfinite, ended=ended, **_statistics(matrix))


def positions(
    members: Sequence[Series],
    *,
    most: int | None = None,
    lo: float | None = None,
    hi: float | None = None,
    is_log: bool = False,
    is_even: bool = True,
) -> Floats:
    """The positions that members have points at, or about ``most`` of them.

    Of many, those that begin ``most`` equal slices are kept, and those where a member begins or
    ends. With ``is_log``, slices are equal on a logarithmic axis. Unless ``is_even``, the
    positions are the slices' own, because no two members share one.
    """
    chosen = [one.at.astype(np.float64) for one in members if len(one)]
    if not chosen:
        return np.empty(0)
    every, ends = np.unique(np.concatenate(chosen)), np.array([at[[0, -1]] for at in chosen])
    low, high = -math.inf if lo is None else lo, math.inf if hi is None else hi
    every, ends = (found[(found >= low) & (found <= high)] for found in (every, ends))
    if most is None or every.size <= most:
        return every
    above = every[every > 0]
    scaled = np.log(np.maximum(every, above[0] if above.size else 1.0)) if is_log else every
    if not is_even:
        even = np.linspace(scaled[0], scaled[-1], most)
        return np.unique(np.concatenate([np.exp(even) if is_log else even, ends]))
    width = (scaled[-1] - scaled[0]) or 1.0
    slices = np.minimum((scaled - scaled[0]) / width * most, most - 1).astype(np.int64)
    if is_log:  # what lies at 0 or below has no place on that axis, and takes none from others
        slices[every <= 0] = -1
    _, first = np.unique(slices, return_index=True)
    return np.unique(np.concatenate([every[first], every[-1:], ends]))


def stride(member: Series) -> float:
    """The usual distance between two points: the median; 0 for a single point."""
    return float(np.median(np.diff(member.at))) if len(member) > 1 else 0.0


def values_at(
    member: Series, at: Floats, *, is_even: bool = True
) -> tuple[Floats, NDArray[np.bool_]]:
    """A member's values at positions, nan where it has none, and where it has one."""
    index = np.searchsorted(member.at, at, side="right") - 1
    before = np.maximum(index, 0)
    distance = at - member.at[before]
    reach = stride(member) if is_even else _UNEVEN * stride(member)
    is_there = (index >= 0) & (at <= member.at[-1]) & ((distance == 0) | (distance < reach))
    return np.where(is_there, member.floats[before], np.nan), is_there


def _statistics(matrix: Floats) -> dict[str, Any]:
    """Numbers over the rows of each column, by their names; nan is a row without a value."""
    n = np.isfinite(matrix).sum(axis=0).astype(np.int64)
    if not matrix.shape[0]:
        matrix = np.full((1, n.size), np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.nansum(matrix, axis=0) / np.where(n > 0, n, np.nan)
        squares = np.nansum((matrix - mean) ** 2, axis=0)
        std = np.sqrt(squares / np.where(n > 1, n - 1, np.nan))
        se = std / np.sqrt(n)
    counts, which = np.unique(n, return_inverse=True)
    factors = [
        math.nan if count < 2 else t_quantile(0.5 + CONFIDENCE / 2, count - 1)
        for count in counts.tolist()
    ]
    half = np.array(factors)[which] * se
    ordered = np.sort(matrix, axis=0)  # nan comes last
    shares = {"median": 0.5, "min": 0.0, "max": 1.0, "q25": 0.25, "q75": 0.75}
    quantiles = {name: _quantile(ordered, n, share) for name, share in shares.items()}
    moments = {"mean": mean, "std": std, "se": se, "low": mean - half, "high": mean + half}
    return {"n": n, **moments, **quantiles}


def _quantile(ordered: Floats, n: Counts, share: float) -> Floats:
    """A quantile of each column, linear between two values as ``numpy.quantile`` has it."""
    place = np.maximum(n - 1, 0) * share
    low, high = (
        np.take_along_axis(ordered, edge(place).astype(np.intp)[None, :], axis=0)[0]
        for edge in (np.floor, np.ceil)
    )
    found: Floats = low + (high - low) * (place - np.floor(place))
    return found
