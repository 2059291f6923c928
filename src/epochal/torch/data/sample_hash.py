"""A hash of one sample's content, from at most a few kilobytes of it.

Every array of two or more elements counts, and every text and float. Single whole numbers do not: a
label or an id must not make two copies of one sample differ. Where an array is large, elements
at equal distances stand for it. Tensors on an accelerator are never read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

# Hashes have so many bytes: a JSON number that every reader keeps exactly.
HASH_BYTES = 6
# Of a larger array, only elements at equal distances are read.
_WHOLE_BYTES = 1024
_ELEMENTS = 256
_DEPTH = 8


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Tensors, arrays, texts and numbers of a sample or batch, in order."""
    if isinstance(value, (torch.Tensor, np.ndarray, str, bytes, int, float)):
        yield value
    elif depth < _DEPTH:
        if isinstance(value, Mapping):
            value = value.values()
        elif hasattr(value, "__array__"):
            value = (np.asarray(value),)  # a picture, for example
        elif is_dataclass(value):
            value = vars(value).values()
        elif not isinstance(value, (tuple, list)):
            return
        for item in value:
            yield from leaves(item, depth + 1)


def host_array(value: Any) -> np.ndarray[Any, Any] | None:
    """A tensor or array as NumPy sees it, without a copy; None where it lies on a device."""
    if isinstance(value, np.ndarray):
        return value
    if value.device.type != "cpu" or value.layout is not torch.strided:
        return None
    value = value.detach()
    if value.dtype is torch.bfloat16:
        value = value.view(torch.int16)
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    array: np.ndarray[Any, Any] = value.numpy()
    return array


def content_hash(sample: Any) -> int | None:
    """The hash of a sample; None where it has nothing on the host that could be hashed."""
    state = blake2b(digest_size=HASH_BYTES)
    number: int | None = None
    has_content = False
    for leaf in leaves(sample):
        if isinstance(leaf, (torch.Tensor, np.ndarray)):
            array = host_array(leaf)
            if array is None:
                continue
            if _is_content(array.size, array.dtype):
                state.update(_excerpt(array))
                has_content = True
            elif array.size == 1 and array.dtype.kind in "iub":
                number = int(array.reshape(-1)[0])
        elif isinstance(leaf, (str, bytes)):
            state.update(leaf.encode("utf-8", "replace") if isinstance(leaf, str) else leaf)
            has_content = True
        elif isinstance(leaf, float):
            state.update(struct.pack("=d", leaf))
            has_content = True
        else:
            number = int(leaf)
    if not has_content:
        if number is None:
            return None
        state.update(str(number).encode())
    return int.from_bytes(state.digest(), "little")


def _excerpt(array: np.ndarray[Any, Any]) -> bytes:
    if array.dtype.kind == "O":
        return repr(array.tolist()[:_ELEMENTS]).encode()
    if array.nbytes <= _WHOLE_BYTES:
        return array.tobytes()
    if not array.flags.c_contiguous:
        # In the order in which it lies in memory, so that nothing is copied.
        array = array.transpose(np.argsort([-stride for stride in array.strides], kind="stable"))
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    distance = _distance(array.size)
    return np.ascontiguousarray(flat[::distance]).tobytes()


def row_hashes(batch: Any, count: int) -> list[int] | None:
    """The hashes of the samples that a batch was stacked from, many times as fast.

    None where the batch has something else than arrays with a row for each sample.
    """
    tables: list[np.ndarray[Any, Any]] = []
    for leaf in leaves(batch):
        if not isinstance(leaf, torch.Tensor) or not leaf.dim() or leaf.shape[0] != count:
            return None
        array = host_array(leaf)
        if array is None:
            return None
        size = array.size // count
        if not _is_content(size, array.dtype):
            continue
        rows = array.reshape(count, size)
        if size * array.itemsize > _WHOLE_BYTES:
            rows = rows[:, :: _distance(size)]
        tables.append(np.ascontiguousarray(rows).view(np.uint8).reshape(count, -1))
    if not tables:
        return None
    joined = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
    whole, width = joined.tobytes(), joined.shape[1]
    return [
        int.from_bytes(
            blake2b(whole[start : start + width], digest_size=HASH_BYTES).digest(), "little"
        )
        for start in range(0, count * width, width)
    ]


def _is_content(size: int, dtype: np.dtype[Any]) -> bool:
    """Whether an array counts: a single whole number may be a label or an id."""
    return size > 1 or (size == 1 and dtype.kind == "f")


def _distance(size: int) -> int:
    # An odd distance meets every column of a table whose width is a power of two.
    return max(1, size // _ELEMENTS) | 1
