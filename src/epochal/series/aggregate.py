"""Several series as one: mean, median, spread and interval over the members at each position.

Members are aligned by position. A member's value at a position is the one that it logged there.
Between its points it is the last one before, for less than the usual distance of its own points. A
member has no value before its first point, after its last one, or in a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.series.distributions import t_quantile

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# A float that may be nan or infinite; JSON has null for those.
Number = Annotated[float, msgspec.Meta(extra_json_schema={"type": ["number", "null"]})]

CONFIDENCE = 0.95
_VALUES_AT_ONCE = 1 << 22
# Times between points differ a little; steps do not.
_UNEVEN = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """One member: positions that ascend, and a value at each."""

    at: NDArray[np.float64]
    values: Floats

    @property
    def stride(self) -> float:
        """The usual distance between two points: the median; 0 for a single point."""
        if self.at.size < 2:
            return 0.0
        distances = np.diff(self.at)
        shortest = distances.min()
        return float(shortest if shortest == distances.max() else np.median(distances))


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
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

    def row(self, index: int) -> dict[str, float | int]:
        """The numbers at one position."""
        return {each.name: getattr(self, each.name)[index].item() for each in fields(self)}


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers over ``n`` members at one position; nan (null in JSON) where too few count."""

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


def numbers_at(found: Aggregate, index: int) -> dict[str, float | int]:
    """The fields of ``Numbers`` at one position."""
    row = found.row(index)
    return {name: row[name] for name in Numbers.__struct_fields__}


STATISTICS = tuple(each.name for each in fields(Aggregate) if each.name != "at")


def aggregate(members: Sequence[Points], at: ArrayLike, *, is_even: bool = True) -> Aggregate:
    """Aggregate members at positions that ascend; see the module for how they are aligned.

    ``is_even`` is for steps and epochs. On other axes a value lasts twice the usual distance.
    """
    places = np.asarray(at, dtype=np.float64)
    at_once = max(1, _VALUES_AT_ONCE // max(1, len(members)))
    pieces = [
        _aggregate(members, places[start : start + at_once], is_even)
        for start in range(0, max(1, places.size), at_once)
    ]
    if len(pieces) == 1:
        return pieces[0]
    return Aggregate(
        *(np.concatenate([getattr(one, each.name) for one in pieces]) for each in fields(Aggregate))
    )


def aggregate_values(values: ArrayLike) -> Aggregate:
    """Aggregate one value of each member, at one position."""
    column = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    known = np.isfinite(column)
    nothing = np.zeros(1, dtype=np.int64)
    return _statistics(np.zeros(1), np.where(known, column, np.nan), (~known).sum(axis=0), nothing)


def positions(
    members: Sequence[Points],
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
    chosen = [one.at for one in members if one.at.size]
    if not chosen:
        return np.empty(0)
    every = np.unique(np.concatenate(chosen))
    ends = np.array([end for at in chosen for end in (at[0], at[-1])])
    if lo is not None or hi is not None:
        low = -math.inf if lo is None else lo
        high = math.inf if hi is None else hi
        every = every[(every >= low) & (every <= high)]
        ends = ends[(ends >= low) & (ends <= high)]
    if most is None or every.size <= most:
        return every
    scaled = np.log(np.maximum(every, _smallest(every))) if is_log else every
    if not is_even:
        even = np.linspace(scaled[0], scaled[-1], most)
        return np.unique(np.concatenate([np.exp(even) if is_log else even, ends]))
    width = (scaled[-1] - scaled[0]) or 1.0
    slices = np.minimum((scaled - scaled[0]) / width * most, most - 1).astype(np.int64)
    if is_log:  # what lies at 0 or below has no place on that axis, and takes none from others
        slices[every <= 0] = -1
    _, first = np.unique(slices, return_index=True)
    return np.unique(np.concatenate([every[first], every[-1:], ends]))


def _smallest(at: Floats) -> float:
    above = at[at > 0]
    return float(above[0]) if above.size else 1.0


def _aggregate(members: Sequence[Points], at: Floats, is_even: bool) -> Aggregate:
    matrix = np.full((len(members), at.size), np.nan)
    nonfinite = np.zeros(at.size, dtype=np.int64)
    ended = np.zeros(at.size, dtype=np.int64)
    for row, one in zip(matrix, members, strict=True):
        if not one.at.size:
            continue
        values, is_there = values_at(one, at, is_even=is_even)
        known = np.isfinite(values)
        row[known] = values[known]
        nonfinite += is_there & ~known
        ended += at > one.at[-1]
    return _statistics(at, matrix, nonfinite, ended)


def values_at(
    member: Points, at: Floats, *, is_even: bool = True
) -> tuple[Floats, NDArray[np.bool_]]:
    """A member's values at positions, nan where it has none, and where it has one."""
    index = np.searchsorted(member.at, at, side="right") - 1
    before = np.maximum(index, 0)
    distance = at - member.at[before]
    reach = member.stride if is_even else _UNEVEN * member.stride
    is_there = (index >= 0) & (at <= member.at[-1]) & ((distance == 0) | (distance < reach))
    return np.where(is_there, member.values[before], np.nan), is_there


def _statistics(at: Floats, matrix: Floats, nonfinite: Counts, ended: Counts) -> Aggregate:
    """Numbers over the rows of each column; nan is a row without a value."""
    n = np.isfinite(matrix).sum(axis=0).astype(np.int64)
    if not matrix.shape[0]:
        matrix = np.full((1, at.size), np.nan)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = np.nansum(matrix, axis=0) / np.where(n > 0, n, np.nan)
        squares = np.nansum((matrix - mean) ** 2, axis=0)
        std = np.sqrt(squares / np.where(n > 1, n - 1, np.nan))
        se = std / np.sqrt(n)
    counts, which = np.unique(n, return_inverse=True)
    half = np.array([_interval_factor(int(count)) for count in counts])[which] * se
    ordered = np.sort(matrix, axis=0)  # nan comes last
    return Aggregate(
        at=at,
        n=n,
        nonfinite=nonfinite,
        ended=ended,
        mean=mean,
        median=_quantile(ordered, n, 0.5),
        std=std,
        se=se,
        low=mean - half,
        high=mean + half,
        min=_quantile(ordered, n, 0.0),
        max=_quantile(ordered, n, 1.0),
        q25=_quantile(ordered, n, 0.25),
        q75=_quantile(ordered, n, 0.75),
    )


def _interval_factor(n: int) -> float:
    return math.nan if n < 2 else t_quantile(0.5 + CONFIDENCE / 2, n - 1)


def _quantile(ordered: Floats, n: Counts, share: float) -> Floats:
    """A quantile of each column, linear between two values as ``numpy.quantile`` has it."""
    place = np.maximum(n - 1, 0) * share
    below = np.floor(place).astype(np.intp)
    above = np.ceil(place).astype(np.intp)
    low = np.take_along_axis(ordered, below[None, :], axis=0)[0]
    high = np.take_along_axis(ordered, above[None, :], axis=0)[0]
    found: Floats = low + (high - low) * (place - below)
    return found
