"""The course of the loss, described once for all rules: its best level, its falls, its rates.

A level is a median of recent points. Everything here is kept up to date in constant time per point;
questions about the whole run are answered from its blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from statistics import median
from typing import NamedTuple

from epochal.health.curve import Curve

_POINTS = 20  # of the level now
_FEW = 4
_SURE = 2.5  # standard errors of a slope: once in 160 by chance
# Of the noise of single points: three standard errors of a difference of two levels.
_WIDTHS = 1.5
_SHARE = 0.02  # of a level: less is no fall
_LEARNED = 0.2  # of the start: what has fallen so far has learned something
# Points whose neighbours are compared; how many times noisier and steeper a lost loss is.
_ROUGH_POINTS = 60
_NOISIER, _NOISIER_SHARE, _STEEPER, _OUTGROWN = 3.0, 1.8, 1.6, 1.3
_UNHARMED = 0.05  # of an evaluation loss: so little worse is no harm


class Course:
    """Follows one loss.

    ``best`` is the lowest level of two neighbouring blocks since a shift was last expected, at the
    position ``best_at``; the newest two blocks cannot be the best. ``before`` is the best level
    before that shift. ``level`` is the level now, and ``worst`` the largest rise from which the
    loss has recovered.
    """

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.worst = 0.0
        self.level = math.nan
        self.forget()

    def forget(self) -> None:
        """Search the best level again; what the loss recovered from is kept."""
        self.best: float | None = None
        self.before: float | None = None
        self.best_at = 0
        self._highest = 0.0
        self._num_blocks = 0

    def follow(self) -> None:
        """Process the newest point of the curve."""
        curve = self.curve
        if curve.is_shifting:
            if self.best is not None:
                best = self.best
                self.forget()
                self.before = best
            return
        self._find_best()
        if self.best is None:
            return
        self.level = curve.recent_level(_POINTS)
        # A rise undone by more than half is one that this run recovers from.
        self._highest = max(self._highest, self.height)
        if self.height < self._highest / 2:
            self.worst = max(self.worst, self._highest)
            self._highest = max(self.height, 0.0)

    @property
    def is_known(self) -> bool:
        """Whether there is a best level to compare with."""
        return self.best is not None and not self.curve.is_shifting

    @property
    def height(self) -> float:
        """How far the level is above the best; 0 while there is no best."""
        return 0.0 if self.best is None else self.level - self.best

    @property
    def gained(self) -> float:
        """How far the best level is below the start."""
        return 0.0 if self.best is None else self.curve.gained(self.best)

    @property
    def size(self) -> float:
        """What shares of the best level are taken of: the range, if the loss reaches zero."""
        curve = self.curve
        return abs(self.best or 0.0) if curve.lowest > 0 else curve.highest - curve.lowest

    @property
    def least_rise(self) -> float:
        """The least rise from the best level that is not noise."""
        best = self.best or 0.0
        return max(2 * _WIDTHS * self.curve.width_at(best), 5 * _SHARE * self.size)

    def _find_best(self) -> None:
        blocks, count = self.curve.blocks, len(self.curve.blocks)
        if count == self._num_blocks:
            return
        # Blocks are joined when they are too many, and then searched again from the first.
        begin = max(0, self._num_blocks - 2) if 0 < self._num_blocks < count else 0
        self._num_blocks, since = count, self.curve.shifted_at
        for index in range(begin, count - 2):
            # The best of single blocks is half good luck; that of two neighbours less so.
            first, block = blocks[max(0, index - 1)], blocks[index]
            level = (first.level + block.level) / 2
            is_current = since is None or first.first > since
            if is_current and (self.best is None or level < self.best):
                self.best, self.best_at = level, block.last

    # -- questions --------------------------------------------------------------------------------

    def is_falling(self) -> bool:
        """Return True if the newest points lie along a line that clearly goes down."""
        window = self.curve.window(2 * _POINTS)
        if len(window) < 2 * _POINTS:
            return False
        fit = fit_line(window)
        return fit.slope < -_SURE * fit.slope_error

    def has_risen(self) -> bool:
        """Return True if the loss is above its best level by more than its noise."""
        return self.best is None or self.height > self.least_rise

    def has_lost_all(self) -> bool:
        """Return True if the loss is above its first level by more than its noise."""
        start = self.curve.start
        return self.has_risen() and (start is None or self.level - start > self.least_rise)

    def is_hurt(self) -> bool:
        """Return True if the loss has gained nothing, or is above its best level."""
        return self.has_risen() or self.gained <= self.least_rise

    def has_learned(self, share: float = _LEARNED) -> bool:
        """Return True if the loss is a share of its start below it, and far beyond its noise."""
        curve = self.curve
        if curve.start is None or curve.count < _POINTS:
            return False
        fell = curve.start - curve.recent_level(_POINTS // 2)
        return fell > max(share * abs(curve.start), 5 * (curve.width or 0.0))

    def has_fallen_since(self, position: int, share: float = _SHARE) -> bool:
        """Return True if the loss is below its level at a position, beyond its noise."""
        curve = self.curve
        then = curve.blocks.level_at(position)
        if curve.count < 2 * _POINTS or then is None:
            return False
        now = curve.recent_level(_POINTS)
        return then - now > max(_WIDTHS * curve.width_at(now), share * abs(then))

    def is_rougher(
        self, norm: Curve | None, since: int, *, by_level: bool = False
    ) -> tuple[bool, bool]:
        """Return whether the loss is far noisier than at a position, and gradients are larger.

        A loss that is lost to steps too large has both. Harder data lifts it evenly. With
        ``by_level``, noise is compared as a share of the level. Both are True with too few points.
        """
        curve = self.curve
        before = _until(curve, since)[-_ROUGH_POINTS:]
        newest = curve.window(_ROUGH_POINTS)
        few = min(len(before), len(newest)) < _FEW
        least = _NOISIER
        if by_level and not few and curve.lowest > 0:
            least = _NOISIER_SHARE * median(newest) / median(before)
        is_noisier = few or _roughness(newest) > least * _roughness(before)
        grown = _growth(norm, since)
        return is_noisier, grown is None or grown > _STEEPER

    def is_outgrown(self, norm: Curve | None, since: int) -> bool:
        """Return True if gradients have grown more than the loss; also if that is unknown.

        A term that gets more weight lifts both alike.
        """
        grown, risen = _growth(norm, since), _growth(self.curve, since)
        if grown is None or risen is None or self.curve.lowest <= 0:
            return True
        return grown > _OUTGROWN * risen


def evaluation_is_fine(evaluations: Curve | None, since: int) -> bool:
    """Return True if evaluations since a step are about as good as those before it, or better.

    A training loss that rises meanwhile is of harder data, or of another objective.
    """
    sides = _before_and_since(evaluations, since)
    if evaluations is None or sides is None:
        return False
    return max(sides[1]) < sides[0] + _UNHARMED * _eval_size(evaluations)


def evaluation_suffers(evaluations: Curve | None, since: int) -> bool:
    """Return True if two evaluations since a step lost half of what the best before had gained."""
    sides = _before_and_since(evaluations, since)
    if sides is None or evaluations is None or evaluations.first is None:
        return False
    best, newest = sides
    gained = evaluations.first - best
    return min(newest) - best > max(gained / 2, _LEARNED * _eval_size(evaluations))


def _before_and_since(curve: Curve | None, step: int) -> tuple[float, list[float]] | None:
    """Return the best evaluation up to a step, and the last two since; None with too few."""
    if curve is None or curve.axis != "step":
        return None
    before = _until(curve, step)
    since = [value for position, value in curve.points if position > step]
    return (min(before), since[-2:]) if before and len(since) > 1 else None


def _eval_size(curve: Curve) -> float:
    lowest = min(value for _, value in curve.points)
    return abs(lowest) if curve.lowest > 0 else curve.highest - curve.lowest


def _until(curve: Curve, position: int) -> list[float]:
    return [value for at, value in curve.points if at <= position]


def _growth(curve: Curve | None, since: int) -> float | None:
    """Return the newest level over that at a position; None with too few points."""
    before = [] if curve is None else _until(curve, since)[-_POINTS:]
    if curve is None or len(before) < _FEW:
        return None
    return median(curve.window(_POINTS)) / max(median(before), 1e-300)


def _roughness(values: Sequence[float]) -> float:
    return median(abs(b - a) for a, b in pairwise(values))


_LARGE = 1e100  # beyond it squares and their sums leave what a float holds


class LineFit(NamedTuple):
    """The least-squares slope per point and its standard error, for independent noise."""

    slope: float
    slope_error: float


def fit_line(values: Sequence[float]) -> LineFit:
    """Fit a line through at least three values."""
    size = max(map(abs, values))
    if size > _LARGE:
        slope, error = fit_line([value / size for value in values])
        return LineFit(slope * size, error * size)
    count = len(values)
    middle = (count - 1) / 2
    mean = math.fsum(values) / count
    across = count * (count * count - 1) / 12  # the sum of squared distances from the middle
    places = [i - middle for i in range(count)]
    slope = math.fsum(map(mul, places, values)) / across
    left = math.fsum([(v - mean - slope * at) ** 2 for at, v in zip(places, values, strict=True)])
    return LineFit(slope, math.sqrt(left / (count - 2) / across))


_LEAST_JUMP = 1.5
# Rises of the rate so few points apart are one: a warm-up, or a jump taken in steps.
_ONE_JUMP = 20


@dataclass(frozen=True, slots=True)
class RateJump:
    """A rise of the rate within a few points: where it began, from what, to what.

    ``is_new``: the run had never trained with such a rate before, as it has after a warm restart.
    """

    position: int
    before: float
    after: float
    is_new: bool

    @property
    def factor(self) -> float:
        """How many times the rate rose."""
        return self.after / self.before


class LearningRate:
    """Follows the learning rate point by point; None before the first."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.latest: float | None = None
        self.peak: float | None = None
        self.peak_since: int | None = None  # the position at which the peak was reached
        self.count = 0
        self.jump: RateJump | None = None  # the newest
        self.points_since_jump = 0

    def push(self, position: int, rate: float, *, is_point: bool = True) -> bool:
        """Take in the newest rate; True when it jumped upwards.

        One that is no point, but an extreme of skipped records, is not counted.
        """
        before, former_peak = self.latest, self.peak
        self.count += is_point
        self.latest = rate
        if self.first is None:
            self.first = rate
        if self.peak is None or rate > self.peak:
            self.peak, self.peak_since = rate, position
        self.points_since_jump += is_point
        if before is None or before <= 0 or rate <= _LEAST_JUMP * before:
            return False
        self._note_jump(position, before, rate, former_peak or before)
        return True

    def is_near_peak(self, share: float) -> bool:
        """Whether the rate is at least this share of its peak, a peak above zero."""
        if self.peak is None or self.latest is None or self.peak <= 0:
            return False
        return self.latest >= share * self.peak

    def began_at_peak(self, share: float) -> bool:
        """Whether the first rate was at least this share of the peak: there was no warm-up."""
        return self.first is not None and self.peak is not None and self.first >= share * self.peak

    def _note_jump(self, position: int, before: float, rate: float, former_peak: float) -> None:
        is_new = rate > _LEAST_JUMP * former_peak
        last = self.jump
        if last is not None and last.after == before and self.points_since_jump <= _ONE_JUMP:
            # Steps of one climb: what counts is where it began.
            position, before, is_new = last.position, last.before, last.is_new or is_new
        self.jump = RateJump(position, before, rate, is_new)
        self.points_since_jump = 0
