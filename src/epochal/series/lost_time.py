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
_INPUT = frozenset({"data"})
_COMMUNICATION = frozenset({"sync"})
_HOST = frozenset({"log"})
_ELSEWHERE = frozenset({"eval", "save", "other"})
_TITLES = {
    "kernels": "kernels",
    "host": "host",
    "input_wait": "input wait",
    "communication": "communication",
    "clocks": "clocks",
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
        named = [(title, float(getattr(self, name))) for name, title in _TITLES.items()]
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
    """
    ideal = record.get("ideal_ms") if ideal_ms is None else ideal_ms
    wall = float(record.get("wall_ms") or 0.0)
    means = record.get("m")
    if not isinstance(ideal, (int, float)) or wall <= 0 or not isinstance(means, Mapping):
        return None
    useful = min(float(ideal), wall)
    gathered = _by_cause(means, wall)
    excess = max(0.0, gathered.pop("compute") - useful)
    waiting = gathered["input_wait"] + gathered["host"] + gathered["other"]
    idle = _idle_ms(record, gpu, wall=wall, explained=waiting, excess=excess)
    clocks, limit = _clock_ms(gpu, peak_clock_mhz, busy=useful + excess - idle)
    clocks = min(clocks, excess - idle)
    gathered["host"] += idle
    lost = {**gathered, "clocks": clocks, "kernels": excess - idle - clocks}
    # Phases by the host's clock may end before their work: then they say less than was useful.
    total = sum(lost.values())
    scale = (wall - useful) / total if total > 0 else 0.0
    shares = {name: 100 * part * scale / wall for name, part in lost.items()}
    spare = 0.0 if total > 0 else 100 * (wall - useful) / wall
    shares["other"] += spare
    return LostTime(100 * useful / wall, **shares, limit=limit if clocks > 0 else None)


def _by_cause(means: Mapping[str, Any], wall: float) -> dict[str, float]:
    causes = dict.fromkeys(("input_wait", "communication", "host", "other", "compute"), 0.0)
    for full, mean in means.items():
        name = full.removeprefix(_PREFIX)
        if name in _INPUT:
            cause = "input_wait"
        elif name in _COMMUNICATION:
            cause = "communication"
        elif name in _HOST:
            cause = "host"
        else:
            cause = "other" if name in _ELSEWHERE else "compute"
        causes[cause] += float(mean)
    if f"{_PREFIX}other" not in means:
        causes["other"] += max(0.0, wall - sum(causes.values()))
    return causes


def _idle_ms(
    record: Mapping[str, Any],
    gpu: Mapping[str, Any] | None,
    *,
    wall: float,
    explained: float,
    excess: float,
) -> float:
    """How long the GPU stood idle in phases that compute, because the host had nothing for it."""
    busy_percent = None if gpu is None else gpu.get("gpu_util")
    if isinstance(busy_percent, (int, float)):
        idle = wall * (1 - min(100.0, float(busy_percent)) / 100) - explained
        return min(excess, max(0.0, idle))
    share = record.get("host_bound")
    return excess * float(share) if isinstance(share, (int, float)) else 0.0


def _clock_ms(
    gpu: Mapping[str, Any] | None, peak_clock_mhz: float | None, *, busy: float
) -> tuple[float, str | None]:
    clock = None if gpu is None else gpu.get("clock")
    if not isinstance(clock, (int, float)) or not peak_clock_mhz or gpu is None:
        return 0.0, None
    word = str(gpu.get("throttle") or "").strip()
    figures = f"{clock:.0f} of {peak_clock_mhz:.0f} MHz"
    limit = f"{word}, {figures}" if word and word != "idle" else figures
    return busy * max(0.0, 1 - clock / peak_clock_mhz), limit
