"""How many steps a worker's log calls have returned for, in a file that outlives the worker.

The count is one aligned 8-byte store into a shared mapping, so a kill cannot tear or lose it.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

COUNT = struct.Struct("=Q")


def create(path: Path) -> None:
    path.write_bytes(COUNT.pack(0))


def read(path: Path) -> int:
    (count,) = COUNT.unpack(path.read_bytes())
    return int(count)


def open_for_writing(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), COUNT.size)
