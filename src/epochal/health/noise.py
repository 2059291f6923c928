"""How far points lie from their level: the usual, and the farthest that was seen."""

from __future__ import annotations

from epochal.health.curve_thresholds import CurveThresholds
from epochal.health.recent import Recent

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

    __slots__ = ("_distances", "_late", "_unit")

    def __init__(self, thresholds: CurveThresholds) -> None:
        self._unit: float | None = None
        self._distances = Recent(thresholds.memory)
        self._late = Recent(thresholds.noise_points)

    def __len__(self) -> int:
        return len(self._distances)

    def remember(self, distance: float, *, unit: float | None) -> None:
        """Keep a distance; ``unit`` is the level it is a share of, None where there is none."""
        if (unit is None) != (self._unit is None):
            for kept in (self._distances, self._late):
                _rescale(kept, (self._unit or 1.0) / (unit or 1.0))
        self._unit = unit
        share = distance if unit is None else distance / unit
        self._distances.push(share)
        self._late.push(share)

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


def _spread(distances: Recent) -> float:
    if not len(distances):
        return 0.0
    return (distances.quantile(0.75) - distances.quantile(0.25)) * _DEVIATION_PER_MIDDLE


def _rescale(kept: Recent, factor: float) -> None:
    values = kept.newest(len(kept))
    kept.drop_newest(len(kept))
    for value in values:
        kept.push(value * factor)
