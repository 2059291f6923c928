"""Opens regular files and nothing else, and reads and writes by descriptor.

A pipe waits for somebody to write to it, a device may never end, and a folder of runs may hold
either under any name. ``open(path, "rb", opener=regular_only)`` refuses them without waiting.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from pathlib import Path

from epochal.errors import FormatError

_CHUNK_BYTES = 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


class NotRegularFileError(OSError):
    """What a path leads to is a folder, a pipe, a socket or a device."""


def regular_only(path: str, flags: int) -> int:
    """An opener for ``open``: raises ``NotRegularFileError`` for what is not a regular file."""
    return open_regular(path, flags)[0]


def open_regular(path: str, flags: int = _FLAGS) -> tuple[int, int]:
    """The same, with the size of the file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status.st_size
    os.close(descriptor)
    raise NotRegularFileError(errno.EINVAL, "it is not a regular file", str(path))


def read_regular(path: Path | str, *, max_bytes: int | None = None) -> bytes:
    """The bytes of a regular file; raises ``FormatError`` where there are more than ``max_bytes``.

    The limit counts what is read, not what the file system says: a file may grow meanwhile.
    """
    # All of it at once, and whatever a writer adds meanwhile.
    file, length = open_regular(os.fspath(path))
    try:
        chunks: list[bytes] = []
        left = math.inf if max_bytes is None else max_bytes
        size = length + 1
        while chunk := os.read(file, int(min(size, left + 1))):
            size = _CHUNK_BYTES
            left -= len(chunk)
            if left < 0:
                raise FormatError(f"{path} is larger than {max_bytes:,} bytes.")
            if not chunks and len(chunk) == length:
                return chunk  # no more than there was when it was opened
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(file)


FileId = tuple[int, int]

_PIECE_BYTES = 4 * 1024 * 1024


def file_id(descriptor: int) -> FileId:
    """Which file a descriptor leads to: device and inode."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def status_if_same(descriptor: int, expected: FileId) -> os.stat_result | None:
    """The status of the file; None when the descriptor was closed or leads elsewhere."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status if (status.st_dev, status.st_ino) == expected else None


def close_if_same(descriptor: int, expected: FileId) -> None:
    """Close the descriptor, unless the program has closed it and given its number away."""
    if status_if_same(descriptor, expected) is not None:
        os.close(descriptor)


def write_whole(descriptor: int, text: bytes) -> None:
    """Write all of it; what does not fit meets its OSError on the second try."""
    while text:
        text = text[os.write(descriptor, text) :]


def read_from(descriptor: int, start: int) -> bytes:
    """Everything from a position on.

    The descriptor's own position is not used. Every write of another thread moves it to the end,
    and reading from there would skip data.
    """
    chunks = []
    while chunk := os.pread(descriptor, _PIECE_BYTES, start):
        chunks.append(chunk)
        start += len(chunk)
    return b"".join(chunks)
