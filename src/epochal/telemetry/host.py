"""The machine this process may use: CPU, memory, disks, network, control groups, processes.

Each source gives the fields of a ``system`` record by name; what cannot be read is left out. Rates
and shares cover the time since the previous ``sample()``, so the first has none.
"""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from epochal.telemetry.gpu import GpuModel

if TYPE_CHECKING:
    import psutil


# Version 1 writes "no limit" as a number near 2^63, rounded down to a page.
_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """How many cores' worth of time a group may use, and where its use is counted."""

    cores: float
    usage_file: Path

    def used_s(self) -> float | None:
        """CPU seconds the group has used since it was made."""
        if self.usage_file.name == "cpu.stat":
            microseconds = _field(self.usage_file, "usage_usec")
            return None if microseconds is None else microseconds / 1e6
        nanoseconds = _number(self.usage_file)
        return None if nanoseconds is None else nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The memory limit of a group, and the file that counts its use."""

    limit_bytes: int
    usage_file: Path
    reclaimable_field: str

    def used_bytes(self) -> int | None:
        """Bytes that cannot simply be dropped: file pages not in active use are left out."""
        used = _number(self.usage_file)
        if used is None:
            return None
        reclaimable = _field(self.usage_file.parent / "memory.stat", self.reclaimable_field) or 0
        return max(0, used - reclaimable)


class Cgroup:
    """A process's control group, by default this one's; without any, nothing is limited."""

    def __init__(
        self, *, membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._membership = membership
        self._mount = mount

    @classmethod
    def of(cls, pid: int) -> Cgroup:
        """The group of another process."""
        return cls(membership=Path(f"/proc/{pid}/cgroup"))

    @cached_property
    def _paths(self) -> dict[str, str]:
        return dict(_memberships(self._membership))

    def cpu_quota(self) -> CpuQuota | None:
        """The tightest CPU quota on the way up, or ``None`` where there is none."""
        quotas = [*self._cpu_quotas_v2(), *self._cpu_quotas_v1()]
        return min(quotas, key=lambda quota: quota.cores, default=None)

    def memory_limit(self) -> MemoryLimit | None:
        """The tightest memory limit on the way up, or ``None`` where there is none."""
        limits = [*self._memory_limits_v2(), *self._memory_limits_v1()]
        return min(limits, key=lambda limit: limit.limit_bytes, default=None)

    def oom_kills(self) -> int | None:
        """How many processes of the group were killed for want of memory since it was made."""
        for controller, mount, file in (
            ("", self._mount, "memory.events"),
            ("memory", self._mount / "memory", "memory.oom_control"),
        ):
            for folder in self._levels(controller, mount=mount):
                count = _field(folder / file, "oom_kill")
                if count is not None:
                    return count
        return None

    def _cpu_quotas_v2(self) -> Iterator[CpuQuota]:
        for folder in self._levels("", mount=self._mount):
            quota, _, period = (_text(folder / "cpu.max") or "").partition(" ")
            if quota.isdigit() and period.isdigit() and int(period) > 0:
                yield CpuQuota(int(quota) / int(period), folder / "cpu.stat")

    def _cpu_quotas_v1(self) -> Iterator[CpuQuota]:
        for folder in self._levels("cpu", mount=self._mount / "cpu"):
            quota = _number(folder / "cpu.cfs_quota_us")
            period = _number(folder / "cpu.cfs_period_us")
            if quota is not None and period is not None and quota > 0 and period > 0:
                level = folder.relative_to(self._mount / "cpu")
                usage = self._mount / "cpuacct" / level / "cpuacct.usage"
                yield CpuQuota(quota / period, usage)

    def _memory_limits_v2(self) -> Iterator[MemoryLimit]:
        for folder in self._levels("", mount=self._mount):
            limit = _number(folder / "memory.max")
            if limit is not None:
                yield MemoryLimit(limit, folder / "memory.current", "inactive_file")

    def _memory_limits_v1(self) -> Iterator[MemoryLimit]:
        for folder in self._levels("memory", mount=self._mount / "memory"):
            limit = _number(folder / "memory.limit_in_bytes")
            if limit is not None and limit < _UNLIMITED_BYTES:
                usage = folder / "memory.usage_in_bytes"
                yield MemoryLimit(limit, usage, "total_inactive_file")

    def _levels(self, controller: str, *, mount: Path) -> Iterator[Path]:
        path = self._paths.get(controller)
        if path is None:
            return
        folder = mount / path.lstrip("/")
        # In a container without its own namespace the path is the host's, and the mount is ours.
        if not folder.is_dir():
            folder = mount
        yield folder
        while folder != mount:
            folder = folder.parent
            yield folder


def _memberships(file: Path) -> Iterator[tuple[str, str]]:
    # Lines are "number:controllers:path"; version 2 is the line without controllers.
    for line in (_text(file) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            yield controller, path


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _number(file: Path) -> int | None:
    text = _text(file)
    if text is None or not text.removeprefix("-").isdigit():
        return None
    return int(text)


def _field(file: Path, name: str) -> int | None:
    for line in (_text(file) or "").splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return None


Readings = dict[str, float]

_GIB = 1024**3
_LOOPBACKS = ("lo", "lo0")


class _CpuReading(NamedTuple):
    busy_s: float
    available_s: float


class HostSource:
    """Reads CPU and memory through psutil, on any system it knows.

    Under a CPU quota the CPU share is the control group's use of that quota. Otherwise it is the
    load of the CPUs that this process may run on. A memory limit below the machine's memory
    replaces it, and the group's usage replaces the machine's.
    """

    def __init__(
        self, *, cgroup: Cgroup | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cgroup = Cgroup() if cgroup is None else cgroup
        self._clock = clock
        self._previous: _CpuReading | None = None

    def sample(self) -> Readings:
        """``ram_used``, ``ram_total`` and ``cpu_pct``."""
        used, total = _memory(self._cgroup.memory_limit())
        readings: Readings = {"ram_used": used, "ram_total": total}
        cpu_pct = self._cpu_pct()
        return readings if cpu_pct is None else {"cpu_pct": cpu_pct, **readings}

    @cached_property
    def _quota(self) -> CpuQuota | None:
        quota = self._cgroup.cpu_quota()
        if quota is None or quota.cores >= len(_allowed_cpus()) or quota.used_s() is None:
            return None
        return quota

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


class DiskSource:
    """Read and write rates of all disks, and the space of the file system ``folder`` is on.

    The rates are the whole machine's, also in a container: nobody counts them for less.
    """

    def __init__(
        self, folder: Path = Path(), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._rates = Rates(clock)

    def sample(self) -> Readings:
        """``disk_read``, ``disk_write``, ``disk_free`` and ``disk_total``."""
        import psutil

        readings: Readings = {}
        try:
            counters = psutil.disk_io_counters()
        except (OSError, RuntimeError, NotImplementedError):  # psutil's ways to say "not here"
            counters = None
        if counters is not None:
            counts = {"disk_read": counters.read_bytes, "disk_write": counters.write_bytes}
            readings.update(self._rates.since_last(counts))
        try:
            usage = psutil.disk_usage(str(self._folder))
        except OSError:
            return readings
        return {**readings, "disk_free": usage.free, "disk_total": usage.total}


class NetworkSource:
    """What comes in and goes out over every interface of this namespace but the loopback.

    InfiniBand that bypasses the kernel is not counted by it, and so not here.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = Rates(clock)

    def sample(self) -> Readings:
        """``net_rx`` and ``net_tx``."""
        import psutil

        try:
            interfaces = psutil.net_io_counters(pernic=True)
        except OSError:
            return {}
        chosen = [counters for name, counters in interfaces.items() if name not in _LOOPBACKS]
        if not chosen:
            return {}
        received = sum(counters.bytes_recv for counters in chosen)
        sent = sum(counters.bytes_sent for counters in chosen)
        return self._rates.since_last({"net_rx": received, "net_tx": sent})


class Rates:
    """Remembers some counters and tells how fast each grew since the last look; per second.

    ``clock`` counts seconds. The first look has no rates, nor has a counter that stepped back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._previous: tuple[float, Mapping[str, int]] | None = None

    def since_last(self, counts: Mapping[str, int]) -> Readings:
        """The rate of each counter that has one, rounded to whole units."""
        now_s = self._clock()
        previous, self._previous = self._previous, (now_s, counts)
        if previous is None or now_s <= previous[0]:
            return {}
        before_s, before = previous
        return {
            name: round((count - before[name]) / (now_s - before_s))
            for name, count in counts.items()
            if name in before and count >= before[name]
        }


class _Vitals(NamedTuple):
    identity: tuple[int, float]
    rss: int
    cpu_s: float
    threads: int


class ProcessSource:
    """Reads a process and its descendants, DataLoader workers included.

    A child that ends while it is read is left out, and so are those of ``without``. Once the
    process itself is gone there are no readings, also if another takes the same number.
    """

    def __init__(
        self,
        pid: int,
        *,
        without: Collection[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid = pid
        self._without = without
        self._clock = clock
        self._process: psutil.Process | None = None
        self._previous: tuple[float, dict[tuple[int, float], float]] | None = None
        self._is_gone = False

    def sample(self) -> Readings:
        """``rss`` and ``threads`` of the process, ``children`` and ``children_rss``.

        ``process_cpu_pct`` is the CPU of the whole tree in percent of one core, as ``top`` counts
        it. Pages shared between workers count in each.
        """
        import psutil

        try:
            if self._process is None:
                self._process = psutil.Process(self._pid)
            process = self._process
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            self._is_gone = self._is_gone or is_zombie or not process.is_running()
        except psutil.NoSuchProcess:
            self._is_gone = True
        if self._is_gone or self._process is None:
            return {}
        own = _vitals(self._process)
        children = _children(self._process, self._without)
        known = [vitals for vitals in (own, *(children or ())) if vitals is not None]
        readings: Readings = {} if own is None else {"rss": own.rss, "threads": own.threads}
        if children is not None:
            readings["children"] = len(children)
            readings["children_rss"] = sum(child.rss for child in children)
        cpu_pct = self._cpu_pct(known)
        return readings if cpu_pct is None else {**readings, "process_cpu_pct": cpu_pct}

    def _cpu_pct(self, tree: list[_Vitals]) -> float | None:
        now = self._clock()
        used = {vitals.identity: vitals.cpu_s for vitals in tree}
        previous, self._previous = self._previous, (now, used)
        if previous is None or now <= previous[0]:
            return None
        # A child born since then brings all its time; one that ended takes its last bit along.
        spent = sum(seconds - previous[1].get(who, 0.0) for who, seconds in used.items())
        return round(100 * max(0.0, spent) / (now - previous[0]), 1)


def _children(process: psutil.Process, without: Collection[int]) -> list[_Vitals] | None:
    import psutil

    try:
        descendants = process.children(recursive=True)
    except psutil.Error:
        return None
    counted = [child for child in descendants if child.pid not in without]
    return [vitals for child in counted if (vitals := _vitals(child)) is not None]


def _vitals(process: psutil.Process) -> _Vitals | None:
    import psutil

    try:
        with process.oneshot():
            cpu = process.cpu_times()
            return _Vitals(
                identity=(process.pid, process.create_time()),
                rss=process.memory_info().rss,
                cpu_s=cpu.user + cpu.system,
                threads=process.num_threads(),
            )
    except psutil.Error:
        return None


def hardware_line(*, gpus: Sequence[GpuModel] = (), cgroup: Cgroup | None = None) -> str:
    """What the run may use: ``AMD EPYC 7B13, 2 threads, 24 GB | NVIDIA H200 141 GB``."""
    _, total = _memory((Cgroup() if cgroup is None else cgroup).memory_limit())
    host = f"{cpu_model()}, {len(_allowed_cpus())} threads, {_whole_gigabytes(total)}"
    counted = Counter(_gpu_words(gpu) for gpu in gpus)
    return " | ".join([host, *(f"{n}x {gpu}" if n > 1 else gpu for gpu, n in counted.items())])


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name without trade marks and core counts; its architecture if unnamed."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), flags=re.MULTILINE)
    except OSError:
        match = None
    name = match[1] if match else platform.processor() or platform.machine() or "unknown CPU"
    name = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|\d+-Core Processor|@.*", " ", name)
    return " ".join(name.split())


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
