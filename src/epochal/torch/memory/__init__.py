"""Memory: what the allocator holds, what it is used for, leaks and out-of-memory errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.memory.account import MemoryReport, memory_report
    from epochal.torch.memory.allocator import (
        cuda_active_bytes,
        cuda_allocated_bytes,
        cuda_empty_cache,
        cuda_peak_active_bytes,
        cuda_peak_reserved_bytes,
        cuda_reset_peak_stats,
        cuda_spill_bytes,
    )
    from epochal.torch.memory.leaks import (
        LeakReport,
        leak_report,
        live_tensor_count,
        malloc_trim,
        mark_tensors,
        rss_kb,
    )
    from epochal.torch.memory.segments import MemorySegments, memory_segments
    from epochal.torch.memory.watch import MemoryWatch, watch_memory

__all__ = [
    "LeakReport",
    "MemoryReport",
    "MemorySegments",
    "MemoryWatch",
    "cuda_active_bytes",
    "cuda_allocated_bytes",
    "cuda_empty_cache",
    "cuda_peak_active_bytes",
    "cuda_peak_reserved_bytes",
    "cuda_reset_peak_stats",
    "cuda_spill_bytes",
    "leak_report",
    "live_tensor_count",
    "malloc_trim",
    "mark_tensors",
    "memory_report",
    "memory_segments",
    "rss_kb",
    "watch_memory",
]

__getattr__ = on_first_use(
    __name__,
    {
        "account": ["MemoryReport", "memory_report"],
        "allocator": [
            "cuda_active_bytes",
            "cuda_allocated_bytes",
            "cuda_empty_cache",
            "cuda_peak_active_bytes",
            "cuda_peak_reserved_bytes",
            "cuda_reset_peak_stats",
            "cuda_spill_bytes",
        ],
        "leaks": [
            "LeakReport",
            "leak_report",
            "live_tensor_count",
            "malloc_trim",
            "mark_tensors",
            "rss_kb",
        ],
        "segments": ["MemorySegments", "memory_segments"],
        "watch": ["MemoryWatch", "watch_memory"],
    },
)
