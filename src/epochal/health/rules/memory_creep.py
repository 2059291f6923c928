"""Memory that grows and grows: a leak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from epochal.format import format_bytes, format_duration
from epochal.health.growth import Growth, GrowthThresholds, GrowthWatch
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict

if TYPE_CHECKING:
    from epochal.health.context import Context

_HOST = ("system/rss", "system/children_rss")
_HOST_ADVICE = (
    "Look for tensors kept with their graph (log loss.item() or detach), lists that only grow, and "
    "workers that hold large Python objects; count live tensors at two steps and compare."
)
_GPU_ADVICE = (
    "Look for tensors kept with their graph (log loss.item() or detach), caches keyed by shape, "
    "and lengths that keep growing; count live tensors at two steps and compare."
)


class MemoryCreep(Rule):
    """The floor of a process's or GPU's memory rises in every part of a window, without slowing.

    Each figure is watched over two windows, ten minutes and an hour of telemetry at first.
    """

    name = "memory-creep"
    group = "memory"
    meaning = "Memory grows steadily. The program keeps objects that it no longer needs."
    healthy = (
        "Constant after some minutes. A sawtooth, caches that fill up and steps of an allocator "
        "are normal."
    )
    reports = {
        "warning": (
            "The minimum rises in every sixth of ten minutes or an hour, without slowing down, "
            "by 6 % and 64 MiB. The finding is open as long as the memory grows."
        )
    }
    kinds = frozenset({"system", "gpu", "allocator"})
    replaces_text = True
    release = 6

    class Thresholds(GrowthThresholds):
        # Six blocks of ten records each (ten minutes at first): collectors and caches breathe
        # within.
        window: int = 60
        # And six times as long, for leaks of a slow kind.
        long_factor: int = 6
        # Less than this is what allocators round by.
        min_bytes: float = 64.0 * 1024**2
        share: float = 0.06

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._watches: dict[str, _TwoWindows] = {}
        self._began: dict[str, tuple[float, float]] = {}  # when and where what is open began
        self._children: dict[str, float] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check each figure of one record separately."""
        started = context.started if context.started is not None else observation.t
        if observation.t - started < self.thresholds.skip_s:
            return
        for name, value in observation.values.items():
            if name in _HOST or name.endswith(("/dram_used", "/device")):
                yield self._judge(observation, name, value, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Start again: a new attempt is a new process."""
        self._watches.clear()
        self._began.clear()
        self._children.clear()

    def _judge(
        self, observation: Observation, name: str, value: float, context: Context
    ) -> Verdict:
        key = f"{observation.rank}/{observation.writer}/{name}"
        subject = name if observation.rank <= 0 else f"{name} of rank {observation.rank}"
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = _TwoWindows(self.thresholds)
        if name == "system/children_rss" and self._has_other_children(key, observation):
            watch.clear()
        is_open = context.is_open(self.name, subject)
        if not is_open:
            self._began.pop(key, None)
        # What has grown by a share of itself goes on as long as it grows at all: at an even pace
        # a window's rise becomes an ever smaller share.
        growths = watch.observe(observation.t, value)
        growth = next((one for one in growths if is_open or self._matters(one)), None)
        if growth is None:
            return Verdict(subject, active=False)
        since, before = self._began.setdefault(key, (growth.since, growth.before))
        if growth.since < since:  # the long window knows more of it
            since, before = self._began[key] = (growth.since, growth.before)
        hourly = 3600 * growth.per_second
        return Verdict(
            subject,
            active=True,
            sentence=f"{_what(name, observation)} grew from {format_bytes(before)} to "
            f"{format_bytes(growth.after)} within {format_duration(growth.until - since)}, "
            f"by {format_bytes(hourly)} an hour, without slowing down.",
            evidence={
                "before_bytes": before,
                "now_bytes": growth.after,
                "per_hour_bytes": round(hourly),
            },
            advice=_HOST_ADVICE if name in _HOST else _GPU_ADVICE,
        )

    def _matters(self, growth: Growth) -> bool:
        limits = self.thresholds
        return growth.rise >= max(limits.min_bytes, limits.share * growth.before)

    def _has_other_children(self, key: str, observation: Observation) -> bool:
        """Whether workers came or went, which is no growth."""
        children = observation.values.get("system/children", 0.0)
        before = self._children.get(key, children)
        self._children[key] = children
        return children != before


class _TwoWindows:
    """One figure over a short and a long window; a finding of one stays until it is over."""

    def __init__(self, limits: MemoryCreep.Thresholds) -> None:
        self._short, self._long = (
            GrowthWatch(
                window=limits.window,
                blocks=limits.blocks,
                swing=limits.swing,
                steady=limits.steady,
                lasting=limits.lasting,
            )
            for _ in range(2)
        )
        self._factor = limits.long_factor
        self._group: list[float] = []

    def observe(self, t: float, value: float) -> Iterator[Growth]:
        """Take in one sample; gives the growth over the short window and over the long one."""
        self._short.push(t, value)
        self._group.append(value)
        if len(self._group) == self._factor:
            self._long.push(t, min(self._group))
            self._group.clear()
        for window in (self._short, self._long):
            growth = window.growth()
            if growth is not None:
                yield growth

    def clear(self) -> None:
        """Forget everything."""
        self._short.clear()
        self._long.clear()
        self._group.clear()


def _what(name: str, observation: Observation) -> str:
    whose = "" if observation.rank <= 0 else f" of rank {observation.rank}"
    if name == "system/rss":
        return f"The memory of the training process{whose}"
    if name == "system/children_rss":
        return f"The memory of the process's workers{whose}"
    if name.endswith("/dram_used"):
        return f"The memory in use on GPU {observation.record.get('id', 0)}"
    return f"The device memory {name.removeprefix('memory/').removesuffix('/device')}{whose}"
