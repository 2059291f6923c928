"""How long each node took, epoch by epoch: the same history and trends as any metric has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from epochal.errors import UsageError
from epochal.series.trend import Trend, TrendGroup
from epochal.torch.graph.drawing import drawing
from epochal.torch.graph.names import listed_names
from epochal.torch.graph.observe import Observation
from epochal.torch.graph.profile_report import pass_times
from epochal.torch.graph.profiler import Profiler
from epochal.torch.graph.tables import write_table

Direction = Literal["total", "forward", "backward"]


class Timings:
    """Milliseconds per node, from every pass that was profiled; one point per flush.

    A node's name is its tag, else its id. `end_step` collects and `end_epoch` flushes them.
    """

    def __init__(self, expanded: Callable[[list[str]], list[str]]) -> None:
        self._expanded = expanded
        self._observations: dict[str, Observation] = {
            way: Observation() for way in get_args(Direction)
        }

    def collect(self, profiler: Profiler, *, wait: bool = False) -> None:
        """Take the passes that are over; with `wait` also those a GPU still works on."""
        for one in profiler.take(wait=wait):
            for name, (forward, backward) in pass_times(one).items():
                self._observations["forward"].record(name, forward)
                total = forward
                if not math.isnan(backward):
                    self._observations["backward"].record(name, backward)
                    total += backward
                self._observations["total"].record(name, total)

    def flush(self) -> None:
        """Make one point of what was collected."""
        for observation in self._observations.values():
            observation.flush()

    def names(self) -> list[str]:
        """The nodes that were timed."""
        return self._observations["total"].names()

    def trend(self, name: str, direction: Direction = "total") -> Trend:
        """One node's mean milliseconds per pass, a point per flush."""
        return Trend(self._of(direction).points(name).values)

    def trends(self, names: Sequence[str] = (), direction: Direction = "total") -> TrendGroup:
        """Several nodes' trends, groups expanded; all without names."""
        chosen = self._expanded(listed_names(names)) or self.names()
        return TrendGroup({name: self.trend(name, direction) for name in chosen})

    def plot_html(self, path: str | Path, names: Sequence[str] = ()) -> None:
        """Draw the trends into one self-contained file, in milliseconds."""
        drawing().plot_html(path, self._points(names), title="Milliseconds per pass")

    def export_trends(self, path: str | Path, names: Sequence[str] = ()) -> None:
        """Write the trends as CSV, in milliseconds."""
        write_table(path, self._points(names))

    def _points(self, names: Sequence[str]) -> dict[str, Any]:
        observation = self._observations["total"]
        chosen = self._expanded(listed_names(names)) or observation.names()
        return {name: observation.points(name) for name in chosen}

    def _of(self, direction: Direction) -> Observation:
        if direction not in self._observations:
            raise UsageError(
                f"direction={direction!r} is not known: use 'total', 'forward' or 'backward'."
            )
        return self._observations[direction]
