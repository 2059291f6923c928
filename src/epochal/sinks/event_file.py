"""One TensorBoard event file, appended to in whole records.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``,
all little-endian, the checksums CRC-32C in their stored form. Readers follow the file while it
grows and wait at a record that is not whole yet.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from epochal.imports import crc32c

# From so many records of one length on, their checksums are computed together.
_WORTH_GROUPING = 16
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
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def framed(events: Sequence[bytes]) -> bytes:
    """Events as the records of a file."""
    checks = _checks(events)
    return b"".join(
        part
        for event, check in zip(events, checks, strict=True)
        for part in (_header(len(event)), event, _CHECK.pack(check))
    )


@lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    data = _LENGTH.pack(length)
    return data + _CHECK.pack(crc32c.masked_of_bytes(data))


def _checks(events: Sequence[bytes]) -> list[int]:
    """The stored checksum of each event."""
    by_length: dict[int, list[int]] = {}
    for index, event in enumerate(events):
        by_length.setdefault(len(event), []).append(index)
    checks = [0] * len(events)
    for length, indices in by_length.items():
        if len(indices) < _WORTH_GROUPING or not length:
            for index in indices:
                checks[index] = crc32c.masked_of_bytes(events[index])
            continue
        data = b"".join([events[index] for index in indices])
        rows = np.frombuffer(data, dtype=np.uint8).reshape(len(indices), length)
        for index, check in zip(indices, crc32c.masked(crc32c.of_rows(rows)).tolist(), strict=True):
            checks[index] = check
    return checks
