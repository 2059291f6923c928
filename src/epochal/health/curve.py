"""One curve as rules see it: its level, its noise and its outliers.

Nothing is compared with a fixed number. A level is a median of recent points, a width the median
distance from that level. An outlier must also exceed all earlier outliers. It is not part of the
level. The first of several outliers enters the stored distances only at the height of the
threshold, so that it does not hide the next one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from epochal.series.window import Recent

# How a curve is followed, and what counts as an outlier: what all rules on curves share. Windows
# are in logged points, shares are of 1. A width is a robust standard deviation of the points
# around their level.

# The level is a median of so many points: short enough to follow a fall, long enough to be
# known to a fifth of a width.
_LEVEL_POINTS = 31
# Before so many points nothing is said to stand out of them.
_LEVEL_LEAST = 20
# Heavy tails show themselves once in some hundred points, so that many are remembered.
_MEMORY = 1000
# Noise that does not shrink with the level shows as a growing share of it, in so many points.
_NOISE_POINTS = 150
# Of fewer distances nothing is known about noise at all.
_NOISE_LEAST = 5
# Blocks of ten points keep a whole run: 512 of them, then twice as long ones.
_BLOCK = 10
# The start is the median of so many points, but never above the first: a step that was too
# large lifts those after it.
_START = 3
# A change below a tenth of the level is not worth a word, however quiet the curve...
_MATERIAL_SHARE = 0.1
# ...nor one that nobody would see in a picture of the whole run.
_MATERIAL_OF_RANGE = 0.005
# ...though near the floor of a loss that fell by orders of magnitude the eye needs a log scale.
_MATERIAL_MOST = 0.45
# After the rate jumped (a warm restart) the loss may take so many points to its new level.
_GRACE = 100
# Eight widths never happen in normal noise, about once in ten thousand in natural batches...
_SPIKE_WIDTHS = 8.0
# ...so it must also be farther out than anything before it, by more than half.
_SPIKE_OVER_TAIL = 1.6
# Of few points the tail is not known yet: with so many the bar is twice as high.
_SPIKE_CAUTION = 30.0
# So many points are looked at together: three that stand out of five are no single batch.
_SPIKE_LASTING_OF = 5
# What has stood out for so many points in a row is no spike but a new level.
_ACCEPT = 60


# -- blocks of points ------------------------------------------------------------------------------


_last = attrgetter("last")


class Block(NamedTuple):
    """Some points in a row: where they begin and end, their median and how many they are."""

    first: int
    last: int
    level: float
    size: int


class Blocks:
    """Blocks of the same number of points from the first to the last; at most ``limit`` of them.

    When there are too many, neighbours are joined two by two and later blocks are twice as long.
    A block's level is the median of its points, of joined ones the mean of the two.
    """

    def __init__(self, *, size: int, limit: int = 512) -> None:
        self.size = size
        self._limit = limit
        self._done: list[Block] = []
        self._open: list[tuple[int, float]] = []
        self._former: float | None = None  # the median, once asked for

    def __len__(self) -> int:
        return len(self._done)

    def __getitem__(self, index: int) -> Block:
        return self._done[index]

    def push(self, position: int, value: float) -> bool:
        """Add a point; True when it completed a block."""
        self._open.append((position, value))
        if len(self._open) < self.size:
            return False
        self._done.append(_block(self._open))
        self._open = []
        self._former = None
        if len(self._done) > self._limit:
            self._coarsen()
        return True

    def former_median(self) -> float:
        """The median level of all blocks except the newest two. Needs at least three blocks."""
        if self._former is None:
            levels = sorted(block.level for block in self._done[:-2])
            self._former = levels[len(levels) // 2]
        return self._former

    def all(self) -> list[Block]:
        """Every whole block, oldest first."""
        return list(self._done)

    def level_at(self, position: int) -> float | None:
        """Return the level of the first block that reaches a position; None beyond the last."""
        index = bisect_left(self._done, position, key=_last)
        return self._done[index].level if index < len(self._done) else None

    def forget_from(self, position: int) -> None:
        """Forget every block that reaches a position or beyond."""
        while self._done and self._done[-1].last >= position:
            self._done.pop()
        self._open = [point for point in self._open if point[0] < position]
        self._former = None

    def _coarsen(self) -> None:
        if len(self._done) % 2:
            # The odd one at the end goes back to the open points, as its level so many times.
            odd = self._done.pop()
            self._open = [(odd.first, odd.level)] * (odd.size - 1) + [(odd.last, odd.level)]
        pairs = zip(self._done[::2], self._done[1::2], strict=True)
        self._done = [
            Block(a.first, b.last, (a.level + b.level) / 2, a.size + b.size) for a, b in pairs
        ]
        self.size *= 2


def _block(points: list[tuple[int, float]]) -> Block:
    level = _median([value for _, value in points])
    return Block(points[0][0], points[-1][0], level, len(points))


# -- the curve -------------------------------------------------------------------------------------


# Half of normal noise lies within 0.6745 standard deviations to both sides.
_DEVIATION_PER_MIDDLE = 1 / (2 * 0.6745)


class Noise:
    """Distances from a level that may itself fall by orders of magnitude.

    The noise of a loss shrinks with the loss, so distances are stored as shares of their level. Old
    and new distances are stored separately, because not all noise shrinks; the larger result
    counts. The width is that of the middle half, because all points of a falling curve are below
    the level of older ones. Without a level to take shares of (a curve that reaches zero, or one of
    logarithms), distances are stored in plain units.
    """

    __slots__ = ("_distances", "_extremes", "_late", "_unit")

    def __init__(self) -> None:
        self._unit: float | None = None
        self._distances = Recent(_MEMORY)
        self._late = Recent(_NOISE_POINTS)
        self._extremes = Recent(_MEMORY)

    def __len__(self) -> int:
        return len(self._distances)

    def remember(self, distance: float, *, unit: float | None) -> None:
        """Keep a distance; ``unit`` is the level it is a share of, None where there is none."""
        share = self._share(distance, unit)
        self._distances.push(share)
        self._late.push(share)

    def remember_extreme(self, distance: float, *, unit: float | None) -> None:
        """Keep the distance of an extreme of skipped points: they are wider than single points."""
        self._extremes.push(self._share(distance, unit))

    def _share(self, distance: float, unit: float | None) -> float:
        if (unit is None) != (self._unit is None):
            for kept in (self._distances, self._late, self._extremes):
                _rescale(kept, (self._unit or 1.0) / (unit or 1.0))
        self._unit = unit
        return distance if unit is None else distance / unit

    def width(self, unit: float | None) -> float:
        """A robust standard deviation at a level; 0 while nothing is known."""
        return max(_spread(self._distances), _spread(self._late)) * (1.0 if unit is None else unit)

    def lasting_width(self, unit: float | None) -> float:
        """The same by the long memory alone: of a level that the newest points have left."""
        return _spread(self._distances) * (1.0 if unit is None else unit)

    def tail(self, unit: float | None) -> float:
        """The farthest that a point stood above its level; 0 while nothing is known."""
        if not len(self._distances):
            return 0.0
        return self._distances.highest() * (1.0 if unit is None else unit)

    def farthest(self, unit: float | None) -> float:
        """The same with the extremes of skipped points."""
        tail = self.tail(unit)
        if not len(self._extremes):
            return tail
        return max(tail, self._extremes.highest() * (1.0 if unit is None else unit))


def _spread(distances: Recent) -> float:
    if not len(distances):
        return 0.0
    return (distances.quantile(0.75) - distances.quantile(0.25)) * _DEVIATION_PER_MIDDLE


def _rescale(kept: Recent, factor: float) -> None:
    values = kept.newest(len(kept))
    kept.drop_newest(len(kept))
    for value in values:
        kept.push(value * factor)


_LARGEST = 1e150  # beyond it squares leave what a float holds


def is_usable(value: float) -> bool:
    """Whether a value can be computed with: a number, and not as large as no measurement is."""
    return abs(value) < _LARGEST  # false for what is no number


class Curve:
    """The points of one series of rank 0 in order, with figures kept up to date.

    Four figures compare ``newest``, a point or an extreme of skipped points, with the points before
    it; they are None until there are enough points, and natural logarithms with ``is_log``.
    ``level`` is the usual value, ``width`` the noise around it, ``distance`` the newest value less
    the level. A ``distance`` above ``outlier_limit`` is an outlier. ``start`` is the level of the
    first points, ``first`` the very first of them, ``shifted_at`` where a shift was last expected.
    """

    def __init__(self, name: str, *, axis: str, is_log: bool = False) -> None:
        self.name = name
        self.axis = axis
        self.is_log = is_log
        self.count = 0
        self.newest: tuple[int, float] = (0, math.nan)
        self.points: deque[tuple[int, float]] = deque(maxlen=_MEMORY)
        self.blocks = Blocks(size=_BLOCK)
        self.start: float | None = None
        self.first: float | None = None
        self.highest = -math.inf
        self.lowest = math.inf
        self.level: float | None = None
        self.width: float | None = None
        self.outlier_limit: float | None = None
        self.distance: float | None = None
        self.stands_out = False
        self.shifted_at: int | None = None
        self.outliers: deque[bool] = deque(maxlen=_SPIKE_LASTING_OF)
        self._settled = Recent(_LEVEL_POINTS)
        self._noise = Noise()
        self._first: list[float] = []
        self._row_of_outliers = 0
        self._grace = 0

    # -- taking in --------------------------------------------------------------------------------

    def push(self, position: int, value: float) -> None:
        """Take in the newest point; it must be finite."""
        scaled = self._judge(position, value)
        self._learn(scaled)
        self.count += 1
        self.points.append((position, value))
        self.blocks.push(position, value)
        self._widen(value)
        if self.count <= _START:
            self.first = value if self.first is None else self.first
            self._first.append(value)
            self.start = min(self._first[0], _median(self._first))

    def push_extreme(self, position: int, value: float) -> None:
        """Take in the smallest or largest of some points that were skipped; it must be finite.

        It may stand out, and later points must be farther out than it. It is no point: level,
        width and blocks are those of an even sample.
        """
        self._judge(position, value)
        if self.level is not None and self.distance is not None and self.outlier_limit is not None:
            distance = min(self.distance, self.outlier_limit) if self.stands_out else self.distance
            self._noise.remember_extreme(distance, unit=self._unit(self.level))
        self._widen(value)

    def expect_a_shift(self) -> None:
        """For some points from now on a new level is no surprise (the learning rate jumped)."""
        self._grace = _GRACE
        self.shifted_at = self.points[-1][0] if self.points else None

    def forget_from(self, position: int) -> None:
        """Forget the points from a position on."""
        gone = 0
        while self.points and self.points[-1][0] >= position:
            self.points.pop()
            gone += 1
        self.blocks.forget_from(position)
        self._settled.drop_newest(gone)
        self.count = max(len(self.points), self.count - gone)
        self.outliers.clear()
        self._row_of_outliers = 0
        self.stands_out = False

    @property
    def is_shifting(self) -> bool:
        """Whether a new level is expected just now."""
        return self._grace > 0

    # -- asking -----------------------------------------------------------------------------------

    def at(self, position: int) -> str:
        """A position as findings name it: ``step 1,204`` or ``epoch 12``."""
        return f"{self.axis} {position:,}"

    def recent_level(self, count: int) -> float:
        """The median of the newest ``count`` points."""
        return _median([value for _, value in islice(reversed(self.points), count)])

    def window(self, count: int) -> list[float]:
        """The newest ``count`` values, oldest first."""
        newest = [value for _, value in islice(reversed(self.points), count)]
        newest.reverse()
        return newest

    def least_change(self, level: float) -> float:
        """The smallest change at a level that a finding may report, whatever the noise.

        A share of the level where the curve never reached zero; else of the range it covered.
        """
        covered = self.highest - self.lowest
        if self.lowest > 0:
            of_range = min(_MATERIAL_OF_RANGE * covered, _MATERIAL_MOST * level)
            return max(_MATERIAL_SHARE * level, of_range)
        return _MATERIAL_SHARE * covered

    def width_at(self, level: float) -> float:
        """The width that the noise of the run has at a level, also one it has left since."""
        return self._noise.lasting_width(self._unit(level))

    def tail_at(self, level: float) -> float:
        """The farthest that a point stood above its level, at the height of another level."""
        return self._noise.tail(self._unit(level))

    def share_of_gain(self, share: float, best: float, *, most: float) -> float:
        """A share of what was gained from the start to the best level.

        If a loss above zero fell by orders of magnitude, its gain is far larger than its level.
        Then ``most``, a share of the best level, is enough.
        """
        of_gain = share * self.gained(best)
        return min(of_gain, most * best) if self.lowest > 0 else of_gain

    def gained(self, best: float) -> float:
        """How far the best level is below the start; 0 where it is not."""
        return 0.0 if self.start is None else max(0.0, self.start - best)

    # -- judging and learning ---------------------------------------------------------------------

    def _judge(self, position: int, value: float) -> float:
        """Compare a value with the points before; returns it as the curve has it."""
        scaled = math.log(max(value, 1e-300)) if self.is_log else value
        self.newest = (position, value)
        if len(self._settled) < _LEVEL_LEAST:
            self.level = self.width = self.outlier_limit = self.distance = None
            self.stands_out = False
            return scaled
        level = self._settled.median()
        self.level, self.distance = level, scaled - level
        unit = self._unit(level)
        self.width = self._noise.width(unit)
        least = 0.0 if self.is_log else self.least_change(level)
        tail = self._noise.farthest(unit)
        # Few distances have not shown their tail yet.
        caution = 1 + _SPIKE_CAUTION / max(1, len(self._noise))
        self.outlier_limit = max(
            _SPIKE_WIDTHS * self.width, _SPIKE_OVER_TAIL * tail * caution, least
        )
        is_known = len(self._noise) >= _NOISE_LEAST
        # A new level that was to be expected is no surprise, unless nothing was ever as high.
        is_surprise = self._grace == 0 or value > self.highest
        self.stands_out = is_known and is_surprise and self.distance > self.outlier_limit > 0
        return scaled

    def _learn(self, scaled: float) -> None:
        self._grace = max(0, self._grace - 1)
        if self.distance is not None and self.outlier_limit is not None:
            self._remember(
                min(self.distance, self.outlier_limit) if self.stands_out else self.distance
            )
        self._row_of_outliers = self._row_of_outliers + 1 if self.stands_out else 0
        if self._row_of_outliers >= _ACCEPT:
            self._settled = Recent(_LEVEL_POINTS)
            self._row_of_outliers = 0
        elif not self.stands_out:
            self._settled.push(scaled)

    def _widen(self, value: float) -> None:
        self.highest, self.lowest = max(self.highest, value), min(self.lowest, value)

    def _remember(self, distance: float) -> None:
        """Store a distance; of several outliers in a row only the first."""
        if not (self.stands_out and any(self.outliers)):
            assert self.level is not None
            self._noise.remember(distance, unit=self._unit(self.level))
        self.outliers.append(self.stands_out)

    def _unit(self, level: float) -> float | None:
        """The level that noise is a share of: none for logarithms and for what reached zero."""
        return level if not self.is_log and self.lowest > 0 else None


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
