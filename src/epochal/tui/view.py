"""What the person at the keyboard has asked to see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from epochal.store.along import X
from epochal.store.process_action import ProcessAction
from epochal.tui.zoom import Zoom

Tab = Literal["overview", "charts", "system", "log", "text", "config"]
TABS: tuple[Tab, ...] = get_args(Tab)
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)


@dataclass(frozen=True, slots=True)
class Typing:
    """A line being typed: which filter it is for, and what it was before."""

    what: Literal["runs", "metrics"]
    before: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything about a screen that is not data.

    ``shows_runs=None`` shows the list of runs where there is room; ``metric`` is the series of the
    large chart, None the headline; ``scroll`` counts lines from where a tab begins; ``asking`` is
    what the next key would have done to the run.
    """

    tab: Tab = "overview"
    shows_help: bool = False
    shows_runs: bool | None = None
    is_paused: bool = False
    typing: Typing | None = None
    run_filter: str = ""
    metric_filter: str = ""
    metric: str | None = None
    is_enlarged: bool = False
    smoothing: float = 0.0
    is_log: bool = False
    clips_outliers: bool = False
    x: X = "step"
    zoom: Zoom = field(default_factory=Zoom)
    scroll: int = 0
    asking: ProcessAction | None = None
