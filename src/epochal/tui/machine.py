"""What the machines of a run measure: per GPU and per host, as of the newest reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epochal.store.store import RunView

_GPU = re.compile(r"gpu/([^/]+)/(\w+)")
_HOST = "system/"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: shares from 0 to 1, bytes, watts, degrees; None is unknown.

    ``throttle`` is why it holds back, empty when it does not.
    """

    id: str
    rank: int
    num_ranks: int
    util: float | None = None
    used_bytes: float | None = None
    total_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature: float | None = None
    slowdown: float | None = None
    throttle: str = ""
    utils: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def name(self) -> str:
        """What it is called beside the others."""
        return f"GPU {self.id}" if self.num_ranks < 2 else f"GPU {self.id} rank {self.rank}"

    @property
    def memory(self) -> float | None:
        """How full its memory is, from 0 to 1."""
        if self.used_bytes is None or not self.total_bytes:
            return None
        return self.used_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Host:
    """One node: percent, bytes, bytes per second; a figure that is missing was not measured."""

    rank: int
    num_ranks: int
    figures: Mapping[str, float]
    cpu: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def gpus_of(run: RunView, throttles: Mapping[tuple[int, str], str]) -> list[Gpu]:
    """Every GPU that the run measured; ``throttles`` has the newest word by rank and id."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for metric in run.metrics():
        match = _GPU.fullmatch(metric.name)
        if match is not None and metric.axis == "time":
            for rank in metric.ranks:
                found.setdefault((rank, match[1]), {})[match[2]] = metric.name
    num_ranks = len({rank for rank, _ in found})
    ordered = sorted(found.items(), key=lambda item: (item[0][0], len(item[0][1]), item[0][1]))
    return [
        _gpu(run, gpu_id, rank, num_ranks, names, throttles.get((rank, gpu_id), ""))
        for (rank, gpu_id), names in ordered
    ]


def hosts_of(run: RunView) -> list[Host]:
    """Every node that the run measured."""
    names: dict[int, list[str]] = {}
    for metric in run.metrics():
        if metric.name.startswith(_HOST) and metric.axis == "time":
            for rank in metric.ranks:
                names.setdefault(rank, []).append(metric.name)
    hosts = []
    for rank, own in sorted(names.items()):
        series = {name.removeprefix(_HOST): _values(run, name, rank) for name in own}
        figures = {name: float(values[-1]) for name, values in series.items() if values.size}
        hosts.append(Host(rank, len(names), figures, series.get("cpu_pct", np.empty(0))))
    return hosts


def _gpu(
    run: RunView, gpu_id: str, rank: int, num_ranks: int, names: Mapping[str, str], throttle: str
) -> Gpu:
    def last(field: str, unit: float = 1.0) -> float | None:
        values = _values(run, names[field], rank) if field in names else np.empty(0)
        return float(values[-1]) / unit if values.size and np.isfinite(values[-1]) else None

    used, free, total = last("dram_used"), last("dram_free"), last("dram_total")
    if total is None and used is not None and free is not None:
        total = used + free
    if used is None and total is not None and free is not None:
        used = total - free
    return Gpu(
        id=gpu_id,
        rank=rank,
        num_ranks=num_ranks,
        util=last("gpu_util", 100.0),
        used_bytes=used,
        total_bytes=total,
        power_w=last("power", 1000.0),
        power_limit_w=last("power_limit", 1000.0),
        temperature=last("temperature"),
        slowdown=last("temp_slowdown"),
        throttle=throttle,
        utils=_values(run, names["gpu_util"], rank) if "gpu_util" in names else np.empty(0),
    )


def _values(run: RunView, name: str, rank: int) -> NDArray[np.float64]:
    return run.series(name, rank=rank, axis="time").values
