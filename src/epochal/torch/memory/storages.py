"""The memory behind tensors: where it is, how much, and each piece of it once.

Views, tied weights and the parameters of a flat shard share a storage, which counts whole and once.
Of a tensor that is sharded over processes this process has a part, and of one that is made of
several (quantised, sparse) all parts count.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Place = Literal["device", "managed", "pinned", "pageable"]


@dataclass(frozen=True, slots=True)
class Storage:
    """One piece of memory; ``key`` tells it from every other."""

    key: tuple[str, int]
    device: torch.device
    place: Place
    bytes: int


def storages_of(tensor: Tensor) -> Iterator[Storage]:
    """The pieces of memory behind a tensor; none where it has no values. Allocates nothing."""
    for part in _plain_parts(tensor):
        storage = part.untyped_storage()
        size, pointer = storage.nbytes(), storage.data_ptr()
        if size and pointer:
            key = (str(part.device), pointer)
            yield Storage(key, part.device, _place(part), size)


def _plain_parts(tensor: Tensor) -> Iterator[Tensor]:
    if tensor.is_meta or _is_stand_in(tensor):
        return
    if hasattr(tensor, "to_local"):
        # Not to_local() itself, which autograd would follow.
        part: Any = tensor
        yield from _plain_parts(part._local_tensor)
    elif hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        for name in names:
            yield from _plain_parts(getattr(tensor, name))
    elif tensor.layout is torch.sparse_coo:
        yield tensor._indices()
        yield tensor._values()
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif tensor.layout is torch.strided:
        yield tensor


def _is_stand_in(tensor: Tensor) -> bool:
    """Whether it is one that torch.compile traces with: it has a shape and no memory."""
    tracing: Any = sys.modules.get("torch._subclasses.fake_tensor")
    return tracing is not None and isinstance(tensor, tracing.FakeTensor)


def _place(tensor: Tensor) -> Place:
    if getattr(tensor, "is_paged", False) is True:
        return "managed"  # bitsandbytes marks what the driver may move between host and device
    if tensor.device.type != "cpu":
        return "device"
    # Asking a tensor whether it is pinned would start CUDA.
    is_started: Any = torch.cuda.is_initialized
    return "pinned" if is_started() and tensor.is_pinned() else "pageable"
