"""Finds the records of a TFRecord file: all of them at once, each length verified by its checksum.

A record is ``length (8 bytes) | checksum of the length (4) | data | checksum of the data (4)``.
The twelve bytes before the data are the same for every record of a length. So a search of the whole
buffer finds the places where short records may begin. Afterwards the chain of records is checked:
each must end where the next begins. Where the chain breaks (a long record, or data that looks like
a header), one record is read by itself.
"""

from __future__ import annotations

import struct
from functools import cache

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from epochal.imports import crc32c

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
