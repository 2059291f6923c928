"""Where two curves part beyond their noise, and how far apart they end.

The difference of the curves is taken at the points of the sparser one, of logarithms where all
values are above 0, and cut into at most ``MOST_BLOCKS`` blocks. A block is apart if its mean
difference is above three standard errors and above ``LEAST_SHARE`` of the level. The standard error
comes from local scatter: second differences of points, which a trend does not change. Noise that
lasts many points, as in averaged losses, is found by the scatter of points around a line and by
second differences of block means.
The curves part for good at the block from which on most blocks are apart on the side of the last
three, and none on the other side. Ends have to differ by ``BEYOND`` standard errors.
"""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.series.series import Series
from epochal.series.statistics import Floats
from epochal.series.trend import Goal

MOST_BLOCKS = 40
BEYOND = 4.0
LEAST_SHARE = 0.005
# With too few points for scatter, only differences that nobody doubts count.
_UNKNOWN_SHARE = 0.05
_MOST_OF = 0.6
_FEWEST_LAST = 2
# Blocks have to agree with each other, so each needs less.
_BEYOND_IN_A_BLOCK = 3.0
_LAST_BLOCKS = 3
_POINTS_IN_A_BLOCK = 3
_BLOCKS_NEAR = 5
_MOST_END_BLOCKS = 10
_END_SHARE = 0.05
_MOST_END_POINTS = 200
_NEIGHBOURS = 7
_MAD = 1.4826
# An end that scatters so many times more than another belongs to another course of training.
_WILD = 10.0
_FEWEST_WILD = 4
# Fewer points than in each half of a course say nothing about its progress.
_FEWEST_HALF = 4


class End(msgspec.Struct, frozen=True):
    """The level that a curve ends at, its standard error (nan if not known), and the last step.

    ``value`` is nan or infinite if the curve ends so. ``points`` are those that it is the mean of.
    """

    value: float
    error: float
    at: float
    points: Floats = msgspec.field(default_factory=lambda: np.empty(0))


class Parting(msgspec.Struct, frozen=True):
    """The steps that both curves have, and where they part for good; None if they do not."""

    first: float
    last: float
    parted_at: float | None


def end_of(curve: Series) -> End:
    """The mean of the last 5 % of the points; of a curve that ends as nan, its last value."""
    points, at = curve.floats, float(curve.at[-1])
    if not math.isfinite(last := float(points[-1])):
        return End(last, math.nan, at)
    taken = int(np.clip(points.size * _END_SHARE, 1, _MOST_END_POINTS))
    values = points[-taken:][np.isfinite(points[-taken:])]
    return End(float(values.mean()), _end_error(points, taken), at, values)


def _end_error(points: Floats, taken: int) -> float:
    """The standard error of the mean of the last points; nan with too few."""
    known = points[np.isfinite(points)]
    if known.size < 4:
        return math.nan
    error = _standard_error(known[-taken:], known[-max(_NEIGHBOURS, taken) :])
    num_blocks = min(_MOST_END_BLOCKS, known.size // taken)
    means = known[known.size - num_blocks * taken :].reshape(num_blocks, taken).mean(axis=1)
    return max(error, _scatter(means)) if means.size >= 4 else error


def noise_between(left: Series, right: Series) -> float:
    """The least gap of the ends of two curves that is beyond their noise.

    Where the curves have the same steps, the noise is that of their difference: a trend that both
    follow is no noise.
    """
    left_end, right_end = end_of(left), end_of(right)
    level = max(abs(left_end.value), abs(right_end.value))
    if not math.isfinite(level):
        return 0.0
    small, large = sorted((left_end.error, right_end.error))
    apart = _error_of_difference(left, right)
    error = math.hypot(small, large) if math.isnan(apart) else apart
    # The scatter of a run that blew up is no noise that its gap has to exceed.
    is_wild = (
        large > _WILD * small and min(left_end.points.size, right_end.points.size) >= _FEWEST_WILD
    )
    if is_wild and (
        left_end.points.min() > right_end.points.max()
        or left_end.points.max() < right_end.points.min()
    ):
        error = small
    return _limit(error, level)


def noise_of_progress(curve: Series, since: float) -> float | None:
    """The least change of a curve after a position that is beyond its noise; None if there is none.

    The two halves of the later points are compared, which are more points than an end has. So the
    course of a run that still falls is progress, where its last points alone would scatter too far.
    """
    later = curve.floats[curve.at > since]
    if later.size < 2 * _FEWEST_HALF or not np.isfinite(later).all():
        return None
    halves = later[: later.size // 2], later[later.size // 2 :]
    errors = [_standard_error(half, half) for half in halves]
    noise = _limit(math.hypot(*errors), float(np.abs(later).mean()))
    return noise if abs(float(halves[0].mean() - halves[1].mean())) > noise else None


def _error_of_difference(left: Series, right: Series) -> float:
    """The standard error of the gap at the end; nan where the curves do not end at one step."""
    if left.at[-1] != right.at[-1]:
        return math.nan
    _, own, other = np.intersect1d(left.at, right.at, return_indices=True)
    taken = int(np.clip(own.size * _END_SHARE, 1, _MOST_END_POINTS))
    with np.errstate(invalid="ignore"):
        return _end_error(left.floats[own] - right.floats[other], taken)


def parting(left: Series, right: Series, goal: Goal | None) -> Parting | None:
    """Where two curves part; None where they share no step."""
    low, high = float(max(left.at[0], right.at[0])), float(min(left.at[-1], right.at[-1]))
    at = min((one.between(low, high).at for one in (left, right)), key=len).astype(np.float64)
    if not at.size:
        return None
    values = [_values_on(one, at, goal) for one in (left, right)]
    level = np.maximum(np.abs(values[0]), np.abs(values[1]))
    if all((one[np.isfinite(one)] > 0).all() for one in values):
        # Noise is a share of the level, and a loss that explodes grows by factors.
        values = [np.log(one, out=one.copy(), where=np.isfinite(one)) for one in values]
        level = np.ones_like(at)
    with np.errstate(invalid="ignore"):
        difference = np.where(values[0] == values[1], 0.0, values[0] - values[1])
    num_blocks = at.size if at.size <= MOST_BLOCKS else at.size // _POINTS_IN_A_BLOCK
    edges = np.linspace(0, at.size, min(MOST_BLOCKS, num_blocks) + 1).astype(np.intp)
    pairs = list(itertools.pairwise(edges.tolist()))
    means = np.array([difference[start:stop].mean() for start, stop in pairs])
    sides = np.array(
        [_side(difference, level, means, place, *pair) for place, pair in enumerate(pairs)]
    )
    parted = _parted(sides)
    return Parting(low, high, None if parted is None else float(at[edges[parted]]))


def _values_on(curve: Series, at: Floats, goal: Goal | None) -> Floats:
    """Values at positions, linear between points; what is not finite is worse than everything."""
    worst = -math.inf if goal == "max" else math.inf
    known = np.isfinite(curve.floats)
    if not known.any():
        return np.full(at.size, worst)
    values = np.interp(at, curve.at[known], curve.floats[known])
    place = np.clip(np.searchsorted(curve.at, at, side="right") - 1, 0, curve.at.size - 1)
    return np.where(known[place], values, worst)


def _side(
    difference: Floats, level: Floats, means: Floats, place: int, start: int, stop: int
) -> int:
    """1 or -1 where the left curve is above or below in a block, 0 where that is noise."""
    inside = difference[start:stop]
    if not np.isfinite(inside).all():
        return int(np.sign(inside[~np.isfinite(inside)][-1]))
    missing = max(0, _NEIGHBOURS - inside.size)
    near = difference[max(0, start - (missing + 1) // 2) : stop + (missing + 1) // 2]
    error = _standard_error(inside, near[np.isfinite(near)])
    around = means[max(0, place - _BLOCKS_NEAR) : place + _BLOCKS_NEAR + 1]
    around = around[np.isfinite(around)]
    if around.size >= 4:
        error = max(error, _scatter(around))
    mean = float(inside.mean())
    limit = _limit(error, float(level[start:stop].mean()), _BEYOND_IN_A_BLOCK)
    return int(np.sign(mean)) if abs(mean) > limit else 0


def _limit(error: float, level: float, beyond: float = BEYOND) -> float:
    if math.isnan(error):
        return _UNKNOWN_SHARE * level
    return max(beyond * error, LEAST_SHARE * level)


def _standard_error(values: Floats, near: Floats) -> float:
    """Of the mean of values, from the scatter of points near them; nan with too few points."""
    if near.size < 4:
        return math.nan
    scatter = _scatter(near)
    if values.size < _NEIGHBOURS:
        return scatter / math.sqrt(values.size)
    place = np.arange(values.size, dtype=np.float64)
    line = np.polyval(np.polyfit(place, values, 1), place)
    around = float(np.sqrt(((values - line) ** 2).sum() / (values.size - 2)))
    # Noise that lasts several points makes neighbours alike: fewer of them are independent.
    lasting = 1.0 if scatter <= 0 else max(1.0, (around / scatter) ** 2)
    return max(scatter, around) / math.sqrt(max(1.0, values.size / lasting))


def _scatter(values: Floats) -> float:
    """The deviation of values from a smooth course."""
    return float(np.median(np.abs(np.diff(values, 2)))) * _MAD / math.sqrt(6)


def _parted(sides: NDArray[np.int64]) -> int | None:
    """The block from which on most blocks are on the side of the last ones, none on the other."""
    side, size = np.sign(sides[-_LAST_BLOCKS:].sum()), sides.size
    parted = None
    for index in range(size - 1, -1, -1):
        if not side or sides[index] == -side:
            break
        is_long = size - index >= min(_FEWEST_LAST, size)
        if sides[index] and is_long and (sides[index:] == side).mean() >= _MOST_OF:
            parted = index
    return parted
