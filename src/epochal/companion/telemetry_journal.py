"""Samples the machine beside a run and writes what the samples amount to.

GPUs are looked at every second, and thoroughly every ten; the host every five. A record is written
for ten seconds of it, and for sixty after the first day. A GPU that begins to be throttled gets its
record at once.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

from epochal.companion.charge import Charge
from epochal.companion.own_cost import OwnCost
from epochal.companion.own_journal import OwnJournal
from epochal.telemetry.cgroup import Cgroup
from epochal.telemetry.disk import DiskSource
from epochal.telemetry.gpu import GPU_METRICS, THROTTLE_WORDS, GpuModel, GpuSample
from epochal.telemetry.host import HostSource, hardware_line
from epochal.telemetry.interval import Interval
from epochal.telemetry.network import NetworkSource
from epochal.telemetry.process import ProcessSource
from epochal.telemetry.sampler import Attempts
from epochal.telemetry.source import Source
from epochal.telemetry.used import Computing, UsedGpus

GPU_EVERY_S = 1.0
HOST_EVERY_S = 5.0
RECORD_EVERY_S = 10.0
LATER_RECORD_EVERY_S = 60.0
_FIRST_DAY_S = 86_400.0
_LEARN_EVERY_S = 10.0
_LEARN_AGAIN_EVERY_S = 60.0
_FULL_SPEED = ("", "idle")
# What a vanished process is remembered by.
_REMEMBERED = ("rss", "children_rss", "ram_used", "ram_total", "disk_free")


class GpuReader(Protocol):
    """A GPU source that can be asked about some of its GPUs, and who computes on each."""

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read the GPUs of these ids, lightly or fully."""

    def pids(self) -> Computing:
        """The processes on each GPU."""

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """What each GPU is."""

    def close(self) -> None:
        """Give back what was taken."""


class Telemetry:
    """Everything one companion measures; no method raises for what a sensor does.

    ``clock`` counts seconds, ``wall`` gives Unix seconds. ``own_pids`` gives the run's processes.
    """

    def __init__(
        self,
        charge: Charge,
        journal: OwnJournal,
        *,
        gpus: GpuReader,
        used: UsedGpus,
        own_pids: Callable[[], Collection[int]],
        host: Sequence[Source[Any]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.attempts = Attempts()
        self._charge = charge
        self._journal = journal
        self._gpus = gpus
        self._used = used
        self._own_pids = own_pids
        self._clock = clock
        self._wall = wall
        self._started_s = clock()
        self._host = [(source, Interval(source.metrics)) for source in host or _host_of(charge)]
        self._gpu_intervals: dict[int, _GpuInterval] = {}
        self._full_at_s = self._started_s
        self._host_since_s = self._started_s
        self._learn_at_s = self._started_s
        self._cost = OwnCost(clock=clock)
        self.last_seen: dict[str, Any] = {}

    def begin(self) -> None:
        """Take the readings that later ones are measured against, and say what the machine is."""
        self.sample_gpus()
        self.sample_host()
        models = self.attempts.call(self._gpus.gpu_models) or ()
        chosen = [model for model in models if model.id in self._used.ids] or list(models)
        text = self.attempts.call(lambda: hardware_line(gpus=chosen))
        if text:
            self._journal.event("hardware", text=text, node=self._charge.node)

    def sample_gpus(self) -> None:
        """Look at the GPUs that are used; write a record where one is due."""
        self._learn()
        if not self._used.ids:
            return
        now_s = self._clock()
        is_full = _is_due(now_s - self._full_at_s, RECORD_EVERY_S) or not self._gpu_intervals
        if is_full:
            self._full_at_s = now_s
        samples = (
            self.attempts.call(lambda: self._gpus.sample(only=self._used.ids, light=not is_full))
            or ()
        )
        for sample in samples:
            interval = self._gpu_intervals.get(sample.id)
            if interval is None:
                self._introduce(sample.id)
                interval = self._gpu_intervals[sample.id] = _GpuInterval(since_s=now_s)
                continue  # the first reading covers no time of the run's
            interval.samples.add(sample, is_full=is_full)
            if interval.is_due(sample, now_s=now_s, every_s=self._record_every_s()):
                self._write_gpu(sample.id, interval, now_s)

    def sample_host(self) -> None:
        """Look at the host; write a record if one is due."""
        for source, interval in self._host:
            for sample in self.attempts.call(source.sample) or ():
                interval.add(sample)
                self._remember(source, sample)
        now_s = self._clock()
        if _is_due(now_s - self._host_since_s, self._record_every_s()):
            self._write_host(now_s)

    def end(self) -> None:
        """Write what has been gathered since the last records, and let the sensors go."""
        now_s = self._clock()
        for gpu, interval in self._gpu_intervals.items():
            if interval.samples.num_samples:
                self._write_gpu(gpu, interval, now_s)
        if any(interval.num_samples for _, interval in self._host):
            self._write_host(now_s)
        self._journal.event(
            "telemetry",
            epochal_cpu_pct=self._cost.mean_pct(),
            epochal_rss=self.attempts.call(self._cost.rss),
            failures=self.attempts.failures,
            **({"last_failure": self.attempts.last_failure} if self.attempts.failures else {}),
        )
        self.attempts.call(self._gpus.close)
        for source, _ in self._host:
            self.attempts.call(source.close)

    def _record_every_s(self) -> float:
        age_s = self._clock() - self._started_s
        return RECORD_EVERY_S if age_s < _FIRST_DAY_S else LATER_RECORD_EVERY_S

    def _learn(self) -> None:
        now_s = self._clock()
        if now_s < self._learn_at_s or self._used.is_complete:
            return
        computing = self.attempts.call(self._gpus.pids) or {}
        if any(computing.values()) or not self._used.ids:
            own = self.attempts.call(self._own_pids) or ()
            self._used.learn(computing, own=own, age_s=now_s - self._started_s)
        self._learn_at_s = now_s + (_LEARN_AGAIN_EVERY_S if self._used.ids else _LEARN_EVERY_S)

    def _introduce(self, gpu: int) -> None:
        for model in self.attempts.call(self._gpus.gpu_models) or ():
            if model.id == gpu:
                known = {field.name: getattr(model, field.name) for field in fields(model)}
                facts = {name: value for name, value in known.items() if value is not None}
                self._journal.write("gpu-model", {"rank": self._charge.rank, **facts})

    def _write_gpu(self, gpu: int, interval: _GpuInterval, now_s: float) -> None:
        summary = interval.take(now_s)
        self.last_seen.setdefault("gpu_dram_free", {})[str(gpu)] = summary.get("dram_free")
        self._journal.write("gpu", {"id": gpu, **summary}, at=self._moment())

    def _write_host(self, now_s: float) -> None:
        record: dict[str, Any] = {"interval_s": _seconds(now_s - self._host_since_s)}
        extremes: dict[str, dict[str, float]] = {"min": {}, "max": {}}
        for _, interval in self._host:
            summary = interval.summary()
            for name, found in extremes.items():
                found.update(summary.pop(name, {}))
            record.update(summary)
        self._host_since_s = now_s
        record["epochal_cpu_pct"] = self._cost.pct()
        record["epochal_rss"] = self.attempts.call(self._cost.rss)
        known = {name: value for name, value in record.items() if value is not None}
        both = {name: values for name, values in extremes.items() if values}
        self._journal.write("system", {**known, **both}, at=self._moment())

    def _moment(self) -> float:
        # Whole seconds: the times of a day's records are then nearly free to store.
        return float(math.floor(self._wall()))

    def _remember(self, source: Source[Any], sample: object) -> None:
        for metric in source.metrics:
            if metric.name in _REMEMBERED:
                self.last_seen[metric.name] = getattr(sample, metric.attribute)


class _GpuInterval:
    """One GPU's samples since its last record."""

    def __init__(self, *, since_s: float) -> None:
        self.samples = Interval(GPU_METRICS)
        self._since_s = since_s
        self._said: str = ""
        self._worst: str = ""

    def is_due(self, sample: GpuSample, *, now_s: float, every_s: float) -> bool:
        """Whether a record is due with this sample."""
        word = sample.throttle or ""
        self._worst = min(self._worst, word, key=_gravity)
        if _gravity(word) < _gravity(self._said) and word not in _FULL_SPEED:
            return True
        # The end of a throttling is not to be an hour's guess either.
        limit_s = RECORD_EVERY_S if self._worst not in _FULL_SPEED else every_s
        return _is_due(now_s - self._since_s, limit_s)

    def take(self, now_s: float) -> Mapping[str, Any]:
        """The fields of the record; a new interval begins."""
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        self._said, self._worst = self._worst, ""
        return {"interval_s": _seconds(elapsed_s), **self.samples.summary()}


def _gravity(word: str) -> int:
    return THROTTLE_WORDS.index(word) if word in THROTTLE_WORDS else len(THROTTLE_WORDS)


def _is_due(elapsed_s: float, every_s: float) -> bool:
    # The ticks of a second come a moment early or late.
    return elapsed_s >= every_s - GPU_EVERY_S / 2


def _seconds(elapsed_s: float) -> float:
    return float(round(elapsed_s))


def _host_of(charge: Charge) -> list[Source[Any]]:
    return [
        HostSource(cgroup=Cgroup.of(charge.parent)),
        ProcessSource(charge.parent, without={os.getpid()}),
        DiskSource(charge.folder.path),
        NetworkSource(),
    ]


def own_processes(charge: Charge) -> frozenset[int]:
    """The processes of the run on this machine: the parent's tree; with ranks, its siblings' too.

    Ranks that share a machine have one parent, be it torchrun, mpirun or Slurm's step.
    """
    import psutil

    try:
        root = psutil.Process(charge.parent)
        parent = root.parent() if charge.shares_node else None
        tree = root if parent is None or parent.pid == 1 else parent
        found = [tree, *tree.children(recursive=True)]
    except psutil.Error:
        return frozenset({charge.parent})
    return frozenset(one.pid for one in found) - {os.getpid()}
