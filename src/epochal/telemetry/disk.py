"""The machine's disks: read and write rates, and free space in the folder of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from epochal.records import KINDS
from epochal.telemetry.counters import CounterSource
from epochal.telemetry.source import Metric


@dataclass(frozen=True, slots=True)
class DiskSample:
    """Bytes per second over all disks of the machine; free and total bytes of one file system."""

    read: int | None = None
    write: int | None = None
    free: int | None = None
    total: int | None = None


_SYSTEM = KINDS["system"]
DISK_METRICS = (
    Metric("read", _SYSTEM["disk_read"]),
    Metric("write", _SYSTEM["disk_write"]),
    Metric("free", _SYSTEM["disk_free"]),
    Metric("total", _SYSTEM["disk_total"], steady=True),
)


def disk_source(
    folder: Path = Path(), *, clock: Callable[[], float] = time.monotonic
) -> CounterSource[DiskSample]:
    """The disks through psutil; free space is that of the file system ``folder`` is on.

    The rates are the whole machine's, also in a container: nobody counts them for less.
    """

    def sample_of(rates: Mapping[str, int]) -> DiskSample:
        return DiskSample(rates.get("read"), rates.get("write"), *_space(folder))

    return CounterSource(DISK_METRICS, counts=_counts, sample_of=sample_of, clock=clock)


def _counts() -> dict[str, int]:
    import psutil

    try:
        counters = psutil.disk_io_counters()
    except (OSError, RuntimeError, NotImplementedError):  # psutil's ways to say "not here"
        return {}
    if counters is None:
        return {}
    return {"read": counters.read_bytes, "write": counters.write_bytes}


def _space(folder: Path) -> tuple[int | None, int | None]:
    import psutil

    try:
        usage = psutil.disk_usage(str(folder))
    except OSError:
        return None, None
    return usage.free, usage.total
