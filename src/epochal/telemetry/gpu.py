"""A GPU of any vendor: its current state and its properties."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from epochal.records import KINDS
from epochal.telemetry.source import Metric, Source


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU's state; units are in ``GPU_METRICS``, ``None`` is what the GPU does not tell.

    ``id`` is the number the vendor's tools show. ``throttle`` is one of ``THROTTLE_WORDS``, empty
    at full speed. ``sm_active``, ``tensor_active`` and ``dram_active`` are the shares of time that
    multiprocessors, tensor cores and memory bus worked. ``energy`` counts from the first sample;
    the ECC errors are counted from when the driver was loaded. Where memory is the machine's,
    ``dram_used`` is the GPU's part of it and ``dram_total`` all of it.
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


# Gravest first.
THROTTLE_WORDS = ("thermal cap", "power cap", "other cap", "", "idle")

_GPU = KINDS["gpu"]
GPU_METRICS = (
    Metric("clock", _GPU["clock"]),
    Metric("max_clock", _GPU["max_clock"], steady=True),
    Metric("power", _GPU["power"], averaged=True),
    Metric("power_limit", _GPU["power_limit"], steady=True),
    Metric("temperature", _GPU["temperature"]),
    Metric("temp_slowdown", _GPU["temp_slowdown"], steady=True),
    Metric("gpu_util", _GPU["gpu_util"], averaged=True),
    Metric("mem_util", _GPU["mem_util"], averaged=True),
    Metric("dram_free", _GPU["dram_free"]),
    Metric("dram_used", _GPU["dram_used"]),
    Metric("dram_total", _GPU["dram_total"], steady=True),
    Metric("pcie_rx", _GPU["pcie_rx"]),
    Metric("pcie_tx", _GPU["pcie_tx"]),
    Metric("fan", _GPU["fan"]),
    Metric("throttle", _GPU["throttle"]),
    Metric("sm_active", _GPU["sm_active"]),
    Metric("tensor_active", _GPU["tensor_active"]),
    Metric("dram_active", _GPU["dram_active"]),
    Metric("energy", _GPU["energy"], steady=True),
    Metric("ecc_corrected", _GPU["ecc_corrected"], steady=True),
    Metric("ecc_uncorrected", _GPU["ecc_uncorrected"], steady=True),
)


@dataclass(frozen=True, slots=True)
class GpuModel:
    """What a GPU is: the fields of a ``gpu-model`` record; sizes in bytes.

    ``cuda_driver`` is the newest CUDA version the driver serves, as 1000 * major + 10 * minor.
    ``l2_size`` and ``cuda_runtime`` are known only to a program that runs CUDA. ``sm_count`` counts
    AMD's compute units and Apple's GPU cores; ``major`` and ``minor`` are what PyTorch calls the
    device's capability, for AMD the version of its instruction set.
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


class GpuSource(Source[GpuSample], Protocol):
    """A source of GPU samples that also identifies the GPUs and their processes."""

    @property
    def failures(self) -> int:
        """How many readings failed for another reason than not being offered."""

    @property
    def last_failure(self) -> str | None:
        """One of those failures in words."""

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every visible GPU, or those of some ids; use and power are since the last call.

        A ``light`` reading is cheap enough for every second, and gives the moment's instead.
        """

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        """How busy each GPU was since a moment, as far as its driver remembers.

        By ``id``, Unix seconds and percent in the order of time; empty once closed.
        """

    def pids(self) -> dict[int, frozenset[int] | None]:
        """For each visible GPU by ``id``, the processes that compute on it; None if unknown."""

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe each visible GPU; empty where there is none."""
