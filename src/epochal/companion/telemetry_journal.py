"""Samples the machine beside a run, and writes summaries of the samples as records.

A record is written for ten seconds of it, and for sixty after the first day. The current readings
are in a file of their own, for the live page.

GPUs have a quick reading every second, and a full one every ten. A full reading takes the driver
ten times as long, and gives power and utilisation as means since the last one. So only full
readings become records, and each covers the time of its record.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from epochal.base.guard import Guard
from epochal.companion.config import CompanionConfig
from epochal.companion.own_journal import OwnJournal
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode_json
from epochal.telemetry.gpu import SOURCE_BUDGET_S, THROTTLE_WORDS, GpuModel, GpuSample, GpuSource
from epochal.telemetry.host import (
    Cgroup,
    DiskSource,
    HostSource,
    NetworkSource,
    ProcessSource,
    hardware_line,
)
from epochal.telemetry.machine_gpus import UsedGpus
from epochal.telemetry.sampler import Interval

T = TypeVar("T")

GPU_EVERY_S = 1.0
GPU_MEMBER = "source gpu"
_LEARN_EVERY_S = 10.0
_LEARN_AGAIN_EVERY_S = 60.0
RECORD_EVERY_S = 10.0
LATER_RECORD_EVERY_S = 60.0
HOST_EVERY_S = 5.0
_FIRST_DAY_S = 86_400.0
# The ticks of a second come a moment early or late.
_LENIENCE_S = 0.5
NO_CAP = "no cap"
# A GPU at its power limit is held back in one second and not in the next: that is one change, and
# it is over when a minute has passed without.
RELEASE_S = 60.0
_FULL_SPEED = ("", "idle")
_BLOCK = 4096
_MIB = 1024**2


@dataclass
class Cadence:
    """Counts from when it was made; ``clock`` counts seconds, ``wall`` gives Unix seconds.

    ``every_s`` is how much time one record stands for; left out, ten seconds, and sixty after the
    first day.
    """

    every_s: float | None = None
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._started_s = self.clock()

    def age_s(self) -> float:
        """How long telemetry has been running."""
        return self.clock() - self._started_s

    def record_every_s(self) -> float:
        """The time that one record covers: the setting, else less on the first day."""
        if self.every_s is not None:
            return self.every_s
        return RECORD_EVERY_S if self.age_s() < _FIRST_DAY_S else LATER_RECORD_EVERY_S

    def thorough_every_s(self) -> float:
        """How often a GPU is read thoroughly: what records are made of, and no rarer."""
        return min(RECORD_EVERY_S, self.record_every_s())

    def host_every_s(self) -> float:
        """How often the host is read."""
        return min(HOST_EVERY_S, self.record_every_s())

    def moment(self) -> float:
        """Now, in whole Unix seconds: regular times take next to nothing to store."""
        return float(math.floor(self.wall()))


def is_due(elapsed_s: float, every_s: float) -> bool:
    """Whether something is due that was done so long ago."""
    return elapsed_s >= every_s - _LENIENCE_S


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


# -- GPUs ------------------------------------------------------------------------------------------


class ThrottleWatch:
    """One GPU's throttling; a worse cause is recorded at once, a milder one when it lasts."""

    def __init__(self) -> None:
        self._recorded_cap = NO_CAP
        self._worst = NO_CAP
        self._worst_s = 0.0

    def see(self, throttle: str | None, now_s: float) -> dict[str, str] | None:
        """Take in a reading, None for one without the word; the change it makes, if any."""
        if throttle is None:
            return None
        word = NO_CAP if throttle in _FULL_SPEED else throttle
        if gravity(word) <= gravity(self._recorded_cap):
            self._worst, self._worst_s = word, now_s
            return self._change(word)
        # Less grave: of what was seen since the last grave reading, the gravest counts.
        since = self._worst if self._worst != self._recorded_cap else NO_CAP
        self._worst = min(word, since, key=gravity)
        if now_s - self._worst_s < RELEASE_S:
            return None
        self._worst_s = now_s
        return self._change(self._worst)

    def _change(self, word: str) -> dict[str, str] | None:
        was, self._recorded_cap = self._recorded_cap, word
        return None if was == word else {"throttle": word, "was": was}


def gravity(word: str) -> int:
    """A word's place among all, the gravest first."""
    return THROTTLE_WORDS.index(word) if word in THROTTLE_WORDS else len(THROTTLE_WORDS)


@dataclass(slots=True)
class GpuJournal:
    """Samples the GPUs a run uses and writes their records; raises for nothing a sensor does.

    ``own_pids`` gives the run's processes, ``guard`` keeps what fails.
    """

    config: CompanionConfig
    journal: OwnJournal
    gpus: GpuSource
    used: UsedGpus
    own_pids: Callable[[], Collection[int]]
    guard: Guard
    source_budget_s: float
    cadence: Cadence
    live: LiveFile
    dram_free: dict[str, int | None] = field(default_factory=dict)
    _learn_at_s: float = 0.0
    _intervals: dict[int, _GpuInterval] = field(default_factory=dict)
    _throttles: dict[int, ThrottleWatch] = field(default_factory=dict)

    def models(self) -> list[GpuModel]:
        """The GPUs the run uses; all it could use while that is not known."""
        models = list(self._read_gpus(self.gpus.gpu_models) or ())
        return [model for model in models if model.id in self.used.ids] or models

    def sample(self) -> None:
        """Read the GPUs that are used; write a record if one is due."""
        self._learn()
        now_s = self.cadence.clock()
        every_s, known = self.cadence.thorough_every_s, self._intervals
        ripe = frozenset(
            gpu
            for gpu in self.used.ids
            if gpu not in known or is_due(now_s - known[gpu].full_at_s, every_s())
        )
        for sample in self._read(self.used.ids - ripe, light=True):
            interval = self._intervals[sample.id]
            interval.add(sample)
            if interval.is_alarming:
                ripe |= {sample.id}
        for sample in self._read(ripe):
            if sample.id not in self._intervals:
                self._introduce(sample.id)
                # The first reading covers no time of the run's.
                self._intervals[sample.id] = _GpuInterval(
                    since_s=now_s, thorough_every_s=self.cadence.thorough_every_s
                )
                continue
            interval = self._intervals[sample.id]
            interval.add(sample, full_at_s=now_s)
            if interval.is_alarming or interval.is_due(now_s, self.cadence.record_every_s()):
                self._write(sample.id, interval, now_s)

    def end(self) -> None:
        """Write what has been gathered since the last records, and let the driver go."""
        now_s = self.cadence.clock()
        gathered = {gpu: one for gpu, one in self._intervals.items() if one.samples.num_samples}
        for sample in self._read(gathered.keys()):
            gathered[sample.id].add(sample, full_at_s=now_s)
        for gpu, interval in gathered.items():
            self._write(gpu, interval, now_s)
        self._read_gpus(self.gpus.close)

    def _read(self, gpus: Collection[int], *, light: bool = False) -> tuple[GpuSample, ...]:
        if not gpus:
            return ()
        found = self._read_gpus(lambda: self.gpus.sample(only=gpus, light=light)) or ()
        for sample in found:
            self.live.see_gpu(sample.id, sample.readings())
            self._see_throttle(sample)
        return found

    def _read_gpus(self, call: Callable[[], T]) -> T | None:
        """The driver's samples; a driver that hangs is not called again until it has returned."""
        return self.guard.bounded(GPU_MEMBER, call, budget_s=self.source_budget_s)

    def _see_throttle(self, sample: GpuSample) -> None:
        watch = self._throttles.setdefault(sample.id, ThrottleWatch())
        change = watch.see(sample.throttle, self.cadence.clock())
        if change is not None:
            self.journal.event("gpu-throttle", id=sample.id, **change)

    def _learn(self) -> None:
        now_s = self.cadence.clock()
        if now_s < self._learn_at_s or self.used.is_complete:
            return
        computing = self._read_gpus(self.gpus.pids) or {}
        if any(computing.values()) or not self.used.ids:
            own = self.guard.run("source processes", self.own_pids) or ()
            self.used.learn(computing, own=own, age_s=self.cadence.age_s())
        self._learn_at_s = now_s + (_LEARN_AGAIN_EVERY_S if self.used.ids else _LEARN_EVERY_S)

    def _introduce(self, gpu: int) -> None:
        for model in self._read_gpus(self.gpus.gpu_models) or ():
            if model.id == gpu:
                known = {field.name: getattr(model, field.name) for field in fields(model)}
                facts = {name: value for name, value in known.items() if value is not None}
                self.journal.write("gpu-model", {"rank": self.config.rank, **facts})

    def _write(self, gpu: int, interval: _GpuInterval, now_s: float) -> None:
        summary = interval.take(now_s)
        self.dram_free[str(gpu)] = summary.get("dram_free")
        self.journal.write("gpu", {"id": gpu, **summary}, at=self.cadence.moment())


class _GpuInterval:
    """One GPU's samples since its last record."""

    def __init__(self, *, since_s: float, thorough_every_s: Callable[[], float]) -> None:
        self._thorough_every_s = thorough_every_s
        self.samples = Interval("gpu")
        self.full_at_s = since_s
        self._since_s = since_s
        self._recorded_cap = ""
        self._worst = ""

    def add(self, sample: GpuSample, *, full_at_s: float | None = None) -> None:
        """Take in a sample; of a thorough one, its time."""
        if full_at_s is not None:
            self.full_at_s = full_at_s
        self.samples.add(sample.readings(), is_full=full_at_s is not None)
        self._worst = min(self._worst, sample.throttle or "", key=gravity)

    @property
    def is_alarming(self) -> bool:
        """Whether the GPU is throttled more severely than in its last record."""
        return self._worst not in _FULL_SPEED and gravity(self._worst) < gravity(self._recorded_cap)

    def is_due(self, now_s: float, every_s: float) -> bool:
        # The end of a throttling is not to be known a minute late.
        if self._worst not in _FULL_SPEED:
            every_s = self._thorough_every_s()
        return is_due(now_s - self._since_s, every_s)

    def take(self, now_s: float) -> Mapping[str, Any]:
        """The fields of the record; a new interval begins."""
        elapsed_s, self._since_s = now_s - self._since_s, now_s
        self._recorded_cap, self._worst = self._worst, ""
        return {"interval_s": float(round(elapsed_s)), **self.samples.summary()}


# -- the machine -----------------------------------------------------------------------------------


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
