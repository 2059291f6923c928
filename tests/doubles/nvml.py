"""A stand-in for the ``pynvml`` module: two GPUs with readings like those of real ones.

Everything a test may want to change is an attribute of ``FakeNvml`` or of its ``FakeGpu``s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

T = TypeVar("T")

NOT_SUPPORTED = 3
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15

_MESSAGES = {
    NOT_SUPPORTED: "Not Supported",
    NOT_FOUND: "Not Found",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    GPU_IS_LOST: "GPU is lost",
}


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _MESSAGES.get(self.value, f"error {self.value}")


@dataclass
class FakeGpu:
    name: str = "NVIDIA H200"
    uuid: str = "GPU-7a539482-5e14-49d3-57cd-674508334e28"
    bus_id: str = "00000000:06:00.0"
    clock: int = 1740
    max_clock: int = 1980
    power: int = 620_337
    power_limit: int = 700_000
    energy: int = 5_095_180
    temperature: int = 58
    temp_slowdown: int = 89
    gpu_util: int = 99
    mem_util: int = 29
    memory_total: int = 150_754_820_096
    memory_free: int = 148_955_594_752
    fan: int = 65
    throttle: int = 0
    cores: int = 16_896
    capability: tuple[int, int] = (9, 0)
    ecc: bool = True
    pcie_received: int = 2_437_501_444
    pcie_sent: int = 1_948_800_144
    pcie_timestamp_us: int = 1_000_000
    samples: list[tuple[int, int]] = field(default_factory=list)
    ecc_errors: tuple[int, int] = (0, 0)
    pids: list[int] = field(default_factory=list)
    gpm: dict[int, float] | None = field(default_factory=lambda: {2: 81.25, 5: 44.0, 10: 37.5})
    lost: bool = False


def second_gpu() -> FakeGpu:
    return FakeGpu(uuid="GPU-91c2d100-0000-4a6b-8a44-4f1b0f6b2f11", bus_id="00000000:26:00.0")


def mixed_gpus() -> list[FakeGpu]:
    """A slow GPU at the lower PCI address, a fast one behind it; NVML lists the fast one first."""
    slow = FakeGpu(
        name="Tesla T4",
        uuid="GPU-04f4e0aa-8d0c-4b7e-9a3e-0d5a1c9c7c55",
        bus_id="00000000:01:00.0",
        max_clock=1590,
        cores=2560,
        capability=(7, 5),
        memory_total=16_106_127_360,
        memory_free=15_600_000_000,
        ecc=False,
    )
    return [FakeGpu(), slow]


class FakeNvml:
    """The part of ``pynvml`` that the source uses. Handles are positions in ``gpus``."""

    NVMLError = NvmlError
    NVML_SUCCESS = 0
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = NOT_SUPPORTED
    NVML_ERROR_NO_PERMISSION = 4
    NVML_ERROR_NOT_FOUND = NOT_FOUND
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_GPU_IS_LOST = GPU_IS_LOST
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_PCIE_UTIL_TX_BYTES = 0
    NVML_PCIE_UTIL_RX_BYTES = 1
    NVML_GPU_UTILIZATION_SAMPLES = 1
    NVML_MEMORY_UTILIZATION_SAMPLES = 2
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES = 197
    NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 198
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5
    NVML_GPM_METRIC_DRAM_BW_UTIL = 10
    NVML_VALUE_TYPE_DOUBLE = 0
    NVML_VALUE_TYPE_UNSIGNED_INT = 1
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3

    def __init__(
        self,
        gpus: list[FakeGpu] | None = None,
        *,
        unsupported: Iterable[str] = (),
        driver: bool = True,
    ) -> None:
        self.gpus = [FakeGpu(), second_gpu()] if gpus is None else gpus
        self.unsupported = set(unsupported)
        self.driver = driver
        self.running = 0
        self.gpm_samples = 0
        self.calls: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NvmlError(DRIVER_NOT_LOADED)
        self.running += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.running -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        if uuid != "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f":
            raise NvmlError(NOT_FOUND)
        return 1

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlDeviceGetIndex(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 13_000

    def nvmlDeviceGetSamples(self, handle: int, kind: int, since_us: int) -> Any:  # noqa: N802
        gpu = self._gpu(handle, "nvmlDeviceGetSamples")
        fresh = [(at, value) for at, value in gpu.samples if at > since_us]
        if not fresh:
            raise NvmlError(NOT_FOUND)
        return self.NVML_VALUE_TYPE_UNSIGNED_INT, [
            SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=value))
            for at, value in fresh
        ]

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:  # noqa: N802
        gpu = self._gpu(handle, "nvmlDeviceGetFieldValues")
        counts = {
            self.NVML_FI_DEV_PCIE_COUNT_RX_BYTES: gpu.pcie_received,
            self.NVML_FI_DEV_PCIE_COUNT_TX_BYTES: gpu.pcie_sent,
        }
        return [
            SimpleNamespace(
                nvmlReturn=self.NVML_SUCCESS,
                valueType=self.NVML_VALUE_TYPE_UNSIGNED_INT,
                value=SimpleNamespace(uiVal=counts[number] % 2**32),
                timestamp=gpu.pcie_timestamp_us,
            )
            for number in fields
        ]

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> Any:  # noqa: N802
        gpu = self._gpu(handle, "nvmlGpmQueryDeviceSupport")
        return SimpleNamespace(isSupportedDevice=int(gpu.gpm is not None))

    def nvmlGpmSampleAlloc(self) -> Any:  # noqa: N802
        self.gpm_samples += 1
        return SimpleNamespace(handle=None)

    def nvmlGpmSampleFree(self, _sample: Any) -> None:  # noqa: N802
        self.gpm_samples -= 1

    def nvmlGpmSampleGet(self, handle: int, sample: Any) -> Any:  # noqa: N802
        self._gpu(handle, "nvmlGpmSampleGet")
        sample.handle = handle
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: N802
        return SimpleNamespace(metrics=[SimpleNamespace() for _ in range(8)])

    def nvmlGpmMetricsGet(self, question: Any) -> Any:  # noqa: N802
        shares = self.gpus[question.sample2.handle].gpm or {}
        for metric in question.metrics[: question.numMetrics]:
            metric.value = shares[metric.metricId]
            metric.nvmlReturn = self.NVML_SUCCESS
        return question

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _ANSWERS:
            raise AttributeError(name)
        return lambda handle, *constants: _ANSWERS[name](self._gpu(handle, name), *constants)

    def _gpu(self, handle: int, function: str) -> FakeGpu:
        self.calls.append(function)
        if self.running < 1:
            raise NvmlError(1)
        if self.gpus[handle].lost:
            raise NvmlError(GPU_IS_LOST)
        if function in self.unsupported or "*" in self.unsupported:
            raise NvmlError(NOT_SUPPORTED)
        return self.gpus[handle]


_ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetName": lambda gpu: gpu.name,
    "nvmlDeviceGetUUID": lambda gpu: gpu.uuid,
    "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=gpu.bus_id),
    "nvmlDeviceGetClockInfo": lambda gpu, _kind: gpu.clock,
    "nvmlDeviceGetMaxClockInfo": lambda gpu, _kind: gpu.max_clock,
    "nvmlDeviceGetPowerUsage": lambda gpu: gpu.power,
    "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: gpu.power_limit,
    "nvmlDeviceGetTotalEnergyConsumption": lambda gpu: gpu.energy,
    "nvmlDeviceGetTemperature": lambda gpu, _sensor: gpu.temperature,
    "nvmlDeviceGetTemperatureThreshold": lambda gpu, _which: gpu.temp_slowdown,
    "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(
        gpu=gpu.gpu_util, memory=gpu.mem_util
    ),
    "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(
        total=gpu.memory_total, free=gpu.memory_free, used=gpu.memory_total - gpu.memory_free
    ),
    "nvmlDeviceGetPcieThroughput": lambda _gpu, direction: 581 if direction == 1 else 745,
    "nvmlDeviceGetFanSpeed": lambda gpu: gpu.fan,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: gpu.throttle,
    "nvmlDeviceGetCudaComputeCapability": lambda gpu: gpu.capability,
    "nvmlDeviceGetNumGpuCores": lambda gpu: gpu.cores,
    "nvmlDeviceGetEccMode": lambda gpu: [int(gpu.ecc), int(gpu.ecc)],
    "nvmlDeviceGetTotalEccErrors": lambda gpu, which, _counter: gpu.ecc_errors[which],
    "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [
        SimpleNamespace(pid=pid) for pid in gpu.pids
    ],
}
