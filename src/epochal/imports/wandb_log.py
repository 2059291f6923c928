"""Reads the records of a W&B log, and the media that its history names.

The file is a log in the format of LevelDB: records in chunks, chunks in blocks of 32 KiB. A chunk
is ``checksum (4 bytes) | length (2) | type (1) | data``; a record is one full chunk or a first, any
number of middle and a last one. The checksum is the plain CRC-32 of type and data. The file begins
with seven bytes of its own, which the first block counts as part of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epochal.imports.foreign import Problems
from epochal.imports.histogram import histogram_record
from epochal.journal.regular_file import read_regular, regular_only
from epochal.media.files import blob_record, media_type_of_name
from epochal.records import Record

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


# What W&B keeps in history beside numbers: histograms, and media that lie in a folder.


def media_records(
    name: str, value: Mapping[str, Any], folder: Path, *, t: float, step: int
) -> Iterator[tuple[Record, Path | None]]:
    """The records of one typed value; a blob's with its file."""
    kind = value.get("_type")
    if kind == "histogram":
        yield _histogram(name, value, t=t, step=step), None
        return
    paths, captions = _listed(value, "filenames", "path"), _listed(value, "captions", "caption")
    for number, path in enumerate(paths):
        label = name if len(paths) == 1 else f"{name}/{number}"
        place = _inside(folder, path)
        try:
            data = None if place is None else read_regular(place)
        except OSError:
            data = None
        if data is None or place is None:
            fact = {"name": "missing-media", "series": label, "path": str(path)}
            yield {"log": "event", "t": t, "step": step, **fact}, None
            continue
        record = blob_record(label, data, t=t, step=step, media_type=media_type_of_name(path))
        if number < len(captions) and captions[number]:
            record["caption"] = captions[number]
        yield record, place
    if not paths:
        shown = {key: item for key, item in value.items() if isinstance(item, (str, int, bool))}
        yield {"log": "event", "t": t, "step": step, "name": "media", "series": name, **shown}, None


def _histogram(name: str, value: Mapping[str, Any], *, t: float, step: int) -> Record:
    edges, packed = value.get("bins"), value.get("packedBins")
    if isinstance(packed, Mapping):
        low, width, count = (_number(packed.get(key)) for key in ("min", "size", "count"))
        edges = (low + width * np.arange(min(max(int(count), 0), 10_000) + 1)).tolist()
    counts = value.get("values")
    return histogram_record(name, t=t, step=step, edges=_numbers(edges), counts=_numbers(counts))


def _numbers(values: Any) -> list[float]:
    return [_number(value) for value in values] if isinstance(values, list) else []


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) else float("nan")
    except OverflowError:
        return float("nan")


def _listed(value: Mapping[str, Any], several: str, one: str) -> list[str]:
    found = value.get(several)
    if isinstance(found, list):
        return [str(item) for item in found]
    return [str(value[one])] if isinstance(value.get(one), str) else []


def _inside(folder: Path, path: str) -> Path | None:
    """A file below a folder; None for a path that leads out of it."""
    try:
        place = (folder / path).resolve()
        return place if place.is_relative_to(folder.resolve()) and place.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
