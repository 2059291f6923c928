"""What the profiler found, as numbers and as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epochal.errors import UsageError
from epochal.torch.graph.clocks import HostClock
from epochal.torch.graph.profiler import Pass


@dataclass(frozen=True, slots=True)
class NodeTime:
    """One node's time in a pass; backward is nan where there was none.

    A node of a labelled graph inside is named 'label.node' and `inside` that graph's node, whose
    time includes its own.
    """

    name: str
    level: int
    forward_ms: float
    backward_ms: float
    inside: str | None = None

    @property
    def total_ms(self) -> float:
        """Forward and backward together."""
        return self.forward_ms + (0.0 if math.isnan(self.backward_ms) else self.backward_ms)


@dataclass(frozen=True, slots=True)
class LevelTime:
    """The forward of all nodes of a level: on the clock, and summed over the nodes."""

    level: int
    nodes: int
    wall_ms: float
    summed_ms: float

    @property
    def parallelism(self) -> float:
        """How many nodes ran at once on average; 1 when one ran after the other."""
        return self.summed_ms / self.wall_ms if self.wall_ms > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Profile:
    """The median pass; the first, in which libraries set themselves up, is left out of several.

    `overhead_ms` is what the measuring itself took on the host, in the median pass.
    """

    nodes: tuple[NodeTime, ...]
    levels: tuple[LevelTime, ...]
    forward_ms: float
    backward_ms: float
    overhead_ms: float
    passes: int
    device: str

    def node(self, name: str) -> NodeTime | None:
        """The time of a node, by its name."""
        return next((node for node in self.nodes if node.name == name), None)

    def text(self) -> str:
        """A table, the slowest node first, with what the measuring cost below it."""
        ordered = sorted(self.nodes, key=lambda node: -node.total_ms)
        width = max([4, *(len(node.name) for node in ordered)])
        whole = sum(node.total_ms for node in ordered if node.inside is None) or math.nan
        lines = [f"{'node':<{width}}  {'forward':>10}  {'backward':>10}  {'share':>6}"]
        lines += [
            f"{node.name:<{width}}  {format_time(node.forward_ms):>10}  "
            f"{format_time(node.backward_ms):>10}  {100 * node.total_ms / whole:5.1f}%"
            for node in ordered
        ]
        lines += [
            f"level {level.level}: {format_time(level.wall_ms)} for {level.nodes} nodes, "
            f"parallelism {level.parallelism:.2f}"
            for level in self.levels
            if level.nodes > 1
        ]
        lines.append(
            f"{self.passes} passes on {self.device}: forward {format_time(self.forward_ms)}, "
            f"backward {format_time(self.backward_ms)}; measuring took "
            f"{format_time(self.overhead_ms)} a pass on the host"
        )
        return "\n".join(lines)


def profile_of(
    passes: Sequence[Pass], *, levels: Mapping[str, int], names: Sequence[str]
) -> Profile:
    """Sum up passes, waiting for those that a GPU still works on.

    `levels` may be empty, for a module that has none. Raises ValueError without a finished pass.
    """
    finished = [one for one in passes if one.ended is not None]
    if not finished:
        raise UsageError(
            "No pass was timed: enable profiling, then run the module; a compiled one is a single "
            "kernel to the profiler and must be profiled before torch.compile."
        )
    counted = finished[1:] or finished
    forward = [_by_name(one, one.calls) for one in counted]
    backward = [_by_name(one, one.backward) for one in counted if one.backward]
    nodes = tuple(
        NodeTime(
            name,
            levels.get(name, 0),
            _median(name, forward),
            _median(name, backward),
            next(iter(finished[-1].around.get(name, ())), None),
        )
        for name in names
        if any(name in one for one in forward)
    )
    with_backward = [one for one in counted if one.backward]
    return Profile(
        nodes=nodes,
        levels=_levels(counted, levels) if levels else (),
        forward_ms=statistics.median(
            one.clock.milliseconds(one.begun, one.ended) for one in counted
        ),
        backward_ms=statistics.median(map(_backward_ms, with_backward)) if backward else math.nan,
        overhead_ms=statistics.median(one.overhead_ns / 1e6 for one in counted),
        passes=len(counted),
        device="cpu" if isinstance(counted[-1].clock, HostClock) else "cuda",
    )


def pass_times(one: Pass) -> dict[str, tuple[float, float]]:
    """Forward and backward milliseconds of each node in one pass."""
    forward, backward = _by_name(one, one.calls), _by_name(one, one.backward)
    return {name: (ms, backward.get(name, math.nan)) for name, ms in forward.items()}


def format_time(milliseconds: float) -> str:
    """Write a short time as ``312 µs`` or ``1.24 ms``; a dash when unknown."""
    if not math.isfinite(milliseconds):
        return "—"
    if round(milliseconds * 1000) < 1000:
        return f"{milliseconds * 1000:.0f} µs"
    return f"{milliseconds:.2f} ms"


def _by_name(one: Pass, marks: Sequence[tuple[str, object, object]]) -> dict[str, float]:
    times: dict[str, float] = {}
    for name, start, end in marks:
        times[name] = times.get(name, 0.0) + one.clock.milliseconds(start, end)
    return times


def _backward_ms(one: Pass) -> float:
    times = _by_name(one, one.backward)
    return sum(time for name, time in times.items() if name not in one.around)


def _median(name: str, passes: Sequence[Mapping[str, float]]) -> float:
    times = [one[name] for one in passes if name in one]
    return statistics.median(times) if times else math.nan


def _levels(passes: Sequence[Pass], levels: Mapping[str, int]) -> tuple[LevelTime, ...]:
    found: dict[int, list[tuple[float, float, int]]] = {}
    for one in passes:
        by_level: dict[int, list[tuple[str, object, object]]] = {}
        for call in one.calls:
            if call[0] not in one.around:
                by_level.setdefault(levels.get(call[0], 0), []).append(call)
        for level, calls in by_level.items():
            wall = one.clock.milliseconds(calls[0][1], calls[-1][2])
            summed = sum(one.clock.milliseconds(start, end) for _, start, end in calls)
            found.setdefault(level, []).append((wall, summed, len(calls)))
    return tuple(
        LevelTime(
            level,
            max(count for _, _, count in times),
            statistics.median(wall for wall, _, _ in times),
            statistics.median(summed for _, summed, _ in times),
        )
        for level, times in sorted(found.items())
    )
