"""Reads one TensorBoard event file, from where the last reading ended.

Every length and every record is verified by its checksum. A record that fails is skipped; where the
chain of records itself is broken, reading goes on at the next record that is whole. Both leave a
sentence with the place. Bytes at the end that no whole record follows are a record being written.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from epochal.imports import crc32c
from epochal.imports.foreign import Points, empty_points
from epochal.imports.problems import Problems
from epochal.imports.protobuf import WireError
from epochal.imports.tfevents_event import Event, Tags, read_event
from epochal.imports.tfevents_template import Template, template_of
from epochal.journal.regular_file import regular_only

# Finds the records of a TFRecord file: all of them at once, each length verified by its checksum.
#
# A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``.
# The twelve bytes before the data are the same for every record of a length. So a search of the
# whole buffer finds the places where short records may begin. Afterwards the chain of records is
# checked: each must end where the next begins. Where the chain breaks (a long record, or data that
# looks like a header), one record is read by itself.

HEADER_BYTES, FOOTER_BYTES = 12, 4
_FRAME_BYTES = HEADER_BYTES + FOOTER_BYTES
_SHORT = 65536
_HEADER = struct.Struct("<QI")

Bytes = NDArray[np.uint8]
RecordIndex = NDArray[np.int64]


class Frames(msgspec.Struct, frozen=True, eq=False):
    """Whole records in a buffer: where their data starts, and how long it is.

    ``end`` is the place after the last of them. ``is_damaged`` says that no record begins there;
    otherwise ``wanted`` is how many bytes of the buffer the record there needs, as far as known.
    """

    starts: RecordIndex
    lengths: RecordIndex
    end: int
    is_damaged: bool = False
    wanted: int = 0


def find_frames(buffer: Bytes) -> Frames:
    """The chain of records from the start of a buffer to its end, or to what breaks it."""
    places, lengths = _candidates(buffer)
    ends = places + lengths + _FRAME_BYTES
    # Of each candidate: the last one that the chain through it reaches without a break.
    breaks = np.flatnonzero(np.append(ends[:-1] != places[1:], True)) if len(places) else ends
    taken_places: list[RecordIndex] = []
    taken_lengths: list[RecordIndex] = []
    place, damaged, wanted = 0, False, 0
    while True:
        index = int(np.searchsorted(places, place))
        if index < len(places) and places[index] == place:
            last = int(breaks[np.searchsorted(breaks, index)])
            if ends[last] > len(buffer):
                wanted = int(ends[last])
                last -= 1
            taken_places.append(places[index : last + 1])
            taken_lengths.append(lengths[index : last + 1])
            place = int(ends[last]) if last >= index else place
            if wanted:
                break
            continue
        length = _length_at(buffer, place)
        if length is None:
            damaged = len(buffer) - place >= HEADER_BYTES
            break
        if place + length + _FRAME_BYTES > len(buffer):
            wanted = place + length + _FRAME_BYTES
            break
        taken_places.append(np.array([place], dtype=np.int64))
        taken_lengths.append(np.array([length], dtype=np.int64))
        place += length + _FRAME_BYTES
    starts = _joined(taken_places) + HEADER_BYTES
    return Frames(starts, _joined(taken_lengths), place, damaged, wanted)


def next_frame(buffer: Bytes, after: int) -> int | None:
    """Where the next whole record begins whose length and data both agree with their checksums."""
    places, lengths = _candidates(buffer)
    for index in range(int(np.searchsorted(places, after, side="right")), len(places)):
        place, length = int(places[index]), int(lengths[index])
        if place + length + _FRAME_BYTES > len(buffer):
            continue
        data = buffer[place + HEADER_BYTES : place + HEADER_BYTES + length]
        stored = buffer[place + HEADER_BYTES + length : place + length + _FRAME_BYTES]
        if crc32c.masked_of_bytes(data.tobytes()) == int.from_bytes(stored.tobytes(), "little"):
            return place
    return None


def rows_at(buffer: Bytes, starts: RecordIndex, width: int) -> Bytes:
    """The bytes from each start on, as a table of rows of this width."""
    if not width:
        return np.zeros((len(starts), 0), dtype=np.uint8)
    rows: Bytes = sliding_window_view(buffer, width)[starts]
    return rows


@cache
def _length_checks() -> NDArray[np.uint32]:
    """The stored checksum of each short length."""
    lengths = np.zeros((_SHORT, 8), dtype=np.uint8)
    lengths[:, 0] = np.arange(_SHORT) & 0xFF
    lengths[:, 1] = np.arange(_SHORT) >> 8
    return crc32c.masked(crc32c.of_rows(lengths))


def _candidates(buffer: Bytes) -> tuple[RecordIndex, RecordIndex]:
    """The position of the header of a short record in a buffer, and its length field."""
    none = np.zeros(0, dtype=np.int64)
    if len(buffer) < HEADER_BYTES:
        return none, none
    zero = buffer == 0
    two = zero[:-1] & zero[1:]
    four = two[:-2] & two[2:]
    six = four[:-2] & two[4:]
    # A short length is two bytes with six zeros behind them.
    places = np.flatnonzero(six[2 : len(buffer) - HEADER_BYTES + 3])
    if not len(places):
        return none, none
    lengths = buffer[places].astype(np.int64) | (buffer[places + 1].astype(np.int64) << 8)
    stored = rows_at(buffer, places + 8, 4).view("<u4")[:, 0]
    right = stored == _length_checks()[lengths]
    return places[right], lengths[right]


def _length_at(buffer: Bytes, place: int) -> int | None:
    """The length in a header; None if it is truncated or its checksum differs."""
    header = buffer[place : place + HEADER_BYTES].tobytes()
    if len(header) < HEADER_BYTES:
        return None
    length, stored = _HEADER.unpack(header)
    return int(length) if crc32c.masked_of_bytes(header[:8]) == stored else None


def _joined(parts: list[RecordIndex]) -> RecordIndex:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


class PointTable:
    """Points of some events; the place of an event in its file orders them."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._columns: list[tuple[RecordIndex, NDArray[np.int32], RecordIndex, Any, Any]] = []
        self._single: list[tuple[int, int, int, float, float]] = []

    def add(self, template: Template, rows: Bytes, places: RecordIndex) -> NDArray[np.bool_]:
        """Add the points of rows of one shape; True for rows whose tag is no proper text.

        These have to be parsed by themselves.
        """
        unsure = np.zeros(len(rows), dtype=bool)
        tags = [template.tags(rows, slot) for slot in template.slots]
        names = []
        for different, which in tags:
            ids = np.array([self._id(tag) for tag in different])
            names.append(ids[which])
            unsure |= names[-1] < 0
        times, steps = template.times(rows), template.steps(rows)
        times = np.where(np.isfinite(times), times, 0.0)
        for slot, ids in zip(template.slots, names, strict=True):
            values = template.values(rows, slot)
            columns = (places, ids.astype(np.int32), steps, times, values)
            if unsure.any():
                columns = tuple(column[~unsure] for column in columns)  # type: ignore[assignment]
            self._columns.append(columns)
        return unsure

    def add_event(self, place: int, event: Event) -> None:
        """Add the points of one event."""
        for name, value in event.points:
            number = self._names.setdefault(name, len(self._names))
            self._single.append((place, number, event.step, event.t, value))

    def points(self) -> tuple[Points, RecordIndex]:
        """All points in the order of the file, and the places of their events."""
        if self._single:
            places, which, steps, times, values = zip(*self._single, strict=True)
            self._columns.append(
                (
                    np.array(places, dtype=np.int64),
                    np.array(which, dtype=np.int32),
                    np.array(steps, dtype=np.int64),
                    np.array(times, dtype=np.float64),
                    np.array(values, dtype=np.float64),
                )
            )
            self._single = []
        if not self._columns:
            return empty_points(), np.zeros(0, dtype=np.int64)
        joined = [np.concatenate(columns) for columns in zip(*self._columns, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        place, which_, steps_, times_, values_ = (column[order] for column in joined)
        return Points(*self._by_appearance(which_), steps_, times_, values_), place

    def _by_appearance(self, which: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Names in the order in which they come up, and the numbers of that order."""
        known = list(self._names)
        used, first = np.unique(which, return_index=True)
        ordered = used[np.argsort(first)]
        numbers = np.zeros(len(known), dtype=np.int32)
        numbers[ordered] = np.arange(len(ordered), dtype=np.int32)
        return tuple(known[number] for number in ordered.tolist()), numbers[which]

    def _id(self, tag: bytes) -> int:
        """The number of a tag; -1 for one that is no text."""
        try:
            name = tag.decode()
        except UnicodeDecodeError:
            return -1
        return self._names.setdefault(name, len(self._names))


_CHUNK_BYTES = 2 * 1024 * 1024
# Fewer events of one length than this are parsed one by one.
_WORTH_A_TEMPLATE = 4
_MAX_TEMPLATES = 64


class Chunk(msgspec.Struct, eq=False):
    """The content of consecutive records: points in a table, and all other events.

    Both are told apart by the place of their record in the file.
    """

    points: PointTable
    events: list[tuple[int, Event]] = []


class EventFile:
    """One event file; ``offset`` is how far it has been read."""

    def __init__(self, path: Path, *, tags: Tags) -> None:
        self.path = path
        self.offset = 0
        self.problems = Problems(path)
        self._tags = tags
        self._stuck_at: tuple[int, int] | None = None

    def read(self) -> Iterator[Chunk]:
        """Every whole record written since; raises ``OSError`` when the file cannot be read."""
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
                if len(frames.starts):
                    yield self._decode(buffer, frames)
                self.offset += frames.end
                if frames.is_damaged and not self._skip_damage(file):
                    self._stuck_at = seen
                    return
                if not frames.is_damaged and not len(frames.starts):
                    return

    def _next_frames(self, file: BinaryIO, size: int) -> tuple[Bytes, Frames]:
        """Records from the offset on; more than a chunk is read when one record needs it."""
        wanted = _CHUNK_BYTES
        while True:
            file.seek(self.offset)
            buffer = np.frombuffer(file.read(wanted), dtype=np.uint8)
            frames = find_frames(buffer)
            if len(frames.starts) or frames.is_damaged or not len(buffer):
                return buffer, frames
            if frames.wanted <= len(buffer) or self.offset + frames.wanted > size:
                return buffer, frames  # its end has not been written yet
            wanted = frames.wanted

    def _skip_damage(self, file: BinaryIO) -> bool:
        """Go to the next whole record; False when there is none, or none yet."""
        start = self.offset
        place = start
        while True:
            file.seek(place)
            buffer = np.frombuffer(file.read(_CHUNK_BYTES), dtype=np.uint8)
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

    # -- decoding ---------------------------------------------------------------------------------

    def _decode(self, buffer: Bytes, frames: Frames) -> Chunk:
        chunk = Chunk(PointTable())
        slow: list[RecordIndex] = []
        order = np.argsort(frames.lengths, kind="stable")
        borders = np.flatnonzero(np.diff(frames.lengths[order])) + 1
        for group in np.split(order, borders):
            length = int(frames.lengths[group[0]])
            starts = frames.starts[group]
            if len(group) < _WORTH_A_TEMPLATE:
                slow.append(starts[self._are_whole(buffer, starts, length)])
            else:
                slow.append(self._decode_group(buffer, starts, length, chunk.points))
        starts = np.sort(np.concatenate(slow))
        lengths = frames.lengths[np.searchsorted(frames.starts, starts)]
        for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True):
            self._decode_slowly(buffer[start:end].tobytes(), start, chunk)
        return chunk

    def _decode_group(
        self, buffer: Bytes, starts: RecordIndex, length: int, points: PointTable
    ) -> RecordIndex:
        """Decode events of one length; the places of those that have to be parsed one by one."""
        framed = rows_at(buffer, starts, length + FOOTER_BYTES)
        rows = framed[:, :length]
        whole = crc32c.masked(crc32c.of_rows(rows)) == framed[:, length:].copy().view("<u4")[:, 0]
        self._say_broken(starts[~whole])
        left = np.flatnonzero(whole)
        slow: list[RecordIndex] = []
        for _ in range(_MAX_TEMPLATES):
            if not len(left):
                break
            template = template_of(rows[left[0]].tobytes())
            if template is None:
                slow.append(starts[left[:1]])
                left = left[1:]
                continue
            candidates = rows if len(left) == len(rows) else rows[left]
            agrees = template.matches(candidates)
            chosen = candidates if bool(agrees.all()) else candidates[agrees]
            places = starts[left[agrees]]
            unsure = points.add(template, chosen, self.offset + places)
            slow.append(places[unsure])
            left = left[~agrees]
        slow.append(starts[left])
        return np.concatenate(slow)

    def _are_whole(self, buffer: Bytes, starts: RecordIndex, length: int) -> list[bool]:
        whole = []
        for start in starts.tolist():
            stored = buffer[start + length : start + length + FOOTER_BYTES].tobytes()
            check = crc32c.masked_of_bytes(buffer[start : start + length].tobytes())
            whole.append(check == int.from_bytes(stored, "little"))
            if not whole[-1]:
                self._say_broken(np.array([start], dtype=np.int64))
        return whole

    def _decode_slowly(self, data: bytes, start: int, chunk: Chunk) -> None:
        try:
            event = read_event(data, self._tags)
        except WireError as error:
            self.problems.say_damage(self.offset + start, str(error))
            return
        place = self.offset + start
        if event.points:
            chunk.points.add_event(place, event)
        if event.records or event.is_restart or event.writer is not None:
            chunk.events.append((place, event))

    # -- faults -----------------------------------------------------------------------------------

    def _say_broken(self, starts: RecordIndex) -> None:
        for start in starts.tolist():
            place = self.offset + start
            self.problems.say_damage(place, "a record does not agree with its checksum")
