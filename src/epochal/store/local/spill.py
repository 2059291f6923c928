"""Columns that are too large for memory, in a file that no other process sees."""

from __future__ import annotations

import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# Columns of a part go to the file in pieces of about this size; of many parts, in smaller ones.
PIECE_BYTES = 4 * 1024 * 1024
_SMALLEST_PIECE = 64 * 1024
# What all parts of a run keep in memory together, as long as pieces are not too small.
_ALL_PARTS_BYTES = 128 * 1024 * 1024


class SpillFile:
    """Arrays on disk, in a folder or where the system keeps temporary files.

    The file has no name on most systems, and goes with this object or with the process. Several
    threads may use it, and all parts of a run: a thousand of them would reach the limit of open
    files.
    """

    def __init__(self, folder: Path | None = None, *, piece_bytes: int = PIECE_BYTES) -> None:
        self.piece_bytes = piece_bytes
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.size = 0

    def share_among(self, num_parts: int) -> None:
        """Make pieces so small that what so many parts have in memory stays bounded."""
        share = _ALL_PARTS_BYTES // max(num_parts, 1)
        self.piece_bytes = max(min(share, PIECE_BYTES), _SMALLEST_PIECE)

    def append(self, *columns: NDArray[Any]) -> int:
        """Write arrays one after the other; returns where they begin.

        Raises ``OSError`` where there is no room; nothing is added then.
        """
        with self._lock:
            file = self._opened()
            file.seek(self.size)
            size = self.size
            for column in columns:
                size += file.write(np.ascontiguousarray(column).data)
            file.flush()
            start, self.size = self.size, size
        return start

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Read numbers of eight bytes back, as many as an array has room for."""
        assert self._file is not None
        with self._lock:
            self._file.seek(start)
            self._file.readinto(into.data.cast("B"))  # type: ignore[attr-defined]

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        return self._file
