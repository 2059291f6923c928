"""What the person at the keyboard has chosen to see in charts, and which part of the x axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from epochal.series.series import X_KINDS, X

_PAN = 0.25
_CLOSEST = 2.0**-20


@dataclass(frozen=True, slots=True)
class Extent:
    """From where to where an axis goes, and what it counts."""

    kind: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Zoom:
    """A share of the axis, from 0 to 1, and where it ends; ``end=None`` stays at the newest point.

    They are shares, so the same zoom fits every chart. ``held`` is the axis as it was when its end
    was left: what is shown stays in place while the run continues.
    """

    share: float = 1.0
    end: float | None = None
    held: Extent | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything is looked at."""
        return self.share >= 1

    def window(self, extent: Extent) -> tuple[float, float]:
        """The range that is looked at of an axis."""
        if self.is_whole:
            return extent.low, extent.high
        if self.held is not None and self.held.kind == extent.kind:
            extent = self.held
        length = extent.high - extent.low
        end = extent.low + length * (1.0 if self.end is None else self.end)
        return max(extent.low, end - length * self.share), end

    def closer(self) -> Zoom:
        """Half of the range: its end where that is followed, else its middle."""
        share = max(self.share / 2, _CLOSEST)
        if self.end is None:
            return Zoom(share)
        return replace(self, share=share, end=self.end - (self.share - share) / 2)

    def wider(self) -> Zoom:
        """Twice the range."""
        share = self.share * 2
        if share >= 1:
            return Zoom()
        if self.end is None:
            return Zoom(share)
        return _kept(replace(self, share=share, end=self.end + (share - self.share) / 2))

    def moved(self, direction: int, extent: Extent | None = None) -> Zoom:
        """A quarter of the range to the left (-1) or to the right (1) on an axis as it is now."""
        if self.is_whole:
            return self
        end = 1.0 if self.end is None else self.end
        held = extent if self.held is None else self.held
        return _kept(replace(self, end=end + direction * _PAN * self.share, held=held))


def _kept(zoom: Zoom) -> Zoom:
    """The nearest one that does not leave the axis; at its end it follows."""
    assert zoom.end is not None
    if zoom.end >= 1:
        return Zoom(zoom.share)
    return replace(zoom, end=max(zoom.end, zoom.share))


T = TypeVar("T")

_SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
_AXES: tuple[X, ...] = X_KINDS


@dataclass(frozen=True, slots=True)
class View:
    """How charts are drawn; ``metric`` is the series of the large chart, None the headline."""

    metric: str | None = None
    metric_filter: str = ""
    smoothing: float = 0.0
    is_log: bool = False
    clips_outliers: bool = False
    x: X = "step"
    zoom: Zoom = field(default_factory=Zoom)
    is_paused: bool = False

    @property
    def modes(self) -> list[str]:
        """What differs from the defaults, in words."""
        modes = [
            (self.is_log, "log"),
            (self.clips_outliers, "no outliers"),
            (self.smoothing > 0, f"smooth {self.smoothing:g}"),
            (not self.zoom.is_whole, f"zoom {1 / self.zoom.share:g}x"),
            (self.x != "step", f"x {self.x}"),
            (self.is_paused, "held"),
        ]
        return [text for is_on, text in modes if is_on]


def _after(choices: Sequence[T], chosen: T) -> T:
    return choices[(choices.index(chosen) + 1) % len(choices)]


CHANGES: Mapping[str, Callable[[View], View]] = {
    "closer": lambda view: replace(view, zoom=view.zoom.closer()),
    "wider": lambda view: replace(view, zoom=view.zoom.wider()),
    "whole": lambda view: replace(view, zoom=Zoom()),
    "smoothing": lambda view: replace(view, smoothing=_after(_SMOOTHINGS, view.smoothing)),
    "log axis": lambda view: replace(view, is_log=not view.is_log),
    "outliers": lambda view: replace(view, clips_outliers=not view.clips_outliers),
    "axis": lambda view: replace(view, x=_after(_AXES, view.x), zoom=Zoom()),
}
