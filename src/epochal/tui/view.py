"""What the person at the keyboard has chosen to see in charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, get_args

from epochal.series.series import X
from epochal.tui.zoom import Zoom

T = TypeVar("T")

_SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
_AXES: tuple[X, ...] = get_args(X)


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
