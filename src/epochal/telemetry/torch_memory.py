"""The memory of PyTorch's CUDA allocator in this process; reading it never starts CUDA.

PyTorch is looked at only if the program has imported it and started CUDA itself. Only the process
that trains can see these figures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from epochal.records import KINDS
from epochal.telemetry.source import Metric, closed_error


@dataclass(frozen=True, slots=True)
class TorchMemorySample:
    """One device's bytes: in live tensors, reserved from the driver, and physical."""

    device: int
    active: int
    reserved: int
    total: int


_RESOURCES = {field.name: field for field in KINDS["epoch"]["resources"].fields}
TORCH_MEMORY_METRICS = (
    Metric("active", _RESOURCES["vram_active_bytes"]),
    Metric("reserved", _RESOURCES["vram_allocated_bytes"]),
    Metric("total", _RESOURCES["vram_total"]),
)


class TorchMemorySource:
    """Reads the allocator of each CUDA device this process uses; there once CUDA is started."""

    kind: ClassVar[str] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = TORCH_MEMORY_METRICS

    def __init__(self, *, modules: Mapping[str, Any] | None = None) -> None:
        self._modules = sys.modules if modules is None else modules
        self._closed = False

    @property
    def why_absent(self) -> str | None:
        """That the program has not imported PyTorch or not started CUDA, or ``None``."""
        cuda = self._cuda()
        if cuda is None:
            return "PyTorch is not imported"
        return None if cuda.is_initialized() else "CUDA is not started in PyTorch"

    def probe(self) -> bool:
        """Return whether the program has started CUDA; may turn true at any time."""
        return self.why_absent is None

    def sample(self) -> tuple[TorchMemorySample, ...]:
        """Read each device that memory was taken on; before that, the current device."""
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return ()
        cuda = self._cuda()
        used = [i for i in range(cuda.device_count()) if cuda.memory_reserved(i) > 0]
        return tuple(_sample(cuda, device=i) for i in used or [cuda.current_device()])

    def close(self) -> None:
        """End the source; nothing is open."""
        self._closed = True

    def _cuda(self) -> Any:
        # Absent while the import of torch is still under way.
        return getattr(self._modules.get("torch"), "cuda", None)


def _sample(cuda: Any, *, device: int) -> TorchMemorySample:
    return TorchMemorySample(
        device=device,
        active=int(cuda.memory_allocated(device)),
        reserved=int(cuda.memory_reserved(device)),
        # Not mem_get_info, which would make a context on the device.
        total=int(cuda.get_device_properties(device).total_memory),
    )
