"""Tensors as raw little-endian bytes, and the names their dtypes have in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from epochal.torch.checkpoint.byte_stream import ByteReader

# As the safetensors format spells them.
DTYPE_NAMES: Mapping[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
DTYPES: Mapping[str, torch.dtype] = {name: dtype for dtype, name in DTYPE_NAMES.items()}
MAX_RANK = 64
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: what it is, not its values."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """How many bytes the values take."""
        return math.prod(self.shape) * self.dtype.itemsize


def on_host(tensor: Tensor) -> Tensor:
    """The same values in one piece of main memory; no copy where they already are."""
    return tensor.detach().cpu().contiguous()


def chunks_of(tensor: Tensor) -> Iterator[memoryview]:
    """The bytes of a tensor that is in one piece of main memory."""
    view = writable_bytes(tensor)
    for start in range(0, len(view), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]


def writable_bytes(tensor: Tensor) -> memoryview:
    """The memory of a tensor itself: writing to it changes the tensor."""
    if tensor.numel() == 0:
        return memoryview(bytearray())
    flat: Any = tensor.reshape(-1).view(torch.uint8).numpy()
    return memoryview(flat)


def read_values(source: ByteReader, entry: Entry) -> Tensor:
    """Read the values of an entry, which come next."""
    tensor = torch.empty(entry.shape, dtype=entry.dtype)
    source.into(writable_bytes(tensor), what=_values_of(entry))
    return tensor


def skip_values(source: ByteReader, entry: Entry) -> None:
    """Pass over the values of an entry, which come next."""
    source.skip(entry.size_bytes, what=_values_of(entry))


def _values_of(entry: Entry) -> str:
    return f"the values of {entry.name!r}"
