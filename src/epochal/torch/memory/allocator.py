"""What torch's caching allocator holds on a GPU.

*Active* bytes back live tensors, *allocated* ones are all that the allocator has reserved, cached
free blocks included. Where torch has not started CUDA it holds nothing and every answer is 0; none
of these starts it. A device is an index, a name such as ``cuda:1``, or None for the current one.
"""

from __future__ import annotations

import torch

Device = torch.device | str | int | None


def cuda_active_bytes(device: Device = None) -> int:
    """Return the bytes that back live tensors (`torch.cuda.memory_allocated`)."""
    return int(torch.cuda.memory_allocated(device)) if _started() else 0


def cuda_allocated_bytes(device: Device = None) -> int:
    """Return the bytes the allocator has reserved (`torch.cuda.memory_reserved`)."""
    return int(torch.cuda.memory_reserved(device)) if _started() else 0


def cuda_peak_active_bytes(device: Device = None) -> int:
    """Return the most bytes that backed live tensors since the last reset."""
    return int(torch.cuda.max_memory_allocated(device)) if _started() else 0


def cuda_peak_reserved_bytes(device: Device = None) -> int:
    """Return the most bytes the allocator had reserved since the last reset."""
    return int(torch.cuda.max_memory_reserved(device)) if _started() else 0


def cuda_spill_bytes(device: Device = None) -> int:
    """Return the reserved bytes beyond what the device has, which lie in the host's memory."""
    if not _started():
        return 0
    # Not mem_get_info, which would make a context on a device that nobody uses.
    present = torch.cuda.get_device_properties(device).total_memory
    return max(0, cuda_allocated_bytes(device) - int(present))


def cuda_reset_peak_stats(device: Device = None) -> None:
    """Count the peaks anew from here."""
    if _started():
        torch.cuda.reset_peak_memory_stats(device)


def cuda_empty_cache() -> None:
    """Give the cached free blocks of every device back to the driver; waits for the GPU."""
    if _started():
        torch.cuda.empty_cache()


def _started() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
