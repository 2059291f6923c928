"""Follows a run's journal as it grows: every record once, in file order per writer.

Works by looking again, not by notification, so it works on network file systems. Each part
remembers its offset; a part that was looked at and has not grown costs one ``stat``.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import PartReader
from epochal.records import Record


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
