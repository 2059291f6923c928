"""Divides the time of a step into useful time and causes of lost time.

The input is the means of a ``phases`` record. Waiting for data, exchange between ranks, evaluation,
saving and the rest are the times of their phases. In the phases that compute, lost time has three
causes: a slow host, a clock below the one that the peak assumes, and kernels below the peak. They
are assigned in that order, because each is measured better than the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PREFIX = "phase/"
# What a phase is lost to; every other phase computes.
_CAUSES = {
    "data": "input_wait",
    "sync": "communication",
    "log": "host",
    "eval": "other",
    "save": "other",
    "other": "other",
}


@dataclass(frozen=True, slots=True)
class LostTime:
    """Shares of a step's time in percent, which add up to 100; ``useful`` is what light needs.

    ``limit`` says what held the clock down, None when nothing is known to have.
    """

    useful: float
    input_wait: float = 0.0
    communication: float = 0.0
    host: float = 0.0
    clocks: float = 0.0
    kernels: float = 0.0
    other: float = 0.0
    limit: str | None = None

    def losses(self) -> list[tuple[str, float]]:
        """What the time was lost to, most first."""
        names = ("kernels", "host", "input_wait", "communication", "clocks", "other")
        named = [(name.replace("_", " "), float(getattr(self, name))) for name in names]
        return sorted(named, key=lambda pair: -pair[1])

    def __str__(self) -> str:
        causes = [
            f"{title} {share:.1f} %{f' ({self.limit})' if title == 'clocks' and self.limit else ''}"
            for title, share in self.losses()
            if share >= 0.05
        ]
        return f"{self.useful:.1f} % useful; lost to {', '.join(causes) or 'nothing'}"


def explain_phases(
    record: Mapping[str, Any],
    *,
    ideal_ms: float | None = None,
    gpu: Mapping[str, Any] | None = None,
    peak_clock_mhz: float | None = None,
) -> LostTime | None:
    """Share out a ``phases`` record; None where the useful time is not known.

    ``ideal_ms`` is the time of a step at the speed of light, by default the record's own. ``gpu``
    is a ``gpu`` record of about that time, ``peak_clock_mhz`` that of the ``sol`` record.

    Args:
        record: A ``phases`` record of a run.
        ideal_ms: The time of a step at the speed of light, by default the record's own.
        gpu: A ``gpu`` record of about that time.
        peak_clock_mhz: The peak clock, as in the ``sol`` record.
    """
    ideal = record.get("ideal_ms") if ideal_ms is None else ideal_ms
    wall = float(record.get("wall_ms") or 0.0)
    means = record.get("m")
    if not isinstance(ideal, (int, float)) or wall <= 0 or not isinstance(means, Mapping):
        return None
    useful = min(float(ideal), wall)
    lost = dict.fromkeys(("input_wait", "communication", "host", "other", "compute"), 0.0)
    for name, mean in means.items():
        lost[_CAUSES.get(name.removeprefix(_PREFIX), "compute")] += float(mean)
    if f"{_PREFIX}other" not in means:
        lost["other"] += max(0.0, wall - sum(lost.values()))
    excess = max(0.0, lost.pop("compute") - useful)
    waiting = lost["input_wait"] + lost["host"] + lost["other"]
    # How long the GPU stood idle in phases that compute, because the host had nothing for it.
    readings, host_bound = gpu or {}, record.get("host_bound")
    busy_percent, clock = readings.get("gpu_util"), readings.get("clock")
    idle = 0.0
    if isinstance(busy_percent, (int, float)):
        idle = wall * (1 - min(100.0, float(busy_percent)) / 100) - waiting
        idle = min(excess, max(0.0, idle))
    elif isinstance(host_bound, (int, float)):
        idle = excess * float(host_bound)
    clocks, limit = 0.0, None
    if isinstance(clock, (int, float)) and peak_clock_mhz:
        slower = (useful + excess - idle) * max(0.0, 1 - clock / peak_clock_mhz)
        clocks = min(slower, excess - idle)
        word = str(readings.get("throttle") or "").strip()
        figures = f"{clock:.0f} of {peak_clock_mhz:.0f} MHz"
        limit = f"{word}, {figures}" if word and word != "idle" else figures
    lost["host"] += idle
    lost |= {"clocks": clocks, "kernels": excess - idle - clocks}
    # Phases by the host's clock may end before their work: then they say less than was useful.
    total = sum(lost.values())
    if total <= 0:
        lost["other"] = total = wall - useful
    scale = 100 * (wall - useful) / (total * wall) if total > 0 else 0.0
    shares = {name: part * scale for name, part in lost.items()}
    return LostTime(100 * useful / wall, **shares, limit=limit if clocks > 0 else None)
