"""Samples the machine in the training process, once per logged epoch.

Nothing that goes wrong here reaches the training loop: a source that fails is counted, and its
readings are absent. Nor does looking cost much: a source is left alone until its last reading has
become cheap against the time that passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from epochal.guard import Guard
from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource
from epochal.telemetry.host import HostSample, HostSource, hardware_line
from epochal.telemetry.machine_gpus import MachineGpus
from epochal.telemetry.source import SOURCE_BUDGET_S, Source
from epochal.telemetry.torch_memory import TorchMemorySample, TorchMemorySource

T = TypeVar("T")

_GIB = 1024**3
# Largest share of the training process's time that one source may take.
_MAX_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """Machine and GPUs at one moment: percent and bytes, ``None`` for what is not there.

    GPU utilisation is the mean over the visible GPUs. The VRAM figures are those of this process
    over its devices: in live tensors (active), reserved by the allocator (allocated), and reserved
    beyond the physical memory (spill). Without an allocator ``vram_total`` is that of the visible
    GPUs.
    """

    cpu_pct: float | None = None
    ram_used: int | None = None
    ram_total: int | None = None
    gpu_pct: float | None = None
    vram_active_bytes: int | None = None
    vram_allocated_bytes: int | None = None
    vram_total: int | None = None
    vram_spill: int | None = None
    gpus: tuple[GpuSample, ...] = ()

    def summary(self) -> str:
        """One line of what is known: ``CPU: 45% | RAM: 3.0/24.0 GB | GPU: 82% | VRAM: 2.1/6.0 GB``.

        Without an allocator VRAM is what the visible GPUs hold, whoever holds it.
        """
        vram_used = self.vram_allocated_bytes
        if vram_used is None:
            vram_used = _sum(gpu.dram_used for gpu in self.gpus)
        parts = (
            _percent("CPU", self.cpu_pct),
            _gigabytes("RAM", self.ram_used, self.ram_total),
            _percent("GPU", self.gpu_pct),
            _gigabytes("VRAM", vram_used, self.vram_total),
        )
        return " | ".join(part for part in parts if part)


class ResourceSampler:
    """Samples host, GPUs and allocator together; for one thread, never raising, never hanging.

    The sources can be given; left out they are this machine's. ``clock`` counts seconds. ``guard``
    keeps what sources raise; one that does not answer in time is left alone until it has.
    """

    def __init__(
        self,
        *,
        host: Source[HostSample] | None = None,
        gpu: GpuSource | None = None,
        memory: Source[TorchMemorySample] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        guard: Guard | None = None,
        source_budget_s: float = SOURCE_BUDGET_S,
    ) -> None:
        self.guard = Guard() if guard is None else guard
        self._budget_s = source_budget_s
        self._gpu_source: GpuSource = MachineGpus(quick=True) if gpu is None else gpu
        self._host = _Paced(HostSource() if host is None else host, clock=clock)
        self._gpu = _Paced(self._gpu_source, clock=clock)
        self._memory = _Paced(TorchMemorySource() if memory is None else memory, clock=clock)

    def prime(self) -> None:
        """Take a first reading, so that the next sample's shares cover the time from here."""
        self._sample("host", self._host)
        self._sample("gpu", self._gpu)

    def sample(self) -> ResourceSample:
        """Read everything that is there."""
        host = (self._sample("host", self._host) or (HostSample(),))[0]
        gpus = self._sample("gpu", self._gpu) or ()
        memory = self._sample("torch memory", self._memory) or ()
        total = _sum(device.total for device in memory)
        return ResourceSample(
            cpu_pct=host.cpu_pct,
            ram_used=host.ram_used,
            ram_total=host.ram_total,
            gpu_pct=_mean(gpu.gpu_util for gpu in gpus),
            vram_active_bytes=_sum(device.active for device in memory),
            vram_allocated_bytes=_sum(device.reserved for device in memory),
            vram_total=_sum(gpu.dram_total for gpu in gpus) if total is None else total,
            vram_spill=_sum(max(0, device.reserved - device.total) for device in memory),
            gpus=gpus,
        )

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe the visible GPUs."""
        return self._read("gpu", self._gpu_source.gpu_models) or ()

    def hardware_line(self) -> str:
        """One line on CPU, memory and GPUs; empty if even that cannot be read."""
        models = self.gpu_models()
        return self._read("hardware", lambda: hardware_line(gpus=models)) or ""

    def close(self) -> None:
        """Close the sources."""
        self._read("host", self._host.close)
        self._read("gpu", self._gpu.close)
        self._read("torch memory", self._memory.close)

    def _sample(self, name: str, source: _Paced[T]) -> tuple[T, ...]:
        return source.latest if source.is_fresh else self._read(name, source.sample) or ()

    def _read(self, name: str, call: Callable[[], T]) -> T | None:
        return self.guard.bounded(f"source {name}", call, budget_s=self._budget_s)


class _Paced(Generic[T]):
    """A source that repeats its last samples until a new reading is worth its cost."""

    def __init__(self, source: Source[T], *, clock: Callable[[], float]) -> None:
        self.close = source.close
        self._source = source
        self._clock = clock
        self.latest: tuple[T, ...] = ()
        self._due_s: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether the last samples are to be repeated."""
        return self._due_s is not None and self._clock() < self._due_s

    def sample(self) -> tuple[T, ...]:
        """Read the source again."""
        began_s = self._clock()
        self.latest = ()
        try:
            self.latest = self._source.sample()
        finally:
            ended_s = self._clock()
            # The first reading also loads libraries; what it took says nothing about the next.
            cost_s = 0.0 if self._due_s is None else ended_s - began_s
            self._due_s = ended_s + cost_s / _MAX_SHARE
        return self.latest


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _percent(label: str, value: float | None) -> str:
    return "" if value is None else f"{label}: {value:.0f}%"


def _gigabytes(label: str, used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return ""
    return f"{label}: {used / _GIB:.1f}/{total / _GIB:.1f} GB"
