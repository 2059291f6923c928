"""NVIDIA GPUs through NVML: the ones a CUDA program started from here would see.

Devices are matched by UUID and PCI address, never by NVML's own numbers, so the readings belong to
the GPUs that are trained on. Reading NVML makes no CUDA context and takes no GPU memory.

Some readings are optional because of their CPU time, measured on an H200 with driver 580. The
energy counter takes 2-15 ms, each of the two kinds of utilisation samples 3 ms, PCIe counters 1 ms.
The driver's own PCIe figure takes 20 ms a direction, all else 0.1-0.4 ms after the first time.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource

# Field of a sample or model: NVML function, then the constants it takes after the handle.
_QUESTIONS: dict[str, tuple[str, ...]] = {
    "name": ("nvmlDeviceGetName",),
    "uuid": ("nvmlDeviceGetUUID",),
    "pci": ("nvmlDeviceGetPciInfo",),
    "clock": ("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
    "max_clock": ("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
    "power": ("nvmlDeviceGetPowerUsage",),
    "power_limit": ("nvmlDeviceGetEnforcedPowerLimit",),
    "energy": ("nvmlDeviceGetTotalEnergyConsumption",),
    "temperature": ("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
    "temp_slowdown": ("nvmlDeviceGetTemperatureThreshold", "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"),
    "utilization": ("nvmlDeviceGetUtilizationRates",),
    "memory": ("nvmlDeviceGetMemoryInfo",),
    "pcie_rx": ("nvmlDeviceGetPcieThroughput", "NVML_PCIE_UTIL_RX_BYTES"),
    "pcie_tx": ("nvmlDeviceGetPcieThroughput", "NVML_PCIE_UTIL_TX_BYTES"),
    "fan": ("nvmlDeviceGetFanSpeed",),
    # The newer name for the same answer is missing from older bindings.
    "throttle": ("nvmlDeviceGetCurrentClocksThrottleReasons",),
    "capability": ("nvmlDeviceGetCudaComputeCapability",),
    "cores": ("nvmlDeviceGetNumGpuCores",),
    "ecc": ("nvmlDeviceGetEccMode",),
    "ecc_corrected": (
        "nvmlDeviceGetTotalEccErrors",
        "NVML_MEMORY_ERROR_TYPE_CORRECTED",
        "NVML_VOLATILE_ECC",
    ),
    "ecc_uncorrected": (
        "nvmlDeviceGetTotalEccErrors",
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED",
        "NVML_VOLATILE_ECC",
    ),
    "processes": ("nvmlDeviceGetComputeRunningProcesses",),
}
# Fields of a sample that are answers as they are.
_ASKED = "name uuid clock max_clock power_limit temperature temp_slowdown fan".split()
_FIXED = frozenset({"name", "uuid", "pci", "max_clock", "temp_slowdown", "capability", "cores"})
_REFUSALS = (
    "NVML_ERROR_NOT_SUPPORTED",
    "NVML_ERROR_FUNCTION_NOT_FOUND",
    "NVML_ERROR_NO_PERMISSION",
    "NVML_ERROR_INVALID_ARGUMENT",  # what a MIG device says to most questions
)

# Bits of NVML's clock event reasons, gravest first.
_THROTTLE_WORDS = (
    (0x20 | 0x40, "thermal cap"),
    (0x04 | 0x80, "power cap"),
    (0x02 | 0x08 | 0x10 | 0x100, "other cap"),
    (0x01, "idle"),
)

# FP32 cores per multiprocessor, from the CUDA programming guide's table of compute capabilities.
_CORES_PER_SM = {
    **dict.fromkeys([(7, 0), (7, 2), (7, 5), (8, 0)], 64),
    **dict.fromkeys([(8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)], 128),
}

# The counter moves every 100 ms: over a shorter time its steps are mistaken for power.
_MIN_ENERGY_INTERVAL_S = 0.5


# quick: what is read while training waits. light: what can be read every second beside it; power
# and use are then the moment's. full: everything, power and use since the last full reading.
Depth = Literal["quick", "light", "full"]


@dataclass(frozen=True, slots=True)
class _PcieCount:
    timestamp_us: int
    received: int
    sent: int
    modulus: int


# Field of a sample: NVML's metric, in percent.
_GPM_METRICS: Mapping[str, str] = {
    "sm_active": "NVML_GPM_METRIC_SM_UTIL",
    "tensor_active": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "dram_active": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


class _GpmCounters:
    """How busy a GPU's parts are, from the counters Hopper and newer keep (NVML's GPM).

    Utilisation says only that some kernel ran; these say how much of the chip it kept working.
    Where there are none, every reading is empty.
    """

    def __init__(self, handle: Any, *, nvml: Any) -> None:
        self._handle = handle
        self._nvml = nvml
        self._samples: list[Any] = []
        self._has_first = False
        self._is_absent = False

    def shares(self) -> dict[str, float]:
        """Percent of the time since the last call that each part worked; at first nothing."""
        if self._is_absent:
            return {}
        try:
            return self._read()
        except (self._nvml.NVMLError, AttributeError):  # older bindings know no GPM
            self._is_absent = True
        self.close()
        return {}

    def close(self) -> None:
        """Give the samples back to NVML."""
        while self._samples:
            self._nvml.nvmlGpmSampleFree(self._samples.pop())
        self._has_first = False

    def _read(self) -> dict[str, float]:
        if not self._samples:
            if not self._nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                self._is_absent = True
                return {}
            self._samples = [self._nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._samples.reverse()
        self._nvml.nvmlGpmSampleGet(self._handle, self._samples[1])
        if not self._has_first:
            self._has_first = True
            return {}
        return self._between(*self._samples)

    def _between(self, before: Any, after: Any) -> dict[str, float]:
        question = self._nvml.c_nvmlGpmMetricsGet_t()
        question.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(_GPM_METRICS)
        question.sample1, question.sample2 = before, after
        for place, name in enumerate(_GPM_METRICS.values()):
            question.metrics[place].metricId = getattr(self._nvml, name)
        answers = self._nvml.nvmlGpmMetricsGet(question).metrics
        return {
            field: round(float(answers[place].value), 1)
            for place, field in enumerate(_GPM_METRICS)
            if answers[place].nvmlReturn == self._nvml.NVML_SUCCESS
            and 0 <= answers[place].value <= 100
        }


class NvidiaDevice:
    """Reads one GPU by its NVML handle; remembers unsupported readings and counts errors."""

    def __init__(self, handle: Any, *, nvml: Any, index: int, clock: Callable[[], float]) -> None:
        self.index = index
        self.failures = 0
        self.last_failure: str | None = None
        self._handle = handle
        self._nvml = nvml
        self._clock = clock
        self._refused: set[str] = set()
        self._fixed: dict[str, Any] = {}
        self._lost = False
        self._seen_us: dict[str, int] = {}
        self._energy: tuple[float, int] | None = None
        self._first_mj: int | None = None
        self._gpm = _GpmCounters(handle, nvml=nvml)
        self._pcie: _PcieCount | None = None

    @property
    def uuid(self) -> str | None:
        """The GPU's UUID, ``GPU-…``."""
        uuid: str | None = self._ask("uuid")
        return uuid

    @property
    def pci_bus_id(self) -> str:
        """The PCI address in NVML's fixed-width form, which sorts as text; empty if unknown."""
        pci = self._ask("pci")
        return "" if pci is None else str(pci.busId)

    @property
    def speed(self) -> int:
        """Cores times clock: how CUDA's default order ranks GPUs, as near as NVML can tell."""
        return (self._ask("cores") or 0) * (self._ask("max_clock") or 0)

    def sample(self, depth: Depth) -> GpuSample:
        """Read the GPU; what its depth leaves out is None, or the moment's instead of a mean."""
        is_quick, is_full = depth == "quick", depth == "full"
        memory = self._ask("memory")
        rx, tx = (None, None) if is_quick else self._pcie_rates()
        mean_power = self._mean_power() if is_full else None
        busy: dict[str, Any] = {} if is_quick else self._gpm.shares()
        gpu_util, mem_util = self._use_now("gpu"), self._use_now("memory")
        if depth != "light":
            gpu_util = self._mean_use("NVML_GPU_UTILIZATION_SAMPLES", gpu_util)
        if is_full:
            mem_util = self._mean_use("NVML_MEMORY_UTILIZATION_SAMPLES", mem_util)
        return GpuSample(
            id=self.index,
            **{name: self._ask(name) for name in _ASKED},
            power=self._ask("power") if mean_power is None else mean_power,
            gpu_util=gpu_util,
            mem_util=mem_util,
            dram_free=None if memory is None else int(memory.free),
            dram_used=None if memory is None else int(memory.used),
            dram_total=None if memory is None else int(memory.total),
            pcie_rx=rx,
            pcie_tx=tx,
            throttle=throttle_words(self._ask("throttle")),
            **busy,
            energy=self._energy_used() if is_full else None,
            ecc_corrected=self._ask("ecc_corrected") if is_full else None,
            ecc_uncorrected=self._ask("ecc_uncorrected") if is_full else None,
        )

    def pids(self) -> frozenset[int] | None:
        """The processes that compute on the GPU, as the driver numbers them; None if unknown."""
        processes = self._ask("processes")
        return None if processes is None else frozenset(int(one.pid) for one in processes)

    def close(self) -> None:
        """Release NVML."""
        self._gpm.close()

    def model(self, *, cuda_driver: int | None) -> GpuModel:
        memory = self._ask("memory")
        ecc = self._ask("ecc")
        capability = self._ask("capability") or (None, None)
        return GpuModel(
            id=self.index,
            name=self._ask("name"),
            sm_count=self._sm_count(capability),
            major=capability[0],
            minor=capability[1],
            memory=None if memory is None else int(memory.total),
            free=None if memory is None else int(memory.free),
            uuid=self.uuid,
            ecc=None if ecc is None else bool(ecc[0]),
            cuda_driver=cuda_driver,
        )

    def count_pcie(self) -> bool:
        """Start a PCIe measurement that the next ``sample`` ends; false if it cannot be had."""
        self._pcie = self._pcie_count()
        return self._pcie is not None

    def _ask(self, question: str) -> Any:
        if question in self._fixed:
            return self._fixed[question]
        function, *constants = _QUESTIONS[question]
        answer = self._call(question, function, *(getattr(self._nvml, name) for name in constants))
        if answer is not None and question in _FIXED:
            self._fixed[question] = answer
        return answer

    def _call(self, question: str, function: str, *arguments: Any) -> Any:
        if self._lost or question in self._refused:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            self._note(question, error)
            return None

    def _note(self, question: str, error: Any) -> None:
        if error.value == self._nvml.NVML_ERROR_NOT_FOUND:
            return  # the answer "nothing since then" of the driver's samples
        if error.value in {getattr(self._nvml, name) for name in _REFUSALS}:
            self._refused.add(question)
            return
        self._lost = error.value == self._nvml.NVML_ERROR_GPU_IS_LOST
        self.failures += 1
        self.last_failure = f"GPU {self.index}, {question}: {error}"

    def _use_now(self, which: str) -> float | None:
        rates = self._ask("utilization")
        return None if rates is None else float(getattr(rates, which))

    def recent_use(self, since: float) -> list[tuple[float, float]]:
        """The driver's own samples of use since a moment: Unix seconds and percent, some 14 s."""
        kind = "NVML_GPU_UTILIZATION_SAMPLES"
        since_us = round(since * 1e6)
        answer = self._call(kind, "nvmlDeviceGetSamples", getattr(self._nvml, kind), since_us)
        if answer is None:
            return []
        value_type, samples = answer
        read = [(s.timeStamp / 1e6, self._sample_value(s, value_type)) for s in samples]
        return sorted((at, use) for at, use in read if at > since and 0 <= use <= 100)

    def _mean_use(self, kind: str, use_now: float | None) -> float | None:
        # The driver keeps about 14 s of samples: over a longer time this is the mean of its end.
        since = self._seen_us.get(kind)
        answer = self._call(kind, "nvmlDeviceGetSamples", getattr(self._nvml, kind), since or 0)
        if answer is None:
            return use_now
        value_type, samples = answer
        fresh = [sample for sample in samples if sample.timeStamp > (since or 0)]
        if not fresh:
            return use_now
        self._seen_us[kind] = max(sample.timeStamp for sample in fresh)
        values = [self._sample_value(sample, value_type) for sample in fresh]
        percents = [value for value in values if 0 <= value <= 100]
        if since is None or not percents:
            return use_now
        return round(sum(percents) / len(percents), 1)

    def _sample_value(self, sample: Any, value_type: int) -> float:
        if value_type == self._nvml.NVML_VALUE_TYPE_DOUBLE:
            return float(sample.sampleValue.dVal)
        if value_type == self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
            return float(sample.sampleValue.ullVal)
        return float(sample.sampleValue.uiVal)

    def _mean_power(self) -> int | None:
        energy_mj: int | None = self._ask("energy")
        now_s = self._clock()
        if energy_mj is None:
            return None
        if self._first_mj is None or energy_mj < self._first_mj:
            self._first_mj = energy_mj
        before_s, before_mj = self._energy or (now_s, energy_mj)
        if self._energy is not None and now_s - before_s < _MIN_ENERGY_INTERVAL_S:
            return None
        self._energy = (now_s, energy_mj)
        # The counter starts again at 0 when the driver is reloaded.
        if now_s == before_s or energy_mj < before_mj:
            return None
        return round((energy_mj - before_mj) / (now_s - before_s))

    def _energy_used(self) -> int | None:
        """Whole kilojoules since the first sample, at the last reading of the counter."""
        if self._energy is None or self._first_mj is None:
            return None
        return (self._energy[1] - self._first_mj) // 1_000_000

    def _pcie_rates(self) -> tuple[int | None, int | None]:
        before, self._pcie = self._pcie, None
        if before is None:
            return self._driver_pcie("pcie_rx"), self._driver_pcie("pcie_tx")
        after = self._pcie_count()
        if after is None or after.timestamp_us <= before.timestamp_us:
            return None, None
        per_s = 1e6 / (after.timestamp_us - before.timestamp_us)
        received = (after.received - before.received) % after.modulus
        sent = (after.sent - before.sent) % after.modulus
        return round(received * per_s), round(sent * per_s)

    def _driver_pcie(self, question: str) -> int | None:
        # Kilobytes of 1000: under a steady copy the driver's figure and the counters agree so.
        kilobytes: int | None = self._ask(question)
        return None if kilobytes is None else kilobytes * 1000

    def _pcie_count(self) -> _PcieCount | None:
        names = ("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES")
        fields = [getattr(self._nvml, name, None) for name in names]
        if None in fields:
            return None
        answer = self._call("pcie_count", "nvmlDeviceGetFieldValues", fields)
        if answer is None:
            return None
        if any(field.nvmlReturn != self._nvml.NVML_SUCCESS for field in answer):
            self._refused.add("pcie_count")
            return None
        wide = answer[0].valueType == self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
        received, sent = (int(f.value.ullVal if wide else f.value.uiVal) for f in answer)
        return _PcieCount(answer[0].timestamp, received, sent, 1 << (64 if wide else 32))

    def _sm_count(self, capability: tuple[int | None, int | None]) -> int | None:
        major, minor = capability
        cores = self._ask("cores")
        if major is None or minor is None or cores is None:
            return None
        cores_per_sm = _CORES_PER_SM.get((major, minor))
        return None if cores_per_sm is None else cores // cores_per_sm


def throttle_words(reasons: int | None) -> str | None:
    """Name the gravest of NVML's clock event reasons; empty at full speed, ``None`` if unknown."""
    if reasons is None:
        return None
    return next((words for bits, words in _THROTTLE_WORDS if reasons & bits), "")


# -- the visible GPUs ------------------------------------------------------------------------------


# Short enough that a 32-bit byte counter wraps at most once, up to 200 GB/s.
_PCIE_WINDOW_S = 0.02
# What the binding loads on Linux.
_LIBRARY = "libnvidia-ml.so.1"
# Every GPU of a machine: the list ends at the first number that names none.
EVERY_GPU = ",".join(str(number) for number in range(256))


class NvidiaSource(GpuSource):
    """Samples every visible NVIDIA GPU.

    ``visible`` and ``order`` stand for CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER and are read from
    those two variables when left out. ``quick`` is for the training process: power is then the
    driver's own one-second average and PCIe traffic is ``None``, since measuring either holds the
    caller for milliseconds. ``nvml`` is the binding to use instead of ``pynvml``.
    """

    def __init__(
        self,
        visible: str | None = None,
        *,
        order: str | None = None,
        quick: bool = False,
        nvml: Any = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._visible = visible
        self._order = order
        self._quick = quick
        self._nvml = nvml
        self._clock = clock
        self._sleep = sleep
        self._unreachable: list[str] = []
        self._started = False
        self._count = 0

    @property
    def failures(self) -> int:
        return len(self._unreachable) + super().failures

    @property
    def last_failure(self) -> str | None:
        return super().last_failure or next(reversed(self._unreachable), None)

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every visible GPU, or those of some ids; use and power are since the last call.

        A ``light`` reading costs a third. Utilisation and power are current values, and the
        interval of the next full reading does not start with it.
        """
        chosen = [one for one in self._devices if only is None or one.index in only]
        if not self._quick:
            # All GPUs are measured over one window; the driver's own figure takes 40 ms for each.
            counting = [device.count_pcie() for device in chosen]
            if any(counting):
                self._sleep(_PCIE_WINDOW_S)
        depth: Depth = "quick" if self._quick else "light" if light else "full"
        return tuple(device.sample(depth) for device in chosen)

    def gpu_models(self) -> tuple[GpuModel, ...]:
        if not self.probe():
            return ()
        try:
            cuda_driver = int(self._nvml.nvmlSystemGetCudaDriverVersion())
        except self._nvml.NVMLError:
            cuda_driver = None
        return tuple(device.model(cuda_driver=cuda_driver) for device in self._devices)

    def close(self) -> None:
        if self._started:
            for device in self._devices:
                device.close()
            self._started = False
            self._nvml.nvmlShutdown()
        super().close()

    def _open(self) -> list[NvidiaDevice]:
        if not self._start():
            return []
        devices = self._in_cuda_order(self._every_device())
        visible = self._visible
        if visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        entries = visible_entries(visible, uuids=[device.uuid for device in devices])
        found = [self._mig_device(e) if isinstance(e, str) else devices[e] for e in entries]
        reachable = [device for device in found if device is not None]
        if not reachable:
            self.why_absent = self.last_failure or "no NVIDIA GPU is visible to this process"
        return reachable

    def _start(self) -> bool:
        if self._nvml is None:
            if not _has_library():
                self.why_absent = f"NVML does not start: {_LIBRARY} is not installed"
                return False
            try:
                import pynvml
            except ImportError:
                self.why_absent = "the package nvidia-ml-py is not installed"
                return False
            self._nvml = pynvml
        try:
            self._nvml.nvmlInit()
            self._started = True
            self._count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            self.why_absent = f"NVML does not start: {error}"
            return False
        return True

    def _every_device(self) -> list[NvidiaDevice]:
        devices = []
        for index in range(self._count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            except self._nvml.NVMLError as error:
                self._unreachable.append(f"GPU {index} does not answer: {error}")
                continue
            devices.append(self._device(handle, index=index))
        return devices

    def _device(self, handle: Any, *, index: int) -> NvidiaDevice:
        return NvidiaDevice(handle, nvml=self._nvml, index=index, clock=self._clock)

    def _in_cuda_order(self, devices: list[NvidiaDevice]) -> list[NvidiaDevice]:
        # One that does not even tell its address is not counted by CUDA either.
        by_address = sorted(devices, key=lambda device: device.pci_bus_id or "~")
        order = self._order or os.environ.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
        if order == "PCI_BUS_ID" or not by_address:
            return by_address
        # CUDA only promises the fastest one in front; among equals it keeps the PCI order.
        fastest = max(by_address, key=lambda device: device.speed)
        return [fastest, *(device for device in by_address if device is not fastest)]

    def _mig_device(self, mig_id: str) -> NvidiaDevice | None:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(mig_id)
            parent = self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return self._device(handle, index=self._nvml.nvmlDeviceGetIndex(parent))
        except self._nvml.NVMLError as error:
            self._unreachable.append(f"MIG device {mig_id} does not answer: {error}")
            return None


def _has_library() -> bool:
    """Whether the driver's library is here; without it the binding would take 2 MiB in vain."""
    if sys.platform != "linux":
        return True  # the binding knows other places
    import ctypes

    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


def visible_entries(visible: str | None, *, uuids: Sequence[str | None]) -> list[int | str]:
    """Resolve a CUDA_VISIBLE_DEVICES text against the machine's GPUs, given in CUDA's order.

    Entries are numbers, UUIDs or their unambiguous beginnings, or MIG ids, by the rules of CUDA's
    programming guide. Gives indices into ``uuids``, and MIG ids as they are written. ``None`` means
    every GPU, an empty text means none. The list ends at the first entry that names nothing, and
    the same GPU twice leaves none.
    """
    if visible is None:
        return list(range(len(uuids)))
    chosen: list[int | str] = []
    for entry in visible.split(","):
        device = _resolve(entry.strip(), uuids=uuids)
        if device is None:
            break
        if device in chosen:
            return []
        chosen.append(device)
    return chosen


def _resolve(entry: str, *, uuids: Sequence[str | None]) -> int | str | None:
    if entry.startswith("MIG-"):
        return entry
    if entry.startswith("GPU-"):
        matches = [i for i, uuid in enumerate(uuids) if uuid is not None and uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    # CUDA reads the leading digits of an entry and ignores what follows them.
    number = re.match(r"\+?(\d+)", entry)
    if number is None or int(number.group(1)) >= len(uuids):
        return None
    return int(number.group(1))
