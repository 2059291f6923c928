"""Tensors copied to main memory while the GPU goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class HostCopy:
    """Copies that nothing else changes; those from a GPU may still be on their way."""

    _tensors: dict[str, Tensor]
    _events: tuple[Any, ...]

    def has_arrived(self) -> bool:
        """Return whether `ready` would return without waiting."""
        return all(event.query() for event in self._events)

    def ready(self) -> dict[str, Tensor]:
        """Wait until every copy has arrived, and return them. Any thread may call it."""
        for event in self._events:
            event.synchronize()
        return self._tensors


def copied_to_host(tensors: Mapping[str, Tensor]) -> HostCopy:
    """Copy tensors to main memory; from a GPU into pinned memory, without waiting for it.

    The copies are ordered on the stream in use: later work on that stream may change the
    originals. For work on another stream, call `ready()` first.
    """
    copies = {name: _copied(tensor) for name, tensor in tensors.items()}
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    return HostCopy(copies, tuple(_recorded(device) for device in sorted(devices, key=str)))


def _copied(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if not tensor.is_cuda:
        return tensor.clone(memory_format=torch.contiguous_format).cpu()
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return pinned.copy_(tensor, non_blocking=True)


def _recorded(device: torch.device) -> Any:
    cuda: Any = torch.cuda
    event = cuda.Event()
    event.record(cuda.current_stream(device))
    return event
