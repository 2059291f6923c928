"""Samples the machine in the training process once per logged epoch, and reduces the samples.

Nothing that goes wrong here reaches the training loop: a source that fails is counted, and its
readings are absent. Nor does looking cost much: a source is left alone until its last reading has
become cheap against the time that passed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from epochal.base.guard import Guard
from epochal.records import KINDS
from epochal.telemetry.gpu import SOURCE_BUDGET_S, THROTTLE_WORDS, GpuModel, GpuSample, GpuSource
from epochal.telemetry.host import HostSource, hardware_line
from epochal.telemetry.machine_gpus import MachineGpus

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


class TorchMemory(NamedTuple):
    """Bytes of one device in PyTorch: in live tensors, reserved from the driver, and physical."""

    device: int
    active: int
    reserved: int
    total: int


def torch_memory(modules: Mapping[str, Any] = sys.modules) -> tuple[TorchMemory, ...]:
    """PyTorch's CUDA allocator in this process: each device that memory was taken on.

    PyTorch is looked at only if the program has imported it and started CUDA itself. Before memory
    is taken, the current device is read.
    """
    # Absent while the import of torch is still under way.
    cuda = getattr(modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return ()
    used = [i for i in range(cuda.device_count()) if cuda.memory_reserved(i) > 0]
    return tuple(
        TorchMemory(
            device=i,
            active=int(cuda.memory_allocated(i)),
            reserved=int(cuda.memory_reserved(i)),
            # Not mem_get_info, which would make a context on the device.
            total=int(cuda.get_device_properties(i).total_memory),
        )
        for i in used or [cuda.current_device()]
    )


class ResourceSampler:
    """Samples host, GPUs and allocator together; for one thread, never raising, never hanging.

    The sources can be given; left out they are this machine's. ``clock`` counts seconds. ``guard``
    keeps what sources raise; one that does not answer in time is left alone until it has.
    """

    def __init__(
        self,
        *,
        host: Callable[[], Mapping[str, Any]] | None = None,
        gpu: GpuSource | None = None,
        memory: Callable[[], tuple[TorchMemory, ...]] = torch_memory,
        clock: Callable[[], float] = time.perf_counter,
        guard: Guard | None = None,
        source_budget_s: float = SOURCE_BUDGET_S,
    ) -> None:
        self.guard = Guard() if guard is None else guard
        self._budget_s = source_budget_s
        self._gpus: GpuSource = MachineGpus(quick=True) if gpu is None else gpu
        self._host = _Paced(HostSource().sample if host is None else host, clock=clock)
        self._gpu = _Paced(self._gpus.sample, clock=clock)
        self._memory = _Paced(memory, clock=clock)

    def prime(self) -> None:
        """Take a first reading, so that the next sample's shares cover the time from here."""
        self._sample("host", self._host)
        self._sample("gpu", self._gpu)

    def sample(self) -> ResourceSample:
        """Read everything that is there."""
        host = self._sample("host", self._host) or {}
        gpus = self._sample("gpu", self._gpu) or ()
        memory = self._sample("torch memory", self._memory) or ()
        total = _sum(device.total for device in memory)
        return ResourceSample(
            **host,
            gpu_pct=_mean(gpu.gpu_util for gpu in gpus),
            vram_active_bytes=_sum(device.active for device in memory),
            vram_allocated_bytes=_sum(device.reserved for device in memory),
            vram_total=_sum(gpu.dram_total for gpu in gpus) if total is None else total,
            vram_spill=_sum(max(0, device.reserved - device.total) for device in memory),
            gpus=gpus,
        )

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe the visible GPUs."""
        return self._read("gpu", self._gpus.gpu_models) or ()

    def hardware_line(self) -> str:
        """One line on CPU, memory and GPUs; empty if even that cannot be read."""
        models = self.gpu_models()
        return self._read("hardware", lambda: hardware_line(gpus=models)) or ""

    def close(self) -> None:
        """Release the driver of the GPUs."""
        self._read("gpu", self._gpus.close)

    def _sample(self, name: str, source: _Paced[T]) -> T | None:
        return source.latest if source.is_fresh else self._read(name, source.read)

    def _read(self, name: str, call: Callable[[], T]) -> T | None:
        return self.guard.bounded(f"source {name}", call, budget_s=self._budget_s)


class _Paced(Generic[T]):
    """Repeats the last reading of a source until a new one is worth its cost."""

    def __init__(self, read: Callable[[], T], *, clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self.latest: T | None = None
        self._due_s: float | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether the last reading is to be repeated."""
        return self._due_s is not None and self._clock() < self._due_s

    def read(self) -> T:
        began_s = self._clock()
        self.latest = None
        try:
            self.latest = self._read()
            return self.latest
        finally:
            ended_s = self._clock()
            # The first reading also loads libraries; what it took says nothing about the next.
            cost_s = 0.0 if self._due_s is None else ended_s - began_s
            self._due_s = ended_s + cost_s / _MAX_SHARE


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


_MIB = 1024**2


# What means and extremes of one unit are multiples of.
_STEPS = {"%": (0.5, 2), "mW": (1000, 5000), "MHz": (5, 15), "bytes": (_MIB, _MIB)}
_ANY_UNIT = (1, 1)
_RATE = "bytes/s"


# What hardly moves or only counts up: of several samples the newest says it all.
_STEADY = frozenset(
    "max_clock power_limit temp_slowdown dram_total energy ecc_corrected ecc_uncorrected"
    " ram_total threads disk_total".split()
)
# What a full reading of a GPU gives as a mean since the last one.
_AVERAGED = frozenset({"power", "gpu_util", "mem_util"})


class Interval:
    """The readings of one thing since the last ``summary``, as fields of a kind of record."""

    def __init__(self, kind: str) -> None:
        self._units = {field.name: field.unit for field in KINDS[kind].fields}
        self._values: dict[str, list[float]] = {}
        self._means: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}
        self.num_samples = 0

    def add(self, readings: Mapping[str, Any], *, is_full: bool = False) -> None:
        """Take in some readings by name; a full one is itself a mean, and outweighs the others."""
        self.num_samples += 1
        for name, value in readings.items():
            if isinstance(value, str):
                self._words.setdefault(name, []).append(value)
                continue
            self._values.setdefault(name, []).append(value)
            if is_full and name in _AVERAGED:
                self._means.setdefault(name, []).append(value)

    def summary(self) -> dict[str, Any]:
        """The fields of a record: means under their names, ``min`` and ``max``; starts anew.

        What nobody knew is left out. A word is the gravest of those seen. Rates have no least: it
        is nearly always 0.
        """
        fields: dict[str, Any] = {name: _gravest(seen) for name, seen in self._words.items()}
        least: dict[str, float] = {}
        greatest: dict[str, float] = {}
        for name, unit in self._units.items():
            values = self._values.get(name)
            if not values:
                continue
            if name in _STEADY:
                fields[name] = values[-1]
                continue
            fields[name] = _mean_of(self._means.get(name, values), unit)
            greatest[name] = _rounded_up(max(values), unit)
            if unit != _RATE:
                least[name] = -_rounded_up(-min(values), unit)
        self._values, self._means, self._words, self.num_samples = {}, {}, {}, 0
        extremes = {"min": least, "max": greatest}
        return {**fields, **{name: found for name, found in extremes.items() if found}}


def _mean_of(values: Sequence[float], unit: str) -> float:
    mean = math.fsum(values) / len(values)
    step = _rate_step(mean, digits=2) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT)[0]
    return round(mean / step) * step


def _rounded_up(value: float, unit: str) -> float:
    step = _rate_step(value, digits=1) if unit == _RATE else _STEPS.get(unit, _ANY_UNIT)[1]
    return math.ceil(value / step) * step


def _rate_step(value: float, *, digits: int) -> int:
    """Rates differ by orders of magnitude: what counts is their leading digits."""
    if value < 10**digits:
        return 1
    return int(10 ** (math.floor(math.log10(value)) - (digits - 1)))


def _gravest(words: Sequence[str]) -> str:
    known = [word for word in THROTTLE_WORDS if word in words]
    return known[0] if known else words[-1]
