"""Figures that tell a leak from fragmentation.

Tensors that grow in number leak; memory that `malloc_trim` gives back was only fragmented.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import torch


def live_tensor_count() -> int:
    """Return how many tensors Python code can still reach; takes milliseconds.

    Tensors that only the autograd graph holds are not counted.
    """
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())


def rss_kb() -> int:
    """Return the resident memory of this process in KiB."""
    import psutil

    return int(psutil.Process().memory_info().rss) // 1024


def malloc_trim() -> bool:
    """Give the C library's free memory back to the system; True if some was.

    Only glibc can: elsewhere nothing happens and the answer is False.
    """
    if sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
