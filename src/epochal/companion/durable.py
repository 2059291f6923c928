"""Brings journals to the disk itself, so that a power cut costs seconds and not minutes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import decode

SYNC_EVERY_S = 5.0
_HEADER_BYTES = 64 * 1024


class Durable:
    """Syncs the parts of a run that were written on this machine and have grown since."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._sizes: dict[PartName, int] = {}
        self._is_ours: dict[PartName, bool] = {}

    def sync(self) -> int:
        """Sync new data to the disk; returns the number of parts."""
        if os.name == "nt":
            return 0  # only the process that writes may ask for it there
        synced = 0
        for part in self._folder.parts():
            path = self._folder.part_path(part)
            try:
                synced += self._sync_part(part, path)
            except OSError:
                # Sealed meanwhile, or a disk that fails, which the writer itself reports.
                self._sizes.pop(part, None)
        return synced

    def _sync_part(self, part: PartName, path: Path) -> bool:
        size = path.stat().st_size
        if self._sizes.get(part) == size:
            return False
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if part not in self._is_ours:
                self._is_ours[part] = _is_of_this_host(os.pread(descriptor, _HEADER_BYTES, 0))
            if self._is_ours[part]:
                getattr(os, "fdatasync", os.fsync)(descriptor)
        finally:
            os.close(descriptor)
        self._sizes[part] = size
        return self._is_ours[part]


def _is_of_this_host(beginning: bytes) -> bool:
    header = decode(beginning.partition(b"\n")[0])
    return header is not None and header.get("host") == socket.gethostname()
