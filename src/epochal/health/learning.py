"""Whether a training learns, by its losses: growth that goes with learning is no fault."""

from __future__ import annotations

from statistics import median

from epochal.health.context import Context
from epochal.health.curve import Curve

_POINTS = 20
_FEW = 4
# Of the noise of single points: three standard errors of a difference of two such levels.
_WIDTHS = 1.5
_SHARE = 0.02
# Of the start: what has fallen so far has learned most of what it will, or is on its way.
_LEARNED = 0.2


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


def is_hurt(curve: Curve | None) -> bool:
    """Whether a loss has gained nothing, or stands above its best level; so if it is not known.

    What grows while a loss that has fallen is as low as ever does no harm so far.
    """
    if curve is None or len(curve.blocks) < 2:
        return True
    best, now = min(block.level for block in curve.blocks.all()), curve.recent_level(_POINTS // 2)
    size = abs(best) if curve.lowest > 0 else curve.highest - curve.lowest
    least = max(2 * _WIDTHS * curve.width_at(best), 5 * _SHARE * size)
    return now - best > least or curve.gained(best) <= least


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
