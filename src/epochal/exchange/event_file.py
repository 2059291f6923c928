"""One TensorBoard event file, appended to in whole records, and the checksums of records.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``,
all little-endian, the checksums CRC-32C in their stored form. Readers follow the file while it
grows and wait at a record that is not whole yet.

The checksum is linear, so a byte's share depends only on its value and on the number of bytes that
follow. One table per distance from the end turns a whole block of rows into one lookup.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

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


_LENGTH, _CHECK = struct.Struct("<Q"), struct.Struct("<I")


class EventFile:
    """Appends events; ``num_bytes`` is how long the file is."""

    def __init__(self, path: Path, *, keep_bytes: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags, 0o644)
        # What was written after the last checkpoint is written again.
        self.num_bytes = min(keep_bytes, os.fstat(self._fd).st_size)
        os.ftruncate(self._fd, self.num_bytes)
        os.lseek(self._fd, self.num_bytes, os.SEEK_SET)

    def append(self, events: Sequence[bytes]) -> None:
        """Append events; raises OSError when they do not fit, and leaves the file as it was."""
        left = memoryview(framed(events))
        size = len(left)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            os.ftruncate(self._fd, self.num_bytes)
            os.lseek(self._fd, self.num_bytes, os.SEEK_SET)
            raise
        self.num_bytes += size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def framed(events: Sequence[bytes]) -> bytes:
    """Events as the records of a file."""
    return b"".join(
        part
        for event, check in zip(events, masked_of_each(events), strict=True)
        for part in (_header(len(event)), event, _CHECK.pack(check))
    )


@lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    data = _LENGTH.pack(length)
    return data + _CHECK.pack(masked_of_bytes(data))
