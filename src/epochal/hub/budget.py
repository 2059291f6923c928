"""How much a hub stores: in all, of each writer, and never the last of its disk.

What does not fit is refused with a sentence, and stays where it was recorded. Nothing is deleted
here.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from epochal.errors import EpochalError
from epochal.format import format_bytes
from epochal.hub.ledger import Ledger

# Kept free for what else the machine does, and for the hub's own files.
RESERVE_BYTES = 256 << 20
_MEASURE_EVERY_S = 600.0
# Between two looks at the disk, what was charged counts as stored.
_LOOK_EVERY_S = 1.0
_STORE_EVERY_S = 5.0


class FullError(EpochalError):
    """A budget of bytes is spent: the shipper keeps its records and tries later."""


class Budget:
    """The limits of one hub in bytes; None for no limit."""

    def __init__(
        self,
        root: Path,
        ledger: Ledger,
        *,
        most: float | None = None,
        most_per_writer: float | None = None,
        reserve: int = RESERVE_BYTES,
        clock: Callable[[], float] = time.monotonic,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._most = most
        self._most_per_writer = most_per_writer
        self._reserve = reserve
        self._clock = clock
        self._free = free
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        self._measured_s = -math.inf
        self._looked_s, self._left = -math.inf, 0
        self._stored_s = clock()
        self._used = 0
        self._by_writer = ledger.bytes_by_writer()
        self._unstored: dict[str, int] = {}
        self._writers: dict[str, str] = {}

    def charge(self, run_id: str, project: str, num_bytes: int) -> None:
        """Count bytes that are about to be stored; raises ``FullError`` when they do not fit."""
        with self._lock:
            self._check_disk(num_bytes)
            writer = self._writer_of(run_id)
            had = self._by_writer.get(writer, 0)
            if self._most_per_writer is not None and had + num_bytes > self._most_per_writer:
                raise FullError(
                    f"{format_bytes(num_bytes)} more do not fit: {writer!r} has sent"
                    f" {format_bytes(had)} of its quota of {format_bytes(self._most_per_writer)}."
                    " Delete runs on the hub and empty its trash, or ask who runs it for more."
                )
            self._writers[run_id] = writer
            self._by_writer[writer] = had + num_bytes
            self._used += num_bytes
            self._unstored[run_id] = self._unstored.get(run_id, 0) + num_bytes
            is_due = self._clock() - self._stored_s >= _STORE_EVERY_S
            if is_due:
                self._stored_s = self._clock()
        if is_due:  # it waits for the disk: nobody else does
            self._store()

    def release(self, run_ids: Iterable[str]) -> None:
        """Give the bytes of runs that are no longer stored back to their writers."""
        self._store()
        with self._lock:
            self._ledger.clear_bytes(run_ids)
            self._by_writer = self._ledger.bytes_by_writer()
            self._writers.clear()  # others may send these runs from now on
            self._measured_s = -math.inf

    def close(self) -> None:
        """Store what was counted."""
        self._store()

    def _check_disk(self, num_bytes: int) -> None:
        now_s = self._clock()
        if now_s - self._looked_s >= _LOOK_EVERY_S or self._left - num_bytes < self._reserve:
            self._looked_s, self._left = now_s, self._free(self._root)
        self._left -= num_bytes
        if self._left < self._reserve:
            raise FullError("the disk of the hub is full: delete runs there, then empty the trash.")
        if self._most is None:
            return
        if self._clock() - self._measured_s >= _MEASURE_EVERY_S:
            # Runs are deleted and sealed meanwhile: what is there is measured again now and then.
            self._used, self._measured_s = size_of(self._root), self._clock()
        if self._used + num_bytes > self._most:
            raise FullError(
                f"{format_bytes(num_bytes)} more do not fit: the hub stores"
                f" {format_bytes(self._used)} of at most {format_bytes(self._most)}. Delete runs"
                " there, then empty the trash."
            )

    def _writer_of(self, run_id: str) -> str:
        return self._writers.get(run_id) or self._ledger.writer_of(run_id) or "unknown"

    def _store(self) -> None:
        with self._storing:
            with self._lock:
                counted, self._unstored = self._unstored, {}
            if not counted:
                return
            with contextlib.ExitStack() as undo:
                undo.callback(self._count_again, counted)
                self._ledger.add_bytes(counted)
                undo.pop_all()

    def _count_again(self, counted: Mapping[str, int]) -> None:
        """Keep what could not be stored."""
        with self._lock:
            for run_id, num_bytes in counted.items():
                self._unstored[run_id] = self._unstored.get(run_id, 0) + num_bytes


def size_of(root: Path) -> int:
    """The sizes of all files below a folder; links are not followed."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # sealed or removed meanwhile
    return total
