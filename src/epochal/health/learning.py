"""Whether a training learns, by its losses: growth that goes with learning is no fault."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from epochal.health.context import Context
from epochal.health.curve import Curve

_POINTS = 20
_FEW = 4
# Of the noise of single points: three standard errors of a difference of two such levels.
_WIDTHS = 1.5
_SHARE = 0.02
# Of the start: what has fallen so far has learned most of what it will, or is on its way.
_LEARNED = 0.2
# The last fall over the first, of a line.
_STRAIGHT = 0.45
# Points whose neighbours are compared; how many times noisier and steeper a loss is that is lost.
# It is asked at every point of a rise: the noise of 30 points is three times as large by chance.
_ROUGH_POINTS = 60
_NOISIER = 3.0
_NOISIER_SHARE = 1.8
_STEEPER = 1.6
_OUTGROWN = 1.3
# Of an evaluation loss: so little worse is no harm.
_UNHARMED = 0.05


def has_learned(curve: Curve | None, *, share: float = _LEARNED) -> bool:
    """Whether a loss is a fifth, or another share, below its start, and far beyond its noise."""
    if curve is None or curve.start is None or curve.count < _POINTS:
        return False
    fell = curve.start - curve.recent_level(_POINTS // 2)
    return fell > max(share * abs(curve.start), 5 * (curve.width or 0.0))


def share_left(curve: Curve | None, first: int, last: int) -> float | None:
    """The loss in the last quarter of a stretch over that in its second quarter.

    The first quarter is left out: any loss falls from where it starts. None where the loss is not
    above zero, or has too few points to tell.
    """
    if curve is None or curve.axis != "step" or curve.lowest <= 0:
        return None
    quarter = (last - first) / 4
    early = [v for at, v in curve.points if first + quarter <= at < first + 2 * quarter]
    late = [v for at, v in curve.points if first + 3 * quarter <= at <= last]
    if min(len(early), len(late)) < _FEW:
        return None
    return median(late) / median(early)


def falls_straight(curve: Curve | None) -> bool:
    """Whether a loss has fallen from the first point on, as fast in the end as in the beginning.

    Four quarters are compared. Each is below the one before it, beyond doubt.
    """
    if curve is None or curve.lowest <= 0 or len(curve.blocks) < 4 * _FEW:
        return False
    levels = [block.level for block in curve.blocks.all()]
    size = len(levels) // 4
    quarters = [levels[n * size : (n + 1) * size] for n in range(4)]
    means = [fmean(one) for one in quarters]
    falls = [a - b for a, b in pairwise(means)]
    # The fall within a quarter makes its deviation large: what is left of a line is the error.
    error = max(_bend(one) for one in quarters) / math.sqrt(size)
    return min(falls) > 4 * error and falls[-1] > _STRAIGHT * falls[0]


def _bend(levels: Sequence[float]) -> float:
    """How far levels lie from the lines between their neighbours, as a deviation of single ones."""
    threes = zip(levels, levels[1:], levels[2:], strict=False)
    return median(abs(a - 2 * b + c) for a, b, c in threes) / 0.6745 / math.sqrt(6)


def has_fallen_since(curve: Curve | None, step: int, *, share: float = _SHARE) -> bool:
    """Whether a loss is below its level at a step, by a share of it and beyond its noise."""
    if curve is None or curve.count < 2 * _POINTS:
        return False
    blocks = curve.blocks.all()
    then = next((block.level for block in blocks if block.last >= step), None)
    if then is None:
        return False
    now = curve.recent_level(_POINTS)
    return then - now > max(_WIDTHS * curve.width_at(now), share * abs(then))


def has_risen(curve: Curve | None) -> bool:
    """Whether a loss stands above its best level, beyond its noise; so if it is not known."""
    if curve is None or len(curve.blocks) < 2:
        return True
    best, least = _best(curve)
    return curve.recent_level(_POINTS // 2) - best > least


def has_lost_all(curve: Curve | None) -> bool:
    """Whether a loss stands above its first level, beyond its noise; so if it is not known."""
    if curve is None or curve.start is None or len(curve.blocks) < 2:
        return True
    _, least = _best(curve)
    return has_risen(curve) and curve.recent_level(_POINTS // 2) - curve.start > least


def is_hurt(curve: Curve | None) -> bool:
    """Whether a loss has gained nothing, or stands above its best level; so if it is not known.

    What grows while a loss that has fallen is as low as ever does no harm so far.
    """
    if curve is None or len(curve.blocks) < 2 or has_risen(curve):
        return True
    best, least = _best(curve)
    return curve.gained(best) <= least


def _best(curve: Curve) -> tuple[float, float]:
    """The best level, and the least rise from it that is not noise."""
    best = min(block.level for block in curve.blocks.all())
    return best, max(2 * _WIDTHS * curve.width_at(best), 5 * _SHARE * _size(curve, best))


def is_rougher(
    curve: Curve, norm: Curve | None, since: int, *, by_level: bool = False
) -> tuple[bool, bool]:
    """Whether a loss is far noisier than at an earlier step, and whether gradients have grown.

    ``by_level``: noise is compared as a share of the level, as the noise of a loss grows with it.

    A loss that is lost to steps too large has both. Harder terms of a loss, such as one whose
    weight grows, lift it evenly. Both are so where not enough points are left to tell.
    """
    before = [value for at, value in curve.points if at <= since][-_ROUGH_POINTS:]
    newest = curve.window(_ROUGH_POINTS)
    few = min(len(before), len(newest)) < _FEW
    least = _NOISIER
    if by_level and not few and curve.lowest > 0:
        least = _NOISIER_SHARE * median(newest) / median(before)
    is_noisier = few or _roughness(newest) > least * _roughness(before)
    norms = [] if norm is None else [v for at, v in norm.points if at <= since][-_POINTS:]
    if norm is None or len(norms) < _FEW:
        return is_noisier, True
    return is_noisier, median(norm.window(_POINTS)) > _STEEPER * median(norms)


def outgrows(curve: Curve, norm: Curve | None, since: int) -> bool:
    """Whether gradients have grown more than the loss since a step; so if they are not known.

    A term that grows, as that of codes which follow an encoder, lifts both alike.
    """
    levels = [value for at, value in curve.points if at <= since][-_POINTS:]
    norms = [] if norm is None else [v for at, v in norm.points if at <= since][-_POINTS:]
    if norm is None or min(len(levels), len(norms)) < _FEW or curve.lowest <= 0:
        return True
    grown = median(norm.window(_POINTS)) / max(median(norms), 1e-300)
    return grown > _OUTGROWN * median(curve.window(_POINTS)) / median(levels)


def _roughness(values: list[float]) -> float:
    return median(abs(b - a) for a, b in pairwise(values))


def evaluation_stands(context: Context, step: int) -> bool:
    """Whether evaluations since a step are about as good as those before it, or better.

    A training loss that rises meanwhile is of harder data, or of another objective.
    """
    curve = context.curves.get("eval_loss")
    sides = _before_and_since(curve, step)
    if curve is None or sides is None:
        return False
    best, newest = sides
    return max(newest) < best + _UNHARMED * _size(curve, best)


def evaluation_suffers(context: Context, step: int) -> bool:
    """Whether two evaluations since a step lost half of what the best one before had gained."""
    curve = context.curves.get("eval_loss")
    sides = _before_and_since(curve, step)
    if curve is None or sides is None or curve.first is None:
        return False
    best, newest = sides
    return min(newest) - best > max((curve.first - best) / 2, _LEARNED * _size(curve, best))


def _before_and_since(curve: Curve | None, step: int) -> tuple[float, list[float]] | None:
    """The best point up to a step, and the last two since; None where there are too few."""
    if curve is None or curve.axis != "step":
        return None
    before = [value for position, value in curve.points if position <= step]
    since = [value for position, value in curve.points if position > step]
    return (min(before), since[-2:]) if before and len(since) > 1 else None


def _size(curve: Curve, level: float) -> float:
    """What shares of a level are taken of: the level, or the range of a curve that reaches zero."""
    return abs(level) if curve.lowest > 0 else curve.highest - curve.lowest


def evaluation_gains(context: Context, step: int) -> bool:
    """Whether the evaluation loss is lower than it ever was up to a step.

    A training loss that rises meanwhile is of harder data, or of another objective.
    """
    curve = context.curves.get("eval_loss")
    if curve is None or curve.axis != "step":
        return False
    before = [value for position, value in curve.points if position <= step]
    # Without the first third: soon after its best level a loss has not risen yet.
    middle = step + ((context.step or step) - step) / 3
    since = [value for position, value in curve.points if position > middle]
    return bool(before) and len(since) > 1 and max(since[-2:]) < min(before)
