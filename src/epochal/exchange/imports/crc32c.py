"""CRC-32C (Castagnoli) with numpy, of many equally long rows at once.

The checksum is linear, so a byte's share depends only on its value and on the number of bytes that
follow. One table per distance from the end turns a whole block of rows into one lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Checks = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # reflected
_ALL = np.uint32(0xFFFFFFFF)
_MASK_DELTA = np.uint32(0xA282EAD8)
_BLOCK = 1024


@cache
def _tables() -> Checks:
    """``[distance, byte]``: the share of a byte that so many others follow."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables = np.empty((_BLOCK, 256), dtype=np.uint32)
    tables[0] = first
    for distance in range(1, _BLOCK):
        before = tables[distance - 1]
        tables[distance] = (before >> 8) ^ first[before & 0xFF]
    return tables


def of_rows(rows: NDArray[np.uint8]) -> Checks:
    """The checksum of each row of a table of bytes."""
    state = np.full(len(rows), _ALL, dtype="<u4")
    shares = _tables().reshape(-1)
    for start in range(0, rows.shape[1], _BLOCK):
        block = rows[:, start : start + _BLOCK].copy()
        size = block.shape[1]
        # The old state counts as part of the first four bytes.
        block[:, :4] ^= state.view(np.uint8).reshape(-1, 4)[:, :size]
        places = block + np.arange(size - 1, -1, -1) * 256
        after = state >> np.uint32(8 * size) if size < 4 else np.uint32(0)
        state = np.bitwise_xor.reduce(shares.take(places), axis=1) ^ after
    return state ^ _ALL


def masked(check: Checks) -> Checks:
    """The form in which record files store a checksum."""
    turned: Checks = (check >> np.uint32(15)) | (check << np.uint32(17))
    return turned + _MASK_DELTA


def masked_of_bytes(data: bytes) -> int:
    """The stored form of the checksum of one text."""
    return masked_of_each([data])[0]


def masked_of_each(texts: Sequence[bytes]) -> list[int]:
    """The stored forms of the checksums of some texts; those of one length are made together."""
    by_length: dict[int, list[int]] = {}
    for index, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(index)
    checks = [0] * len(texts)
    for length, indices in by_length.items():
        data = b"".join([texts[index] for index in indices])
        rows = np.frombuffer(data, dtype=np.uint8).reshape(len(indices), length)
        for index, check in zip(indices, masked(of_rows(rows)).tolist(), strict=True):
            checks[index] = check
    return checks
