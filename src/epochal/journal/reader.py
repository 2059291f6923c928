"""Reads journal parts from any position, live or long finished, whole or damaged.

A damaged line is skipped and counted. The bytes after the last newline are a record that is still
being written, or that a killed process left incomplete. The reader neither returns nor skips them.
A NUL byte marks data that the file system lost in a power cut. Reading stops there, because the
bytes behind it cannot be trusted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from epochal.errors import FormatError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import decode, decode_json
from epochal.journal.regular_file import regular_only
from epochal.records import FORMAT_VERSION, Position, Record

_CHUNK_BYTES = 4 * 1024 * 1024
# So few that their records are still in the processor's cache when they are looked at.
_BLOCK_BYTES = 256 * 1024


class NewerFormatError(FormatError):
    """A part was written by a newer major version of the format; nothing of it is read."""


class ShorterFileError(FormatError):
    """A part is shorter than what was read of it, or has other content."""


@dataclass(slots=True)
class PartReader:
    """Reads one part incrementally: each call of ``read`` continues where the last one stopped."""

    path: Path
    name: PartName
    offset: int = 0
    ordinal: int = 0
    damaged: int = 0
    stopped_at_nul: bool = False

    def read(self) -> Iterator[tuple[Position, Record]]:
        """Every complete record that was not returned before."""
        for text in self._texts(_CHUNK_BYTES):
            for line in text.split(b"\n")[:-1]:
                record = self._take(line)
                if record is not None:
                    yield Position(*self.name, self.ordinal - 1), record

    def read_blocks(self) -> Iterator[list[Record]]:
        """The same, many records at a time, which takes a third of the time."""
        for text in self._texts(_BLOCK_BYTES):
            yield self._take_all(text.split(b"\n")[:-1])

    def recover(self) -> None:
        """Go on behind the records that are left of a part that became shorter."""
        left = PartReader(self.path, self.name)
        for _ in left.read_blocks():
            pass
        self.offset, self.ordinal = left.offset, left.ordinal

    def _texts(self, at_once: int) -> Iterator[bytes]:
        """The whole lines from the offset on, read so many bytes at once; none with a NUL."""
        with open(self.path, "rb", buffering=0, opener=regular_only) as file:
            size = os.fstat(file.fileno()).st_size
            if size < self.offset:
                raise ShorterFileError(f"{self.path} became shorter while it was being read.")
            file.seek(self.offset)
            self.stopped_at_nul = False
            for text, self.stopped_at_nul in whole_lines(file, at_once):
                yield text

    def _take(self, line: bytes) -> Record | None:
        record = decode(line) if line else None
        if record is not None and self.ordinal == 0:
            check_version(record, self.path)  # before stepping on: a second read must refuse too
        self.offset += len(line) + 1
        if record is None:
            # An empty line is the newline a writer puts after a torn record.
            self.damaged += bool(line)
            return None
        self.ordinal += 1
        return record

    def _take_all(self, lines: list[bytes]) -> list[Record]:
        records = _decoded(lines)
        if records is None:  # one of them needs a closer look
            return [record for line in lines if (record := self._take(line)) is not None]
        if self.ordinal == 0 and records:
            check_version(records[0], self.path)
        self.offset += sum(map(len, lines)) + len(lines)
        self.ordinal += len(records)
        return records


def whole_lines(file: BinaryIO | FileIO, at_once: int) -> Iterator[tuple[bytes, bool]]:
    """The whole lines from here on, read so many bytes at once, and whether a NUL follows them.

    Reading ends there.
    """
    rest = b""
    while chunk := file.read(max(at_once, len(rest))):  # so that long lines end soon
        text = rest + chunk
        nul = text.find(b"\0")
        if nul >= 0 and text.find(b"\n", nul) >= 0:
            yield text[: text.rfind(b"\n", 0, nul) + 1], True
            return
        end = text.rfind(b"\n") + 1
        rest = text[end:]
        yield text[:end], False


def read_part(path: Path, name: PartName) -> Iterator[tuple[Position, Record]]:
    """Every whole record of one part."""
    yield from PartReader(path, name).read()


def read_journal(folder: RunFolder) -> Iterator[tuple[Position, Record]]:
    """Every whole record of a run's unsealed parts, writer by writer, in file order."""
    for name in folder.parts():
        yield from read_part(folder.part_path(name), name)


def is_newer(record: Record) -> bool:
    """Whether a part's first record is of a newer major version."""
    version = record.get("v", FORMAT_VERSION)
    return isinstance(version, (int, float)) and int(version) > FORMAT_VERSION


def check_version(record: Record, path: Path) -> None:
    """Refuse a part of a newer major version."""
    if is_newer(record):
        raise NewerFormatError(
            f"{path} was written by a newer Epochal (format {record['v']}, this one reads up to"
            f" {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
        )


def _decoded(lines: list[bytes]) -> list[Record] | None:
    """The records of lines that are all whole; None when one of them is not."""
    try:
        records: list[Any] = list(map(decode_json, lines))
    except (ValueError, RecursionError):
        return None
    for record in records:
        if type(record) is not dict or type(record.get("log")) is not str:
            return None
    return records


def last_step_in(part: Path) -> int | None:
    """The last training step in a journal part, read from its end."""
    for record in records_from_end(part):
        step = record.get("step")
        if isinstance(step, int):
            # Samples and telemetry carry steps of their own choosing; only these count them.
            if record["log"] in ("metrics", "step"):
                return step
            if record["log"] == "resume":
                return step - 1
    return None


def last_epoch_in(part: Path) -> int | None:
    """How many epochs were complete at the end of a journal part, read from its end."""
    for record in records_from_end(part):
        epoch = record.get("epoch")
        if record["log"] == "epoch" and isinstance(epoch, int):
            return epoch
    return None


def records_from_end(part: Path, *, most_bytes: int | None = None) -> Iterator[Record]:
    """The whole records of a part, the last one first; with ``most_bytes``, of its end alone."""
    with open(part, "rb", buffering=0, opener=regular_only) as file:
        size = os.fstat(file.fileno()).st_size
        start = 0 if most_bytes is None else max(0, size - most_bytes)
        file.seek(start)
        text = file.read()
    first = text.find(b"\n") + 1 if start else 0
    end = text.rfind(b"\n")  # what follows the last newline is not a whole record
    while end > first:
        begin = max(text.rfind(b"\n", first, end) + 1, first)
        record = decode(text[begin:end])
        if record is not None:
            yield record
        end = begin - 1


class Batch(NamedTuple):
    """Records that follow each other in one part."""

    part: PartName
    records: list[Record]


class Follower:
    """Returns each record of a run's journal exactly once, over any number of polls."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._readers: dict[PartName, PartReader] = {}
        self._seen: dict[PartName, tuple[int, int]] = {}

    @property
    def damaged(self) -> int:
        """How many damaged lines have been skipped so far."""
        return sum(reader.damaged for reader in self._readers.values())

    def poll(self, *, enough: int | None = None) -> list[Batch]:
        """What was written since the last poll; with ``enough``, hardly more records than that."""
        found: list[Batch] = []
        num_found = 0
        for name in self.folder.parts():
            reader = self._readers.get(name)
            if reader is None:
                reader = PartReader(self.folder.part_path(name), name)
                self._readers[name] = reader
            if not self._has_grown(reader):
                continue
            # Sealed or removed between the look and the opening: what it held is elsewhere now.
            with contextlib.suppress(FileNotFoundError):
                for records in reader.read_blocks():
                    if records:
                        found.append(Batch(name, records))
                        num_found += len(records)
                    if enough is not None and num_found >= enough:
                        return found
        return found

    def _has_grown(self, reader: PartReader) -> bool:
        try:
            status = reader.path.stat()
        except FileNotFoundError:
            return False  # sealed or removed between the listing and now
        seen, now = self._seen.get(reader.name), (status.st_size, status.st_mtime_ns)
        self._seen[reader.name] = now
        if status.st_size < reader.offset:
            with contextlib.suppress(FileNotFoundError):
                reader.recover()
        # A NUL may be a page that a network file system has yet to fetch: look again on change.
        if reader.stopped_at_nul and seen == now:
            return False
        return status.st_size > reader.offset
