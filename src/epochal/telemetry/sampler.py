"""The training process's own look at its machine, once per logged epoch.

Nothing that goes wrong here reaches the training loop: a source that fails is counted, and its
readings are absent. Nor does looking cost much: a source is left alone until its last reading has
become cheap against the time that passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource
from epochal.telemetry.host import HostSample, HostSource, hardware_line
from epochal.telemetry.machine_gpus import MachineGpus
from epochal.telemetry.source import Source
from epochal.telemetry.torch_memory import TorchMemorySample, TorchMemorySource

T = TypeVar("T")

_GIB = 1024**3
# Largest share of the training process's time that one source may take.
_MAX_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class ResourceSample:
    """Machine and GPUs at one moment: percent and bytes, ``None`` for what is not there.

    GPU use is the mean over the visible GPUs. The VRAM figures are this process's, over the devices
    it uses: in live tensors (active), held by the allocator (allocated), and held beyond what is
    physically there (spill). Without an allocator ``vram_total`` is that of the visible GPUs.
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


class Attempts:
    """Calls what may fail and must not matter.

    ``failures`` counts what was raised, ``last_failure`` has the newest in words.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.last_failure = ""

    def call(self, call: Callable[[], T]) -> T | None:
        """What the call returns; None, and a count, where it raises."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - a sensor's fault must not end a training run
            self.failures += 1
            self.last_failure = f"{type(error).__name__}: {error}"
            return None


class ResourceSampler:
    """Samples host, GPUs and allocator together; for one thread, and never raising.

    The sources can be given; left out they are this machine's. ``clock`` counts seconds.
    ``failures`` counts what sources raised, ``last_failure`` has the newest in words.
    """

    def __init__(
        self,
        *,
        host: Source[HostSample] | None = None,
        gpu: GpuSource | None = None,
        memory: Source[TorchMemorySample] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._attempts = Attempts()
        self._attempt = self._attempts.call
        self._gpu_source: GpuSource = MachineGpus(quick=True) if gpu is None else gpu
        self._host = _Paced(HostSource() if host is None else host, clock=clock)
        self._gpu = _Paced(self._gpu_source, clock=clock)
        self._memory = _Paced(TorchMemorySource() if memory is None else memory, clock=clock)

    @property
    def failures(self) -> int:
        """How often a source raised."""
        return self._attempts.failures

    @property
    def last_failure(self) -> str:
        """What a source raised last, in words."""
        return self._attempts.last_failure

    def prime(self) -> None:
        """Take a first reading, so that the next sample's shares cover the time from here."""
        self._attempt(self._host.sample)
        self._attempt(self._gpu.sample)

    def sample(self) -> ResourceSample:
        """Read everything that is there."""
        host = (self._attempt(self._host.sample) or (HostSample(),))[0]
        gpus = self._attempt(self._gpu.sample) or ()
        memory = self._attempt(self._memory.sample) or ()
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
        return self._attempt(self._gpu_source.gpu_models) or ()

    def hardware_line(self) -> str:
        """One line on CPU, memory and GPUs; empty if even that cannot be read."""
        models = self.gpu_models()
        return self._attempt(lambda: hardware_line(gpus=models)) or ""

    def close(self) -> None:
        """Give back what the sources took."""
        for source in (self._host, self._gpu, self._memory):
            self._attempt(source.close)


class _Paced(Generic[T]):
    """A source that repeats its last samples until reading anew is worth the time it takes."""

    def __init__(self, source: Source[T], *, clock: Callable[[], float]) -> None:
        self.close = source.close
        self._source = source
        self._clock = clock
        self._latest: tuple[T, ...] = ()
        self._due_s: float | None = None

    def sample(self) -> tuple[T, ...]:
        began_s = self._clock()
        if self._due_s is not None and began_s < self._due_s:
            return self._latest
        self._latest = ()
        try:
            self._latest = self._source.sample()
        finally:
            ended_s = self._clock()
            # The first reading also loads libraries; what it took says nothing about the next.
            cost_s = 0.0 if self._due_s is None else ended_s - began_s
            self._due_s = ended_s + cost_s / _MAX_SHARE
        return self._latest


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
