"""Which part of the x axis is looked at; a view that shows the end goes on showing it."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    Shares, so that the same zoom fits every chart; ``held`` is the axis as it was when its end was
    left, so that what is looked at stays in place while the run goes on.
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
