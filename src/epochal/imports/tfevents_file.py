"""Reads one TensorBoard event file, from where the last reading ended.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``.
Every length and every record is verified. A record that fails is skipped; where no record begins,
reading goes on at the next one that is whole. Both leave a sentence with the place. Bytes at the
end that are not a whole record are a record being written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from epochal.imports import crc32c
from epochal.imports.foreign import Problems
from epochal.imports.protobuf import WireError
from epochal.imports.tfevents_event import Event, Tags, read_event
from epochal.journal.regular_file import regular_only

HEADER_BYTES, FOOTER_BYTES = 12, 4
_FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_CHUNK_BYTES = 2 * 1024 * 1024
# Fewer records of one length than this are verified one by one.
_WORTH_A_TABLE = 4
_TIME, _STEP = 0x09, 0x10
_TIME_BYTES = 9
# Events of more shapes than this are parsed one by one.
_MAX_SHAPES = 64
_place = itemgetter(0)

Bytes = NDArray[np.uint8]
Starts = NDArray[np.int64]
# Place, time in whole milliseconds, step, name and value of a scalar; or an event in its place.
Item = tuple[int, float, int, str, "float | Event"]


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


def next_frame(buffer: bytes, after: int) -> int | None:
    """Where the next whole record begins whose length and data both agree with their checksums."""
    # The upper half of every length is zero.
    zeros = buffer.find(bytes(4), after + 5)
    while zeros >= 0:
        place = zeros - 4
        length = _length(buffer[place : place + HEADER_BYTES])
        if length is not None and place + length + _FRAME_BYTES <= len(buffer):  # noqa: SIM102
            if _is_whole(buffer, place + HEADER_BYTES, length):
                return place
        zeros = buffer.find(bytes(4), zeros + 1)
    return None


@lru_cache(4096)
def _length(header: bytes) -> int | None:
    """The length in a header; None if it is cut or its checksum differs."""
    if len(header) < HEADER_BYTES or header[4:8] != bytes(4):
        return None
    is_right = crc32c.masked_of_bytes(header[:8]) == int.from_bytes(header[8:], "little")
    return int.from_bytes(header[:8], "little") if is_right else None


def _is_whole(buffer: bytes, start: int, length: int) -> bool:
    """Whether the data of a record agrees with its checksum."""
    end = start + length
    stored = int.from_bytes(buffer[end : end + FOOTER_BYTES], "little")
    return crc32c.masked_of_bytes(buffer[start:end]) == stored


class _Shape(NamedTuple):
    """Where the step of an event ends, and where its only number lies."""

    step_end: int
    start: int
    layout: np.dtype[np.floating[Any]]

    def mask(self, length: int) -> Bytes:
        """Zero where events of this shape differ: time, step and number."""
        mask = np.full(length, 0xFF, dtype=np.uint8)
        mask[1:9] = mask[self.start : self.start + self.layout.itemsize] = 0
        mask[10 : self.step_end] = 0x80
        return mask


def _shape_of(data: bytes, event: Event) -> _Shape | None:
    """The shape of an event that is a time, a step and one number; None for any other."""
    is_more = event.records or event.writer or event.is_restart or len(event.points) != 1
    if is_more or event.number is None or data[0] != _TIME:
        return None
    end = 9
    if data[9] == _STEP:
        end = next(place for place in range(10, len(data)) if data[place] < 0x80) + 1
    shape = _Shape(end, event.number.start, np.dtype(event.number.layout))
    row = np.frombuffer(data, dtype=np.uint8)[None]
    is_plain = (_times(row)[0], _steps(row, end)[0]) == (event.t, event.step)
    return shape if is_plain else None


def _times(rows: Bytes) -> NDArray[np.float64]:
    return rows[:, 1:9].copy().view("<f8")[:, 0]


def _steps(rows: Bytes, end: int) -> NDArray[np.int64]:
    steps = np.zeros(len(rows), dtype=np.uint64)
    for shift, column in enumerate(range(10, end)):
        steps |= (rows[:, column] & 0x7F).astype(np.uint64) << np.uint64(7 * shift)
    return steps.view(np.int64)


class EventFile:
    """One event file; ``offset`` is how far it has been read."""

    def __init__(self, path: Path, *, tags: Tags) -> None:
        self.path = path
        self.offset = 0
        self.problems = Problems(path)
        self._tags = tags
        self._stuck_at: tuple[int, int] | None = None
        # The attempt of the run that the file is part of, once that is known.
        self.attempt: int | None = None

    def read(self) -> Iterator[list[Item]]:
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
                if frames.is_damaged and not self._skip_damage(file):
                    self._stuck_at = seen
                    return
                if not frames.is_damaged and not frames.starts:
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

    def _skip_damage(self, file: BinaryIO) -> bool:
        """Go to the next whole record; False when there is none, or none yet."""
        start = place = self.offset
        while True:
            file.seek(place)
            buffer = file.read(_CHUNK_BYTES)
            found = next_frame(buffer, 0 if place == start else -1)
            if found is not None:
                self.problems.say_damage(start, f"{place + found - start} bytes are no records")
                self.offset = place + found
                return True
            if len(buffer) < _CHUNK_BYTES:
                self.problems.say_damage(start, "no record begins there, nor after it", once=True)
                return False
            # The next chunk overlaps this one: a record may lie across the border.
            place += _CHUNK_BYTES // 2

    def _items(self, buffer: bytes, frames: Frames) -> list[Item]:
        items: list[Item] = []
        text = np.frombuffer(buffer, dtype=np.uint8)
        all_starts, all_lengths = np.array(frames.starts), np.array(frames.lengths)
        for length in np.unique(all_lengths).tolist():
            starts = all_starts[all_lengths == length]
            if length <= _TIME_BYTES or len(starts) < _WORTH_A_TABLE:
                whole = np.array([_is_whole(buffer, start, length) for start in starts.tolist()])
                left = starts[whole]
            else:
                framed = sliding_window_view(text, length + FOOTER_BYTES)[starts]
                rows = framed[:, :length]
                stored = framed[:, length:].copy().view("<u4")[:, 0]
                whole = crc32c.masked(crc32c.of_rows(rows)) == stored
                left = self._take_points(rows[whole], starts[whole], items)
            for start in starts[~whole].tolist():
                place = self.offset + start
                self.problems.say_damage(place, "a record does not agree with its checksum")
            for start in left.tolist():
                self._take_event(buffer[start : start + length], start, items)
        items.sort(key=_place)
        return items

    def _take_points(self, rows: Bytes, starts: Starts, items: list[Item]) -> Starts:
        """Decode events of one length that are points; the starts of the others."""
        others: list[int] = []
        for _ in range(_MAX_SHAPES):
            if not len(rows):
                break
            _, shape = self._probe(rows[0].tobytes())
            if shape is None:
                others.append(int(starts[0]))
                rows, starts = rows[1:], starts[1:]
                continue
            is_point = self._take_alike(rows, starts, shape, items)
            rows, starts = rows[~is_point], starts[~is_point]
        return np.concatenate([np.array(others, dtype=np.int64), starts])

    def _take_alike(
        self, rows: Bytes, starts: Starts, shape: _Shape, items: list[Item]
    ) -> NDArray[np.bool_]:
        """Decode the events of one shape; says which of the rows those are."""
        plain = np.ascontiguousarray(rows & shape.mask(rows.shape[1]))
        keys = plain.view(np.dtype((np.void, rows.shape[1])))[:, 0]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        probed = [self._probe(rows[row].tobytes()) for row in first.tolist()]
        names = np.array([name for name, _ in probed], dtype=object)
        is_named = np.array([found == shape for _, found in probed])
        times = _times(rows)
        is_point: NDArray[np.bool_] = is_named[which] & np.isfinite(times)
        rows = rows[is_point]
        number = rows[:, shape.start : shape.start + shape.layout.itemsize].copy()
        with np.errstate(invalid="ignore"):  # a signalling nan stays a nan
            values = number.view(shape.layout)[:, 0].astype(np.float64)
        columns = (
            starts[is_point] + self.offset,
            np.rint(times[is_point] * 1000) / 1000,
            _steps(rows, shape.step_end),
            names[which[is_point]],
            values,
        )
        items.extend(zip(*(column.tolist() for column in columns), strict=True))
        return is_point

    def _probe(self, data: bytes) -> tuple[str, _Shape | None]:
        """The name and the shape of an event that is a point; the tags stay as they are."""
        try:
            event = read_event(data, Tags(self._tags.plugins, set(self._tags.described)))
        except WireError:
            return "", None
        shape = _shape_of(data, event)
        return ("", None) if shape is None else (event.points[0][0], shape)

    def _take_event(self, data: bytes, start: int, items: list[Item]) -> None:
        place = self.offset + start
        try:
            event = read_event(data, self._tags)
        except WireError as error:
            self.problems.say_damage(place, str(error))
            return
        items.append((place, round(event.t, 3), event.step, "", event))
