"""Reads journal parts from any position, live or long finished, whole or damaged.

A damaged line is skipped and counted wherever it stands. The tail after the last newline is a
record still being written (or one that death cut short): it is never handed out and never stepped
over. A NUL byte is where a file system lost what was written before a power cut: reading stops
there, because what follows cannot be told from rubbish.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import decode
from epochal.record import FORMAT_VERSION, Position, Record

_CHUNK_BYTES = 4 * 1024 * 1024


class NewerFormatError(FormatError):
    """A part was written by a newer major version of the format; nothing of it is read."""


@dataclass(slots=True)
class PartReader:
    """Reads one part incrementally: each call of ``read`` goes on where the last one stopped."""

    path: Path
    name: PartName
    offset: int = 0
    ordinal: int = 0
    damaged: int = 0
    stopped_at_nul: bool = False

    def read(self) -> Iterator[tuple[Position, Record]]:
        """Every whole record that was not handed out before."""
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < self.offset:
                raise FormatError(f"{self.path} became shorter while it was being read.")
            file.seek(self.offset)
            self.stopped_at_nul = False
            rest = b""
            while chunk := file.read(_CHUNK_BYTES):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if b"\0" in line:
                        self.stopped_at_nul = True
                        return
                    yield from self._take(line)

    def _take(self, line: bytes) -> Iterator[tuple[Position, Record]]:
        record = decode(line) if line else None
        if record is not None and self.ordinal == 0:
            check_version(record, self.path)  # before stepping on: a second read must refuse too
        self.offset += len(line) + 1
        if record is None:
            # An empty line is the newline a writer puts after a torn record.
            self.damaged += bool(line)
            return
        position = Position(*self.name, self.ordinal)
        self.ordinal += 1
        yield position, record


def read_part(path: Path, name: PartName) -> Iterator[tuple[Position, Record]]:
    """Every whole record of one part."""
    yield from PartReader(path, name).read()


def read_journal(folder: RunFolder) -> Iterator[tuple[Position, Record]]:
    """Every whole record of a run's unsealed parts, writer by writer, in file order."""
    for name in folder.parts():
        yield from read_part(folder.part_path(name), name)


def check_version(record: Record, path: Path) -> None:
    """Refuse a part whose first record says it is of a newer major version."""
    version = record.get("v", FORMAT_VERSION)
    if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
        raise NewerFormatError(
            f"{path} was written by a newer Epochal (format {version}, this one reads up to"
            f" {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
        )
