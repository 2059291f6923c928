"""The machine's disks: how fast they are read and written, and what is left where the run lies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from epochal.telemetry.rate import Rates
from epochal.telemetry.source import Metric, closed_error


@dataclass(frozen=True, slots=True)
class DiskSample:
    """Bytes per second over all disks of the machine; free and total bytes of one file system."""

    read: int | None = None
    write: int | None = None
    free: int | None = None
    total: int | None = None


DISK_METRICS = (
    Metric("read", "disk_read", "bytes/s"),
    Metric("write", "disk_write", "bytes/s"),
    Metric("free", "disk_free", "bytes"),
    Metric("total", "disk_total", "bytes", steady=True),
)


class DiskSource:
    """Reads the disks through psutil; free space is that of the file system ``folder`` is on.

    The rates are the whole machine's, also in a container: nobody counts them for less.
    """

    kind: ClassVar[str] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = DISK_METRICS

    def __init__(
        self, folder: Path = Path(), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._rates = Rates(clock)
        self._closed = False

    @property
    def why_absent(self) -> str | None:
        """Always ``None``: what cannot be told is absent in the sample."""
        return None

    def probe(self) -> bool:
        """Always true."""
        return True

    def sample(self) -> tuple[DiskSample, ...]:
        """Read the disks; rates are those since the last call, at first ``None``."""
        if self._closed:
            raise closed_error(self)
        rates = self._rates.since_last(_counts())
        free, total = _space(self._folder)
        return (DiskSample(rates.get("read"), rates.get("write"), free, total),)

    def close(self) -> None:
        """End the source; it holds nothing open."""
        self._closed = True


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
