"""One process and its tree: what a training run itself takes, DataLoader workers included."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from epochal.records import KINDS
from epochal.telemetry.source import Metric, closed_error

if TYPE_CHECKING:
    import psutil


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """Memory in bytes; CPU of the whole tree in percent of one core, as ``top`` counts it.

    ``rss`` and ``threads`` are the process's own. Pages shared between workers count in each.
    """

    rss: int | None = None
    cpu_pct: float | None = None
    children: int | None = None
    children_rss: int | None = None
    threads: int | None = None


_SYSTEM = KINDS["system"]
PROCESS_METRICS = (
    Metric("rss", _SYSTEM["rss"]),
    Metric("cpu_pct", _SYSTEM["process_cpu_pct"]),
    Metric("children", _SYSTEM["children"]),
    Metric("children_rss", _SYSTEM["children_rss"]),
    Metric("threads", _SYSTEM["threads"], steady=True),
)


@dataclass(frozen=True, slots=True)
class _Vitals:
    identity: tuple[int, float]
    rss: int
    cpu_s: float
    threads: int


class ProcessSource:
    """Reads a process and its descendants through psutil; without ``pid``, this process.

    A child that ends while it is read is left out, and so are those of ``without``. Once the
    process itself is gone, so is the source, also if another process takes the same number.
    """

    kind: ClassVar[str] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = PROCESS_METRICS

    def __init__(
        self,
        pid: int | None = None,
        *,
        without: Collection[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._without = without
        self._pid = os.getpid() if pid is None else pid
        self._clock = clock
        self._process: psutil.Process | None = None
        self._previous: tuple[float, dict[tuple[int, float], float]] | None = None
        self.why_absent: str | None = None
        self._closed = False

    def probe(self) -> bool:
        """Return whether the process runs; once it is gone it stays gone."""
        import psutil

        if self.why_absent is not None:
            return False
        try:
            if self._process is None:
                self._process = psutil.Process(self._pid)
            alive = self._process.is_running() and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            alive = False
        if not alive:
            self.why_absent = f"process {self._pid} is gone"
        return alive

    def sample(self) -> tuple[ProcessSample, ...]:
        """Read the tree; ``cpu_pct`` is that since the last call, at first ``None``."""
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return ()
        assert self._process is not None
        own = _vitals(self._process)
        children = _children(self._process, self._without)
        known = [vitals for vitals in (own, *(children or ())) if vitals is not None]
        return (
            ProcessSample(
                rss=None if own is None else own.rss,
                cpu_pct=self._cpu_pct(known),
                children=None if children is None else len(children),
                children_rss=None if children is None else sum(child.rss for child in children),
                threads=None if own is None else own.threads,
            ),
        )

    def close(self) -> None:
        """End the source; nothing is open."""
        self._closed = True

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
