"""The machine this process may use: CPU and memory, within what its control group allows."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from epochal.records import KINDS
from epochal.telemetry.cgroup import Cgroup, CpuQuota, MemoryLimit
from epochal.telemetry.gpu import GpuModel
from epochal.telemetry.source import Metric, closed_error

_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class HostSample:
    """CPU in percent of what this process may use, memory in bytes."""

    cpu_pct: float | None = None
    ram_used: int | None = None
    ram_total: int | None = None


_SYSTEM = KINDS["system"]
HOST_METRICS = (
    Metric("cpu_pct", _SYSTEM["cpu_pct"]),
    Metric("ram_used", _SYSTEM["ram_used"]),
    Metric("ram_total", _SYSTEM["ram_total"], steady=True),
)


class _CpuReading(NamedTuple):
    busy_s: float
    available_s: float


class HostSource:
    """Reads CPU and memory through psutil, on any system it knows.

    Under a CPU quota the CPU share is the control group's use of that quota. Otherwise it is the
    load of the CPUs that this process may run on. A memory limit below the machine's memory
    replaces it, and the group's usage replaces the machine's.
    """

    kind: ClassVar[str] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = HOST_METRICS

    def __init__(
        self, *, cgroup: Cgroup | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cgroup = Cgroup() if cgroup is None else cgroup
        self._clock = clock
        self._previous: _CpuReading | None = None
        self._closed = False

    @property
    def why_absent(self) -> str | None:
        """Always ``None``: a program that runs has a host."""
        return None

    def probe(self) -> bool:
        """Always true."""
        return True

    def sample(self) -> tuple[HostSample, ...]:
        """Read the host; ``cpu_pct`` is that since the last call, at first ``None``."""
        if self._closed:
            raise closed_error(self)
        used, total = _memory(self._cgroup.memory_limit())
        return (HostSample(self._cpu_pct(), used, total),)

    def close(self) -> None:
        """End the source; nothing is open."""
        self._closed = True

    @cached_property
    def _quota(self) -> CpuQuota | None:
        return _binding_quota(self._cgroup)

    def _cpu_pct(self) -> float | None:
        now = self._read_cpu()
        previous = self._previous
        # The system counts in ticks of about 10 ms: before the next one there is nothing to tell.
        if now is None or (previous is not None and now.available_s == previous.available_s):
            return None
        self._previous = now
        # Taking a CPU offline takes its time out of the sum.
        if previous is None or now.available_s < previous.available_s:
            return None
        share = (now.busy_s - previous.busy_s) / (now.available_s - previous.available_s)
        # A quota may be overdrawn for a moment, and a counter may step back after a suspend.
        return round(100 * min(1.0, max(0.0, share)), 1)

    def _read_cpu(self) -> _CpuReading | None:
        if self._quota is None:
            return _busy_cpus()
        used_s = self._quota.used_s()
        return None if used_s is None else _CpuReading(used_s, self._clock() * self._quota.cores)


def hardware_line(*, gpus: Sequence[GpuModel] = (), cgroup: Cgroup | None = None) -> str:
    """What the run may use: ``AMD EPYC 7B13, 2 threads, 24 GB | NVIDIA H200 141 GB``."""
    _, total = _memory((Cgroup() if cgroup is None else cgroup).memory_limit())
    host = f"{cpu_model()}, {len(_allowed_cpus())} threads, {_whole_gigabytes(total)}"
    counted = Counter(_gpu_words(gpu) for gpu in gpus)
    return " | ".join([host, *(f"{n}x {gpu}" if n > 1 else gpu for gpu, n in counted.items())])


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name without trade marks and core counts; its architecture if unnamed."""
    name = _model_name(cpuinfo) or platform.processor() or platform.machine() or "unknown CPU"
    name = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|\d+-Core Processor|@.*", " ", name)
    return " ".join(name.split())


def _model_name(cpuinfo: Path) -> str | None:
    try:
        text = cpuinfo.read_text()
    except OSError:
        return None
    match = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return match.group(1) if match else None


def _gpu_words(gpu: GpuModel) -> str:
    name = gpu.name or f"GPU {gpu.id}"
    if gpu.memory is None or re.search(r"\d ?GB", name):
        return name
    return f"{name} {_whole_gigabytes(gpu.memory)}"


def _whole_gigabytes(size_bytes: int) -> str:
    # Rounded up: firmware keeps a part back, and the figure people know is the one on the box.
    return f"{math.ceil(size_bytes / _GIB)} GB"


def _memory(limit: MemoryLimit | None) -> tuple[int, int]:
    import psutil

    machine = psutil.virtual_memory()
    if limit is None or limit.limit_bytes >= machine.total:
        return machine.total - machine.available, machine.total
    used = limit.used_bytes()
    return (machine.total - machine.available if used is None else used), limit.limit_bytes


def _binding_quota(cgroup: Cgroup) -> CpuQuota | None:
    quota = cgroup.cpu_quota()
    if quota is None or quota.cores >= len(_allowed_cpus()) or quota.used_s() is None:
        return None
    return quota


def _allowed_cpus() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _busy_cpus() -> _CpuReading:
    import psutil

    cpus = psutil.cpu_times(percpu=True)
    allowed = _allowed_cpus()
    # Times are listed without their numbers: with a CPU taken offline the numbers no longer fit.
    chosen = [cpus[i] for i in allowed] if max(allowed) < len(cpus) else cpus
    totals = [_busy_and_total(cpu._asdict().items()) for cpu in chosen]
    return _CpuReading(sum(busy for busy, _ in totals), sum(total for _, total in totals))


def _busy_and_total(times: Iterable[tuple[str, float]]) -> tuple[float, float]:
    # Linux counts a guest's time in user time already.
    seconds = {name: value for name, value in times if not name.startswith("guest")}
    total = sum(seconds.values())
    return total - seconds.get("idle", 0.0) - seconds.get("iowait", 0.0), total
