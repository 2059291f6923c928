"""Reads one TensorBoard event file, from where the last reading ended.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``.
Every length and every record is verified. A record that fails is skipped; where no record begins,
reading ends, as TensorBoard's does. Both leave a sentence with the place. Bytes at the end that are
not a whole record are a record being written.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from epochal.exchange.event_file import masked_of_bytes, masked_of_each
from epochal.exchange.imports.foreign import Problems
from epochal.exchange.imports.protobuf import WireError, signed, varint
from epochal.exchange.imports.tfevents_event import Event, Tags, read_event
from epochal.journal.regular_file import regular_only

HEADER_BYTES, FOOTER_BYTES = 12, 4
_FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_CHUNK_BYTES = 2 * 1024 * 1024
_TIME, _STEP = 0x09, 0x10
_TIME_BYTES = 9
_CHECK, _FLOAT, _DOUBLE = struct.Struct("<I"), struct.Struct("<f"), struct.Struct("<d")
_MAX_SCALARS = 4096

# Time in whole milliseconds, step, name and value of a scalar; or an event in its place.
Item = tuple[float, int, str, "float | Event"]


class Frames(NamedTuple):
    """Whole records in a buffer: where their data starts, and how long it is.

    ``end`` is the place after the last of them. ``is_damaged`` says that no record begins there;
    otherwise ``wanted`` is how many bytes of the buffer the record there needs, as far as known.
    """

    starts: list[int]
    lengths: list[int]
    end: int
    is_damaged: bool = False
    wanted: int = 0


def find_frames(buffer: bytes) -> Frames:
    """The records from the start of a buffer to its end, or to what is no record."""
    starts: list[int] = []
    lengths: list[int] = []
    place, size = 0, len(buffer)
    while place + HEADER_BYTES <= size:
        length = _length(buffer[place : place + HEADER_BYTES])
        if length is None:
            return Frames(starts, lengths, place, is_damaged=True)
        end = place + length + _FRAME_BYTES
        if end > size:
            return Frames(starts, lengths, place, wanted=end)
        starts.append(place + HEADER_BYTES)
        lengths.append(length)
        place = end
    return Frames(starts, lengths, place)


@lru_cache(4096)
def _length(header: bytes) -> int | None:
    """The length in a header; None if it is cut or its checksum differs."""
    if len(header) < HEADER_BYTES or header[4:8] != bytes(4):
        return None
    is_right = masked_of_bytes(header[:8]) == int.from_bytes(header[8:], "little")
    return int.from_bytes(header[:8], "little") if is_right else None


class EventFile:
    """One event file; ``offset`` is how far it has been read."""

    def __init__(self, path: Path, *, tags: Tags) -> None:
        self.path = path
        self.offset = 0
        self.problems = Problems(path)
        self._tags = tags
        # The names of scalars, by what follows the step in their events, without the number.
        self._scalars: dict[bytes, str] = {}
        self._stuck_at: tuple[int, int] | None = None
        # The attempt of the run that the file is part of, once that is known.
        self.attempt: int | None = None

    def read(self) -> Iterator[Iterator[Item]]:
        """What was written since, in the order of the file; raises ``OSError``."""
        with open(self.path, "rb", opener=regular_only) as file:
            status = os.fstat(file.fileno())
            seen = (status.st_size, status.st_mtime_ns)
            if status.st_size <= self.offset or seen == self._stuck_at:
                if status.st_size < self.offset:
                    self.problems.say_shorter(self.offset)
                    self.offset = status.st_size
                return
            self._stuck_at = None
            while True:
                buffer, frames = self._next_frames(file, status.st_size)
                yield self._items(buffer, frames)
                self.offset += frames.end
                if frames.is_damaged:
                    what = "no record begins there, so the rest is not read"
                    self.problems.say_damage(self.offset, what)
                    self._stuck_at = seen
                    return
                if not frames.starts:
                    return

    def _next_frames(self, file: BinaryIO, size: int) -> tuple[bytes, Frames]:
        """Records from the offset on; more than a chunk is read when one record needs it."""
        wanted = _CHUNK_BYTES
        while True:
            file.seek(self.offset)
            buffer = file.read(wanted)
            frames = find_frames(buffer)
            if frames.starts or frames.is_damaged or not buffer:
                return buffer, frames
            if frames.wanted <= len(buffer) or self.offset + frames.wanted > size:
                return buffer, frames  # its end has not been written yet
            wanted = frames.wanted

    def _items(self, buffer: bytes, frames: Frames) -> Iterator[Item]:
        """The events of whole records, those like an earlier scalar without parsing them."""
        pairs = zip(frames.starts, frames.lengths, strict=True)
        events = [buffer[start : start + length] for start, length in pairs]
        checks = masked_of_each(events)
        for start, data, check in zip(frames.starts, events, checks, strict=True):
            place = self.offset + start
            if check != _CHECK.unpack_from(buffer, start + len(data))[0]:
                self.problems.say_damage(place, "a record does not agree with its checksum")
                continue
            content = _after_step(data)
            name = self._scalars.get(data[content:-4])
            try:
                if name is not None:
                    t, value = _DOUBLE.unpack_from(data, 1)[0], _FLOAT.unpack(data[-4:])[0]
                    if math.isfinite(t):
                        yield round(t, 3), _step(data[_TIME_BYTES:content]), name, value
                        continue
                event = read_event(data, self._tags)
            except WireError as error:
                self.problems.say_damage(place, str(error))
                continue
            if content and event.is_scalar and event.float_end == len(data):
                if len(self._scalars) >= _MAX_SCALARS:
                    self._scalars.clear()
                self._scalars[data[content:-4]] = event.points[0][0]
            yield round(event.t, 3), event.step, "", event


def _after_step(data: bytes) -> int:
    """Where time and step end in an event that begins with them; 0 for any other."""
    if len(data) <= _TIME_BYTES or data[0] != _TIME:
        return 0
    end = _TIME_BYTES
    if data[end] == _STEP:
        end += 2
        while end <= len(data) and data[end - 1] >= 0x80:
            end += 1
    return end


@lru_cache(4096)
def _step(field: bytes) -> int:
    return signed(varint(field, 1, len(field))[0]) if field else 0
