"""Samples the machine beside a run and writes what the samples amount to.

A record is written for ten seconds of it, and for sixty after the first day.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from epochal.companion.cadence import Cadence, is_due, whole_seconds
from epochal.companion.config import CompanionConfig
from epochal.companion.gpu_journal import GpuJournal
from epochal.companion.live_file import LiveFile
from epochal.companion.own_journal import OwnJournal
from epochal.guard import Guard
from epochal.telemetry.cgroup import Cgroup
from epochal.telemetry.disk import disk_source
from epochal.telemetry.gpu import GpuSource
from epochal.telemetry.host import HostSource, hardware_line
from epochal.telemetry.interval import Interval
from epochal.telemetry.network import network_source
from epochal.telemetry.process import ProcessSource
from epochal.telemetry.source import SOURCE_BUDGET_S, Source
from epochal.telemetry.used import UsedGpus

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


T = TypeVar("T")

# What a vanished process is remembered by.
_REMEMBERED = ("rss", "children_rss", "ram_used", "ram_total", "disk_free")


class Telemetry:
    """Everything one companion measures; no method raises for what a sensor does.

    ``own_pids`` gives the run's processes, ``host`` are the sources by name; ``every_s``, ``clock``
    and ``wall`` are those of ``Cadence``.
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
        host: Mapping[str, Source[Any]] | None = None,
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
        sources = host_sources(config) if host is None else host
        self._host = {name: (one, Interval(one.metrics)) for name, one in sources.items()}
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
        for name, (source, interval) in self._host.items():
            for sample in self._read(name, source.sample) or ():
                interval.add(sample)
                self._remember(source, sample)
                self._live.see_host({m.name: getattr(sample, m.attribute) for m in source.metrics})
        now_s = self._cadence.clock()
        if is_due(now_s - self._host_since_s, self._cadence.record_every_s()):
            self._write_host(now_s)

    def end(self) -> None:
        """Write what has been gathered since the last records, and let the sensors go."""
        self._gpus.end()
        if any(interval.num_samples for _, interval in self._host.values()):
            self._write_host(self._cadence.clock())
        self._journal.event(
            "telemetry",
            epochal_cpu_pct=self._cost.mean_pct(),
            epochal_rss=self._read("own cost", self._cost.rss),
            **self._failures(),
        )
        for name, (source, _) in self._host.items():
            self._read(name, source.close)
        self._on_live_file(self._live.close)

    def _read(self, name: str, call: Callable[[], T]) -> T | None:
        """The samples of a source; one that hangs is not called again until it has returned."""
        return self._guard.bounded(f"source {name}", call, budget_s=self._budget_s)

    def _on_live_file(self, call: Callable[[], None]) -> None:
        # A disk that cannot be written is the journal's to tell.
        self._guard.outcome("live file", call, expected=(OSError,))

    def _failures(self) -> dict[str, Any]:
        faults = [one for one in self._guard.faults.values() if one.member.startswith("source ")]
        last = faults[-1].error if faults else self._gpus.last_failure
        count = sum(fault.count for fault in faults) + self._gpus.failures
        return {"failures": count, **({"last_failure": last} if last else {})}

    def _write_host(self, now_s: float) -> None:
        record: dict[str, Any] = {"interval_s": whole_seconds(now_s - self._host_since_s)}
        extremes: dict[str, dict[str, float]] = {"min": {}, "max": {}}
        for _, interval in self._host.values():
            summary = interval.summary()
            for name, found in extremes.items():
                found.update(summary.pop(name, {}))
            record.update(summary)
        self._host_since_s = now_s
        record["epochal_cpu_pct"] = self._cost.pct()
        record["epochal_rss"] = self._read("own cost", self._cost.rss)
        known = {name: value for name, value in record.items() if value is not None}
        both = {name: values for name, values in extremes.items() if values}
        self._journal.write("system", {**known, **both}, at=self._cadence.moment())

    def _remember(self, source: Source[Any], sample: object) -> None:
        for metric in source.metrics:
            if metric.name in _REMEMBERED:
                self._seen[metric.name] = getattr(sample, metric.attribute)


def host_sources(config: CompanionConfig) -> dict[str, Source[Any]]:
    """The sources of the host, by name."""
    return {
        "host": HostSource(cgroup=Cgroup.of(config.parent)),
        "process": ProcessSource(config.parent, without={os.getpid()}),
        "disk": disk_source(config.folder.path),
        "network": network_source(),
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
