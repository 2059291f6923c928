"""Samples the machine beside a run and writes summaries of the samples.

A record is written for ten seconds of it, and for sixty after the first day. The current readings
are in a file of their own, for the live page.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from epochal.companion.config import CompanionConfig
from epochal.companion.gpu_journal import Cadence, GpuJournal, is_due
from epochal.companion.own_journal import OwnJournal
from epochal.guard import Guard
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode_json
from epochal.telemetry.cgroup import Cgroup
from epochal.telemetry.gpu import SOURCE_BUDGET_S, GpuSource
from epochal.telemetry.host import (
    DiskSource,
    HostSource,
    NetworkSource,
    ProcessSource,
    hardware_line,
)
from epochal.telemetry.interval import Interval
from epochal.telemetry.machine_gpus import UsedGpus

_BLOCK = 4096
_MIB = 1024**2


class OwnCost:
    """CPU time of this process and of those it started, as a share of one core."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = self._previous = (clock(), _cpu_s())

    def pct(self) -> float | None:
        """Percent of one core since the last call; None before time has passed."""
        before, self._previous = self._previous, (self._clock(), _cpu_s())
        return _share(before, self._previous)

    def mean_pct(self) -> float | None:
        """Percent of one core since the beginning."""
        return _share(self._first, (self._clock(), _cpu_s()))

    def rss(self) -> int | None:
        """Bytes of memory in use, rounded to MiB."""
        import psutil

        return round(psutil.Process().memory_info().rss / _MIB) * _MIB


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _share(before: tuple[float, float], after: tuple[float, float]) -> float | None:
    elapsed_s = after[0] - before[0]
    if elapsed_s <= 0:
        return None
    return round(100 * (after[1] - before[1]) / elapsed_s, 2)


class LiveFile:
    """The newest readings of one node beside one run; ``wall`` gives Unix seconds.

    One write of constant length overwrites the file every second. It is deleted when the run has
    ended.
    """

    def __init__(
        self, folder: RunFolder, *, node: str, rank: int, wall: Callable[[], float]
    ) -> None:
        self._path = folder.live / f"{node}.json"
        self._who = {"node": node, "rank": rank}
        self._wall = wall
        self._gpus: dict[int, dict[str, Any]] = {}
        self._host: dict[str, Any] = {}

    def see_gpu(self, gpu: int, fields: Mapping[str, Any]) -> None:
        """Store the current reading of a GPU; missing fields keep their last value."""
        self._gpus.setdefault(gpu, {}).update(self._read_now(fields))

    def see_host(self, fields: Mapping[str, Any]) -> None:
        """Store the current reading of the machine."""
        self._host.update(self._read_now(fields))

    def write(self) -> None:
        """Put everything known into the file; raises ``OSError``."""
        gpus = [{"id": gpu, **fields} for gpu, fields in sorted(self._gpus.items())]
        readings = {"t": round(self._wall(), 3), **self._who, "gpus": gpus, "system": self._host}
        text = encode_json(readings)
        # A run that was deleted is not brought back.
        self._path.parent.mkdir(exist_ok=True)
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # A text covers all of a longer one: a reader never meets the rest of an older one.
            size = max(os.fstat(file).st_size, (len(text) // _BLOCK + 1) * _BLOCK)
            os.write(file, text.ljust(size - 1) + b"\n")
        finally:
            os.close(file)

    def close(self) -> None:
        """Take the file away."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        with contextlib.suppress(OSError):  # another node's is still there
            self._path.parent.rmdir()

    def _read_now(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The readings and their times; the file itself is written more often."""
        known = {name: value for name, value in fields.items() if value is not None}
        return {**known, "t": round(self._wall(), 3)} if known else {}


T = TypeVar("T")

# What a vanished process is remembered by.
_REMEMBERED = ("rss", "children_rss", "ram_used", "ram_total", "disk_free")


class Telemetry:
    """Everything one companion measures; no method raises for what a sensor does.

    ``own_pids`` gives the run's processes. ``host`` are functions that read fields of a ``system``
    record, by name. ``every_s``, ``clock`` and ``wall`` are those of ``Cadence``.
    """

    def __init__(
        self,
        config: CompanionConfig,
        journal: OwnJournal,
        *,
        gpus: GpuSource,
        used: UsedGpus,
        own_pids: Callable[[], Collection[int]],
        guard: Guard | None = None,
        host: Mapping[str, Callable[[], Mapping[str, Any]]] | None = None,
        source_budget_s: float = SOURCE_BUDGET_S,
        every_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._guard = Guard() if guard is None else guard
        self._budget_s = source_budget_s
        self._config = config
        self._journal = journal
        self._cadence = Cadence(every_s=every_s, clock=clock, wall=wall)
        self._live = LiveFile(config.folder, node=config.node, rank=config.rank, wall=wall)
        self._gpu_source = gpus
        self._gpus = GpuJournal(
            config,
            journal,
            gpus,
            used=used,
            own_pids=own_pids,
            guard=self._guard,
            source_budget_s=source_budget_s,
            cadence=self._cadence,
            live=self._live,
        )
        self._host = host_sources(config) if host is None else host
        self._interval = Interval("system")
        self._host_since_s = clock()
        self._cost = OwnCost(clock=clock)
        self._seen: dict[str, Any] = {}

    @property
    def host_every_s(self) -> float:
        """How often ``sample_host`` is to be called."""
        return self._cadence.host_every_s()

    @property
    def last_seen(self) -> dict[str, Any]:
        """The newest figures of the run's memory, in bytes."""
        free = self._gpus.dram_free
        return {**self._seen, "gpu_dram_free": dict(free)} if free else dict(self._seen)

    def begin(self) -> None:
        """Take the readings that later ones are measured against, and say what the machine is."""
        self.sample_gpus()
        self.sample_host()
        models = self._gpus.models()
        text = self._read("hardware", lambda: hardware_line(gpus=models))
        if text:
            self._journal.event("hardware", text=text, node=self._config.node)

    def sample_gpus(self) -> None:
        """Read the GPUs that are used; write a record if one is due."""
        self._gpus.sample()
        self._on_live_file(self._live.write)

    def sample_host(self) -> None:
        """Read the host; write a record if one is due."""
        for name, read in self._host.items():
            readings = self._read(name, read)
            if readings:
                self._interval.add(readings)
                self._live.see_host(readings)
                self._seen.update({one: readings[one] for one in _REMEMBERED if one in readings})
        now_s = self._cadence.clock()
        if is_due(now_s - self._host_since_s, self._cadence.record_every_s()):
            self._write_host(now_s)

    def end(self) -> None:
        """Write what has been gathered since the last records, and let the sensors go."""
        self._gpus.end()
        if self._interval.num_samples:
            self._write_host(self._cadence.clock())
        self._journal.event(
            "telemetry",
            epochal_cpu_pct=self._cost.mean_pct(),
            epochal_rss=self._read("own cost", self._cost.rss),
            **self._failures(),
        )
        self._on_live_file(self._live.close)

    def _read(self, name: str, call: Callable[[], T]) -> T | None:
        """The samples of a source; one that hangs is not called again until it has returned."""
        return self._guard.bounded(f"source {name}", call, budget_s=self._budget_s)

    def _on_live_file(self, call: Callable[[], None]) -> None:
        # A disk that cannot be written is the journal's to tell.
        self._guard.outcome("live file", call, expected=(OSError,))

    def _failures(self) -> dict[str, Any]:
        faults = [one for one in self._guard.faults.values() if one.member.startswith("source ")]
        last = faults[-1].error if faults else self._gpu_source.last_failure
        count = sum(fault.count for fault in faults) + self._gpu_source.failures
        return {"failures": count, **({"last_failure": last} if last else {})}

    def _write_host(self, now_s: float) -> None:
        elapsed_s, self._host_since_s = now_s - self._host_since_s, now_s
        summary: Mapping[str, Any] = self._interval.summary()
        cost = {
            "epochal_cpu_pct": self._cost.pct(),
            "epochal_rss": self._read("own cost", self._cost.rss),
        }
        fields: dict[str, Any] = {"interval_s": float(round(elapsed_s)), **summary}
        fields.update({name: value for name, value in cost.items() if value is not None})
        self._journal.write("system", fields, at=self._cadence.moment())


def host_sources(config: CompanionConfig) -> dict[str, Callable[[], Mapping[str, Any]]]:
    """What reads the host, by name."""
    return {
        "host": HostSource(cgroup=Cgroup.of(config.parent)).sample,
        "process": ProcessSource(config.parent, without={os.getpid()}).sample,
        "disk": DiskSource(config.folder.path).sample,
        "network": NetworkSource().sample,
    }


def own_processes(config: CompanionConfig) -> frozenset[int]:
    """The processes of the run on this machine: the parent's tree; with ranks, its siblings' too.

    Ranks that share a machine have one parent, be it torchrun, mpirun or Slurm's step.
    """
    import psutil

    try:
        root = psutil.Process(config.parent)
        parent = root.parent() if config.shares_node else None
        tree = root if parent is None or parent.pid == 1 else parent
        found = [tree, *tree.children(recursive=True)]
    except psutil.Error:
        return frozenset({config.parent})
    return frozenset(one.pid for one in found) - {os.getpid()}
