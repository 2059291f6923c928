"""Reads the limits of a control group: CPU quota and memory limit, versions 1 and 2.

Any level above the process may have a limit (Slurm limits the job, not the task). So every level up
to the mount is read, and the lowest limit counts. Usage is read on the level of that limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

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
