"""A journal part that grows on a hub: counted once, then appended to.

A line is on the disk when ``append_durably`` returns.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_READ_BYTES = 1 << 20


@dataclass(slots=True)
class GrowingPart:
    """A journal part that grows: its whole lines, and where they end."""

    path: Path
    lines: int
    size: int
    crc: int


def count_part(path: Path) -> GrowingPart:
    """Count the whole lines of a part; what follows the last of them is cut off."""
    lines = end = size = 0
    crc = tail = 0
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(_READ_BYTES), b""):
                size += len(block)
                last = block.rfind(b"\n") + 1
                if not last:
                    tail = zlib.crc32(block, tail)
                    continue
                lines += block.count(b"\n")
                begin = block.rfind(b"\n", 0, last - 1) + 1
                crc = zlib.crc32(block[begin:last], tail if begin == 0 else 0)
                end, tail = size - len(block) + last, zlib.crc32(block[last:])
    except FileNotFoundError:
        return GrowingPart(path, 0, 0, 0)
    if end < size:
        os.truncate(path, end)
    return GrowingPart(path, lines, end, crc)


def file_size(path: Path) -> int:
    """The size of a file; 0 for one that is not there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def num_lines(path: Path) -> int:
    """How many whole lines a part has that are not blank; 0 for one that is not there."""
    try:
        with open(path, "rb") as file:
            return sum(1 for line in file if line.endswith(b"\n") and line.strip())
    except FileNotFoundError:
        return 0


def append_durably(path: Path, new: bytes) -> None:
    """Append to a file and return when the disk has it: each call of the system once.

    Hundreds of threads that wait for the interpreter after each of them keep all requests waiting.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        left = memoryview(new)
        while left:  # a disk that is nearly full takes it in pieces, then raises
            left = left[os.write(descriptor, left) :]
        _sync_data(descriptor)
    finally:
        os.close(descriptor)


_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
