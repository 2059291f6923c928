"""A GPU of any vendor: its current state, its properties, and what every source of them gives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

# A reading takes milliseconds, the first of eight GPUs some seconds: one that takes longer hangs.
SOURCE_BUDGET_S = 10.0


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU's state, in the units of the ``gpu`` record; ``None`` is what the GPU does not tell.

    ``id`` is the number the vendor's tools show. ``throttle`` is one of ``THROTTLE_WORDS``, empty
    at full speed. ``sm_active``, ``tensor_active`` and ``dram_active`` are the shares of time that
    multiprocessors, tensor cores and memory bus worked. ``energy`` counts from the first sample;
    the ECC errors are counted from when the driver was loaded.
    """

    id: int
    name: str | None = None
    uuid: str | None = None
    clock: int | None = None
    max_clock: int | None = None
    power: int | None = None
    power_limit: int | None = None
    temperature: int | None = None
    temp_slowdown: int | None = None
    gpu_util: float | None = None
    mem_util: float | None = None
    dram_free: int | None = None
    dram_used: int | None = None
    dram_total: int | None = None
    pcie_rx: int | None = None
    pcie_tx: int | None = None
    fan: int | None = None
    throttle: str | None = None
    sm_active: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    energy: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None

    def readings(self) -> dict[str, Any]:
        """The fields of a ``gpu`` record that were read."""
        values = {name: getattr(self, name) for name in GPU_METRICS}
        return {name: value for name, value in values.items() if value is not None}


GPU_METRICS = tuple(one.name for one in fields(GpuSample) if one.name not in ("id", "name", "uuid"))
# Gravest first.
THROTTLE_WORDS = ("thermal cap", "power cap", "other cap", "", "idle")


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a GPU is: the fields of a ``gpu-model`` record; sizes in bytes.

    ``cuda_driver`` is the newest CUDA version the driver serves, as 1000 * major + 10 * minor.
    ``l2_size`` and ``cuda_runtime`` are known only to a program that runs CUDA. ``sm_count`` counts
    AMD's compute units; ``major`` and ``minor`` are what PyTorch calls the device's capability.
    """

    id: int
    name: str | None = None
    sm_count: int | None = None
    major: int | None = None
    minor: int | None = None
    memory: int | None = None
    free: int | None = None
    l2_size: int | None = None
    uuid: str | None = None
    ecc: bool | None = None
    cuda_driver: int | None = None
    cuda_runtime: int | None = None


class GpuSource:
    """Some GPUs that can be read again and again; one thread uses it.

    A vendor gives its visible GPUs in ``_open``, and else says in ``why_absent`` why there are
    none. Each has ``index`` (the ``id`` of its samples), ``failures``, ``last_failure``,
    ``sample``, ``model``, ``pids`` and ``recent_use``. After ``close()``, a source has no GPUs.
    """

    def __init__(self) -> None:
        self.why_absent: str | None = None
        self._opened: Sequence[Any] | None = None
        self._is_closed = False

    @property
    def _devices(self) -> Sequence[Any]:
        if self._is_closed:
            return ()
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Sequence[Any]:
        return ()

    @property
    def failures(self) -> int:
        """How many readings failed for another reason than not being offered."""
        return sum(device.failures for device in self._opened or ())

    @property
    def last_failure(self) -> str | None:
        """One of those failures in words."""
        return next((one.last_failure for one in self._opened or () if one.last_failure), None)

    def probe(self) -> bool:
        """Return whether a GPU is visible; looked up once, at the first call."""
        return bool(self._devices)

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every visible GPU, or those of some ids; use and power are since the last call.

        A ``light`` reading is cheap enough for every second, and gives the moment's instead.
        """
        chosen = [one for one in self._devices if only is None or one.index in only]
        return tuple(device.sample(light=light) for device in chosen)

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        """How busy each GPU was since a moment, by ``id``, as far as its driver remembers."""
        chosen = [one for one in self._devices if only is None or one.index in only]
        found = {one.index: one.recent_use(since) for one in chosen}
        return {gpu: samples for gpu, samples in found.items() if samples}

    def pids(self) -> dict[int, frozenset[int] | None]:
        """For each visible GPU by ``id``, the processes that compute on it; None if unknown."""
        return {one.index: one.pids() for one in self._devices}

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe each visible GPU."""
        return tuple(one.model() for one in self._devices)

    def close(self) -> None:
        """Release the driver; a second call does nothing."""
        self._is_closed = True
