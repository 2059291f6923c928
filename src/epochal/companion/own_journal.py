"""The files a companion writes, and bringing those of the run to the disk itself."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from epochal.companion.config import CompanionConfig
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import decode, encode, now
from epochal.journal.process import part_header, read_identity
from epochal.journal.writer import JournalWriter
from epochal.records import HEARTBEAT_EVERY_S

HEARTBEAT_LOOK_S = 5.0
SYNC_EVERY_S = 5.0
_HEADER_BYTES = 64 * 1024
# Smaller than a loop's: sealed, a part is a tenth, and telemetry is written for weeks.
_PART_BYTES = 8 * 1024 * 1024


class OwnJournal:
    """A file of telemetry, named after the node, or of findings.

    It is made with the first record, and again after ``close``.

    A disk that cannot be written is the training's trouble to report: here records are counted as
    lost by the journal itself. A run that was deleted is not brought back.
    """

    def __init__(
        self,
        config: CompanionConfig,
        *,
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._name = config.own_writer if name is None else name
        self._writer: JournalWriter | None = None
        self._lock = threading.RLock()  # threads of sinks, alerts and sensors report faults here
        self._clock = clock
        self._wrote_at_s = clock()

    def open(self) -> None:
        """Make the file now, for one that means something without records: nothing was found."""
        if self._config.folder.journal.is_dir():
            self._opened()

    def write(self, kind: str, fields: Mapping[str, Any], *, at: float | None = None) -> None:
        """Append one record; ``at`` in Unix seconds, now if left out."""
        if not self._config.folder.journal.is_dir():
            return
        self._wrote_at_s = self._clock()
        moment = now() if at is None else at
        record = encode({"log": kind, "t": moment, **fields})
        with self._lock:
            self._opened().append(record, moment)

    def event(self, name: str, **facts: Any) -> None:
        self.write("event", {"name": name, **facts})

    def close(self, **facts: Any) -> None:
        """End the file with a ``finish`` record, so that it can be sealed."""
        with self._lock:
            if self._writer is None:
                return
            self.write("finish", {"status": "finished", "reason": "the run has ended", **facts})
            if self._config.folder.journal.is_dir():
                self._writer.close()
            self._writer = None

    def sync(self) -> None:
        """Bring what was written to the disk; a disk that fails is recorded, and tried again."""
        writer = self._writer
        if writer is not None and self._config.folder.journal.is_dir():
            with contextlib.suppress(OSError):
                writer.sync()

    def beat(self) -> None:
        """Record that the training process is alive, when nothing else was written for a while.

        Readers on other machines cannot see the process. Telemetry says as much every ten seconds
        of the first day, so that heartbeats begin with the second.
        """
        idle_s = self._clock() - self._wrote_at_s
        if idle_s >= HEARTBEAT_EVERY_S - 0.5:  # ticks come a moment early or late
            # Whole seconds take next to nothing to store.
            self.write("heartbeat", {}, at=float(math.floor(time.time())))

    def _opened(self) -> JournalWriter:
        if self._writer is None:
            self._writer = JournalWriter(
                self._config.folder,
                writer=self._name,
                attempt=self._config.attempt,
                header=self._header,
                on_fault=lambda _sentence: None,
                part_bytes=_PART_BYTES,
            )
            with contextlib.suppress(OSError):  # the first append tries again, and counts
                self._writer.open()
        return self._writer

    def _header(self, part: PartName) -> bytes:
        """The first record of a part, as the training's own files begin."""
        return part_header(
            part, identity=read_identity(self._config.folder), rank=self._config.rank
        )


class Durable:
    """Syncs the parts of a run that were written on this machine and have grown since.

    When the disk begins to fail, ``on_failure`` gets a part that it did not store, and why. The
    process that writes it meets the same error at its next sync, and writes the part again.
    """

    def __init__(
        self,
        folder: RunFolder,
        on_failure: Callable[[PartName, str], object] = lambda _part, _reason: None,
    ) -> None:
        self._folder = folder
        self._on_failure = on_failure
        self._is_failing = False
        self._sizes: dict[PartName, int] = {}
        self._is_ours: dict[PartName, bool] = {}

    def sync(self) -> int:
        """Sync new data to the disk; returns the number of parts."""
        if os.name == "nt":
            return 0  # only the process that writes may ask for it there
        synced, has_failed = 0, False
        for part in self._folder.parts():
            path = self._folder.part_path(part)
            try:
                synced += self._sync_part(part, path)
            except FileNotFoundError:  # sealed meanwhile
                self._sizes.pop(part, None)
            except OSError as error:
                self._sizes.pop(part, None)
                has_failed = True
                if not self._is_failing:
                    self._is_failing = True
                    self._on_failure(part, error.strerror or str(error))
        self._is_failing = has_failed
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


def run_title(folder: RunFolder) -> str:
    """What people call a run: project and name."""
    said = read_identity(folder)
    return f"{said.get('project')}/{said.get('name')}" if said else folder.path.name
