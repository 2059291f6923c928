"""Columns that are too large for memory, in a file that no other process sees."""

from __future__ import annotations

import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# Columns of a part go to the file in pieces of about this size.
PIECE_BYTES = 4 * 1024 * 1024


class SpillFile:
    """Arrays on disk, in a folder or where the system keeps temporary files.

    The file has no name on most systems, and goes with this object or with the process. Several
    threads may use it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.size = 0

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
