"""One TensorBoard event file, appended to in whole records.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``,
all little-endian, the checksums CRC-32C in their stored form. Readers follow the file while it
grows and wait at a record that is not whole yet.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochal.imports import crc32c
from epochal.sinks import protobuf as pb
from epochal.sinks import summaries

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
        self.append_framed(framed(events))

    def append_framed(self, records: bytes) -> None:
        """Append whole records, as ``framed`` and ``framed_scalars`` make them."""
        left = memoryview(records)
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


def framed_scalars(
    tags: Sequence[str], times: ArrayLike, steps: ArrayLike, columns: Sequence[ArrayLike]
) -> bytes:
    """Events of the same tags as the records of a file: one for each time and step."""
    moments = np.asarray(times, dtype="<f8")
    numbers = np.asarray(steps, dtype=np.int64).view(np.uint64)
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
        values = [np.asarray(column, dtype=np.float64).astype("<f4") for column in columns]
    # A step takes a byte for every seven bits; records of one length are made together.
    sizes = np.ones(len(numbers), dtype=np.int64)
    for shift in range(7, 64, 7):
        sizes += numbers >= np.uint64(1 << shift)
    edges = [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist(), len(numbers)]
    return b"".join(
        _scalar_rows(
            tags,
            moments[start:end],
            numbers[start:end],
            [column[start:end] for column in values],
            size=int(sizes[start]),
        )
        for start, end in itertools.pairwise(edges)
    )


def _scalar_rows(
    tags: Sequence[str],
    times: NDArray[np.float64],
    steps: NDArray[np.uint64],
    columns: Sequence[NDArray[np.float32]],
    *,
    size: int,
) -> bytes:
    """Records with steps of one size, each a row of bytes."""
    template, places = _template(tuple(tags), size)
    rows = np.tile(np.frombuffer(template, dtype=np.uint8), (len(steps), 1))
    start = len(_header(0))
    event = rows[:, start : -_CHECK.size]
    event[:, 1:9] = _bytes_of(times)
    for place in range(size):
        more = 0x80 if place < size - 1 else 0
        event[:, 10 + place] = (steps >> np.uint64(7 * place)) & np.uint64(0x7F) | np.uint64(more)
    for place, column in zip(places, columns, strict=True):
        event[:, place : place + 4] = _bytes_of(column)
    rows[:, -_CHECK.size :] = _bytes_of(crc32c.masked(crc32c.of_rows(event)).astype("<u4"))
    return rows.tobytes()


def _bytes_of(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), -1)


@lru_cache(maxsize=256)
def _template(tags: tuple[str, ...], size: int) -> tuple[bytes, list[int]]:
    """A record of these tags, and where in its event each value stands."""
    values = [summaries.scalar_value(tag, 0.0) for tag in tags]
    event = summaries.summary_event(0.0, (1 << 7 * size) - 1, values)
    places: list[int] = []
    end = len(event)
    for value in reversed(values):
        places.append(end - 4)
        end -= len(pb.chunk(1, value))
    return _header(len(event)) + event + b"\0" * _CHECK.size, places[::-1]


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
