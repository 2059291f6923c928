"""CRC-32C (Castagnoli) with numpy: of many equally long rows at once, and of one long text.

The checksum is linear, so a byte's share depends only on its value and on the number of bytes that
follow. One table per distance from the end turns a whole column of rows into one lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Checks = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # reflected
_ALL = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_BLOCK = 1024
# From so many texts of one length on, their checksums are computed together.
_WORTH_GROUPING = 16


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
    state = np.full(len(rows), _ALL, dtype=np.uint32)
    tables, width = _tables(), rows.shape[1]
    for start in range(0, width, _BLOCK):
        block = rows[:, start : start + _BLOCK]
        state = _over_block(tables, state, block)
    return state ^ np.uint32(_ALL)


def of_bytes(data: bytes | memoryview) -> int:
    """The checksum of one text of any length."""
    tables, state = _tables(), _ALL
    text = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(text), _BLOCK):
        block = text[start : start + _BLOCK]
        size = len(block)
        shares = tables[np.arange(size - 1, -1, -1), block]
        state = int(np.bitwise_xor.reduce(shares)) ^ _carried(tables, state, size)
    return state ^ _ALL


def masked(check: Checks) -> Checks:
    """The form in which record files store a checksum."""
    turned: Checks = (check >> np.uint32(15)) | (check << np.uint32(17))
    return turned + np.uint32(_MASK_DELTA)


def masked_of_bytes(data: bytes | memoryview) -> int:
    """The stored form of the checksum of one text."""
    return int(masked(np.array([of_bytes(data)], dtype=np.uint32))[0])


def masked_of_each(texts: Sequence[bytes]) -> list[int]:
    """The stored forms of the checksums of some texts; those of one length are made together."""
    by_length: dict[int, list[int]] = {}
    for index, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(index)
    checks = [0] * len(texts)
    for length, indices in by_length.items():
        if len(indices) < _WORTH_GROUPING or not length:
            for index in indices:
                checks[index] = masked_of_bytes(texts[index])
            continue
        data = b"".join([texts[index] for index in indices])
        rows = np.frombuffer(data, dtype=np.uint8).reshape(len(indices), length)
        for index, check in zip(indices, masked(of_rows(rows)).tolist(), strict=True):
            checks[index] = check
    return checks


def _over_block(tables: Checks, state: Checks, block: NDArray[np.uint8]) -> Checks:
    """The state after a block of columns: the old state counts as part of the first four."""
    size = block.shape[1]
    after = state >> np.uint32(8 * size) if size < 4 else np.zeros_like(state)
    for column, values in enumerate(np.ascontiguousarray(block.T)):
        if column < 4:
            values = values ^ ((state >> np.uint32(8 * column)) & 0xFF).astype(np.uint8)
        after ^= tables[size - 1 - column].take(values)
    return after


def _carried(tables: Checks, state: int, size: int) -> int:
    """What a state contributes to the one that so many more bytes give."""
    share = state >> (8 * size) if size < 4 else 0
    for place in range(min(4, size)):
        share ^= int(tables[size - 1 - place][(state >> (8 * place)) & 0xFF])
    return share
