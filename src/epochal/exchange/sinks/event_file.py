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

from epochal.exchange.imports import crc32c

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
        for event, check in zip(events, crc32c.masked_of_each(events), strict=True)
        for part in (_header(len(event)), event, _CHECK.pack(check))
    )


@lru_cache(maxsize=4096)
def _header(length: int) -> bytes:
    data = _LENGTH.pack(length)
    return data + _CHECK.pack(crc32c.masked_of_bytes(data))
