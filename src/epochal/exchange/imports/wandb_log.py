"""Reads the records of a W&B log.

The file is a log in the format of LevelDB: records in chunks, chunks in blocks of 32 KiB. A chunk
is ``checksum (4 bytes) | length (2) | type (1) | data``; a record is one full chunk or a first, any
number of middle and a last one. The checksum is the plain CRC-32 of type and data. The file begins
with seven bytes of its own, which the first block counts as part of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from epochal.exchange.imports.foreign import Problems
from epochal.journal.regular_file import regular_only

MAGIC = b":W&B"
FILE_HEADER_BYTES = 7
_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_READ_BYTES = 128 * _BLOCK


class LogFile:
    """One log; ``offset`` is where the next record begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = FILE_HEADER_BYTES
        self.problems = Problems(path)
        # After damage, chunks of the record that was lost are passed over in silence.
        self._is_lost = False

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Every whole record since the last reading, each with the place it begins at.

        A record cut at the end of the file is left for the next call. Raises ``OSError``.
        """
        with open(self.path, "rb", opener=regular_only) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self.offset and size >= FILE_HEADER_BYTES:
                self.problems.say_shorter(self.offset)
                self.offset = size
            place, begun, parts = self.offset, self.offset, list[bytes]()
            buffer, base = b"", place
            while place < size:
                room = _BLOCK - place % _BLOCK
                if room < _HEADER.size:
                    place += room
                    continue
                if place + min(room, size - place) > base + len(buffer):
                    file.seek(place)
                    buffer, base = file.read(_READ_BYTES), place
                chunk = self._chunk(buffer, place - base, room, at_end=size - place)
                if chunk is None:
                    if place + room > size:
                        return  # being written, or cut by the end of the process
                    self._lose(place)
                    parts, place = [], place + room
                    self.offset = place
                    continue
                kind, data = chunk
                if kind in (_FULL, _FIRST):
                    begun, parts, self._is_lost = place, [], False
                elif not parts:
                    if not self._is_lost:
                        self._lose(place)
                    place += _HEADER.size + len(data)
                    self.offset = place
                    continue
                parts.append(data)
                place += _HEADER.size + len(data)
                if kind in (_FULL, _LAST):
                    self.offset = place
                    yield begun, b"".join(parts)
                    parts = []

    def _chunk(
        self, buffer: bytes, place: int, room: int, *, at_end: int
    ) -> tuple[int, bytes] | None:
        """The type and data of a chunk; None when it is cut or does not agree with its checksum."""
        header = buffer[place : place + _HEADER.size]
        if len(header) < _HEADER.size:
            return None
        check, length, kind = _HEADER.unpack(header)
        if _HEADER.size + length > min(room, at_end) or not _FULL <= kind <= _LAST:
            return None
        start = place + _HEADER.size
        checked = buffer[start - 1 : start + length]  # the type is part of it
        return (kind, checked[1:]) if zlib.crc32(checked) == check else None

    def _lose(self, place: int) -> None:
        self._is_lost = True
        self.problems.say_damage(place, "a chunk does not agree with itself")
