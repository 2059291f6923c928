"""Reading and writing by descriptor, when the program around may close any number at any time."""

from __future__ import annotations

import os

FileId = tuple[int, int]

_CHUNK_BYTES = 4 * 1024 * 1024


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
    while chunk := os.pread(descriptor, _CHUNK_BYTES, start):
        chunks.append(chunk)
        start += len(chunk)
    return b"".join(chunks)
