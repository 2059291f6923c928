"""What a command printed, kept in the run that it started: in a file of the journal of its own."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any

from epochal.journal.header import part_header, read_identity
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode, now
from epochal.journal.writer import JournalWriter
from epochal.run.capture import MAX_CAPTURED_BYTES

WRITER = "launcher"
# What is printed before the run begins: imports that fail, warnings.
_MOST_WAITING = 2000
_FULL = "[epochal] kept output is full; the rest is not kept"


class KeptOutput:
    """Lines of a command; they wait until its run is known. Safe to call from several threads."""

    def __init__(self, limit_bytes: int = MAX_CAPTURED_BYTES) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._left = limit_bytes
        self._writer: JournalWriter | None = None
        self._keeps = True

    def line(self, stream: str, text: str) -> None:
        """Keep a line that was printed on ``stdout`` or ``stderr``."""
        with self._lock:
            if not self._keeps or self._left <= 0:
                return
            self._left -= len(text) + 1
            if self._left <= 0:
                stream, text = "stderr", _FULL
            self._add({"log": "message", "t": now(), "level": stream, "text": text})

    def say(self, level: str, text: str) -> None:
        """Keep a sentence about the command."""
        with self._lock:
            self._add({"log": "message", "t": now(), "level": level, "text": text})

    def event(self, name: str, **facts: Any) -> None:
        """Keep an event of the command."""
        with self._lock:
            self._add({"log": "event", "t": now(), "name": name, **facts})

    def belongs_to(self, folder: RunFolder, attempt: int, *, keeps: bool) -> None:
        """From now on write to this run; ``keeps=False`` when it keeps its output itself."""
        with self._lock:
            self._close()
            self._keeps = keeps
            self._writer = JournalWriter(
                folder,
                writer=WRITER,
                attempt=attempt,
                header=lambda part: part_header(part, identity=read_identity(folder), rank=0),
                on_fault=lambda _sentence: None,
            )
            with contextlib.suppress(OSError):  # the first append tries again, and counts
                self._writer.open()
            while self._waiting:
                record = self._waiting.popleft()
                if keeps or record["log"] != "message":
                    self._append(record)

    def close(self) -> None:
        """End the file."""
        with self._lock:
            self._close()

    def _add(self, record: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(record)
        else:
            self._append(record)

    def _append(self, record: dict[str, Any]) -> None:
        assert self._writer is not None
        if self._writer.folder.journal.is_dir():  # a run that was deleted is not brought back
            self._writer.append(encode(record), now())

    def _close(self) -> None:
        if self._writer is None:
            return
        reason = "the command's output ends with it"
        self._append({"log": "finish", "t": now(), "status": "finished", "reason": reason})
        if self._writer.folder.journal.is_dir():
            self._writer.close()
        self._writer = None
