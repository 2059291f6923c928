"""NVIDIA GPUs through NVML: the ones a CUDA program started from here would see.

Devices are matched by UUID and PCI address, never by NVML's own numbers, so the readings belong to
the GPUs that are trained on. Reading NVML makes no CUDA context and takes no GPU memory.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource
from epochal.telemetry.nvidia_device import Depth, NvidiaDevice

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
        """How many questions failed for another reason than being unsupported."""
        return len(self._unreachable) + super().failures

    @property
    def last_failure(self) -> str | None:
        """One of those failures in words."""
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
        """Describe every visible GPU."""
        if not self.probe():
            return ()
        try:
            cuda_driver = int(self._nvml.nvmlSystemGetCudaDriverVersion())
        except self._nvml.NVMLError:
            cuda_driver = None
        return tuple(device.model(cuda_driver=cuda_driver) for device in self._devices)

    def close(self) -> None:
        """Leave NVML."""
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
