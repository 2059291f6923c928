"""Opens regular files and nothing else.

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
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class NotRegularFileError(OSError):
    """What a path leads to is a folder, a pipe, a socket or a device."""


def regular_only(path: str, flags: int) -> int:
    """An opener for ``open``: raises ``NotRegularFileError`` for what is not a regular file."""
    return open_regular(path, flags)[0]


def open_regular(path: str, flags: int = _FLAGS) -> tuple[int, int]:
    """The same, with the size of the file."""
    descriptor = os.open(path, flags | _NONBLOCK)
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
