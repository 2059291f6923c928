"""Appends lines to one writer's journal file, and outlives what the outside world does to it.

``append`` is one ``os.write`` on an ``O_APPEND`` descriptor: the kernel adds whole lines in order,
so threads need no lock, and what was written survives the death of the process. The descriptor's
number never changes while the writer lives (a rotation swaps the file behind it with ``dup2``), so
a thread that is about to write can never hit a closed or reused number.

Faults never reach the caller. A line that cannot be written is counted; the first loss of a series
is said through ``on_fault``; every later call tries again, and the first one that succeeds writes
an ``event`` record with the number of lost records in front of its own line. The slow path is
entered by making the descriptor invalid, so the fast path carries no check for it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode, now

PART_BYTES = 64 * 1024 * 1024
_NO_DESCRIPTOR = -1
# A file that vanished or was replaced is noticed at most this late.
_CHECK_EVERY_S = 1.0
# These faults are of the disk, not of the file: another file would meet them too.
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT})
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)

HeaderFor = Callable[[PartName], bytes]


class JournalWriter:
    """One writer of one attempt: a sequence of part files, appended and never rewritten.

    ``header`` gives the first line of a part. ``on_fault`` is told a sentence when records begin to
    be lost, and again when a file had to be replaced. ``restore`` is called after the run folder
    had to be made anew.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        writer: str,
        attempt: int,
        header: HeaderFor,
        on_fault: Callable[[str], None],
        restore: Callable[[], None] = lambda: None,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self.folder = folder
        self.name = PartName(writer, attempt, 0)
        self.lost = 0
        self.lost_total = 0
        self._header = header
        self._on_fault = on_fault
        self._restore = restore
        self._part_bytes = part_bytes
        self._lock = threading.RLock()
        self._fd = _NO_DESCRIPTOR
        self._held = _NO_DESCRIPTOR
        self._file_id = (0, 0)
        self._size = 0
        self._check_at = 0.0
        self._torn = False
        self._reason = ""
        self._retry_open_at = 0.0
        self._closed = False
        _register_fork(self)

    @property
    def path(self) -> Path:
        """The part being written."""
        return self.folder.part_path(self.name)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def open(self) -> None:
        """Create the first part; the only call here that raises for an environmental fault."""
        with self._lock:
            self._open_part()

    def append(self, line: bytes, at: float) -> None:
        """Write one line; ``at`` is the time of the call in Unix seconds. Never raises OSError."""
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self._append_slowly(line, at, error)
            return
        if written != len(line):
            self._begin_fault(line, torn=True, reason="only part of a record fitted")
        self._size += written
        if at >= self._check_at or self._size >= self._part_bytes:
            self._look_after(at)

    def close(self) -> None:
        """Close the file; lines appended afterwards are not written."""
        with self._lock:
            if self.lost:
                self._write_held(b"")
            self._closed = True
            self._fd = _NO_DESCRIPTOR
            if self._held != _NO_DESCRIPTOR:
                os.close(self._held)
                self._held = _NO_DESCRIPTOR

    def sync(self) -> None:
        """Wait until what was written is on the disk itself."""
        with contextlib.suppress(OSError):
            if self._held != _NO_DESCRIPTOR:
                os.fsync(self._held)

    def move_to(self, folder: RunFolder, attempt: int) -> bool:
        """Rename this writer's parts into another run folder; writing goes on in them."""
        with self._lock:
            moved = self.name._replace(attempt=attempt)
            try:
                folder.journal.mkdir(parents=True, exist_ok=True)
                for part in range(self.name.part + 1):
                    old, new = self.name._replace(part=part), moved._replace(part=part)
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(self.folder.part_path(old), folder.part_path(new))
            except OSError as error:
                self._on_fault(f"cannot move {self.path} to {folder.path}: {_say(error)}")
                return False
            self.folder, self.name = folder, moved
            return True

    # -- files ------------------------------------------------------------------------------------

    def _open_part(self) -> None:
        """Open a new part behind the descriptor; raises OSError and leaves the old one in place."""
        name, fresh = self._create_next()
        try:
            header = self._header(name)
            _write_whole(fresh, header)
        except OSError:
            os.close(fresh)
            with contextlib.suppress(OSError):
                self.folder.part_path(name).unlink()
            raise
        if self._held == _NO_DESCRIPTOR:
            self._held = fresh
        else:
            os.dup2(fresh, self._held, inheritable=False)
            os.close(fresh)
        status = os.fstat(self._held)
        self._file_id = (status.st_dev, status.st_ino)
        self.name = name
        self._size = len(header)
        self._torn = False
        self._fd = self._held

    def _create_next(self) -> tuple[PartName, int]:
        """Create the first part name that is free; O_EXCL, so two writers never share a file."""
        name = self.name if self._held == _NO_DESCRIPTOR else _next(self.name)
        while True:
            try:
                return name, os.open(self.folder.part_path(name), _OPEN_FLAGS, 0o644)
            except FileExistsError:
                name = _next(name)
            except FileNotFoundError:
                self.folder.journal.mkdir(parents=True)
                self._restore()

    def _look_after(self, at: float) -> None:
        with self._lock:
            self._check_at = at + _CHECK_EVERY_S
            if self._closed or self._fd == _NO_DESCRIPTOR:
                return
            if not self._file_is_ours():
                self._replace_vanished()
            elif self._size >= self._part_bytes:
                try:
                    self._open_part()
                except OSError as error:
                    # The full part goes on growing: a large file is better than a lost record.
                    self._on_fault(f"cannot start a new part beside {self.path}: {_say(error)}")
                    self._part_bytes *= 2

    def _file_is_ours(self) -> bool:
        try:
            status = os.fstat(self._held)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file_id and status.st_nlink > 0

    def _replace_vanished(self) -> None:
        """The file was deleted or its descriptor taken; what it held is copied to a new part."""
        gone = self.path
        saved = self._rescue()
        if not saved:
            self._held = _NO_DESCRIPTOR  # not ours any more, so not ours to close
            self.name = _next(self.name)
        try:
            self._open_part()
            _write_whole(self._held, saved)
            self._size += len(saved)
        except OSError as error:
            self._begin_fault(b"", torn=False, reason=_say(error))
            return
        self._on_fault(f"{gone} was removed while the run was writing it; going on in {self.path}.")

    def _rescue(self) -> bytes:
        """Everything after the header of a deleted file that is still open here."""
        try:
            status = os.fstat(self._held)
            if (status.st_dev, status.st_ino) != self._file_id:
                return b""
            text = os.pread(self._held, status.st_size, 0) if hasattr(os, "pread") else b""
        except OSError:
            return b""
        end_of_header = text.find(b"\n") + 1
        return text[end_of_header:] or b"\n"

    # -- faults -----------------------------------------------------------------------------------

    def _begin_fault(self, line: bytes, *, torn: bool, reason: str) -> None:
        with self._lock:
            self._fd = _NO_DESCRIPTOR
            self._torn = self._torn or torn
            if line:
                self._count_loss(reason)

    def _append_slowly(self, line: bytes, at: float, error: OSError) -> None:
        with self._lock:
            if self._closed:
                return
            if self._held == _NO_DESCRIPTOR:
                reason = self._try_open(at)
            elif self._fd == _NO_DESCRIPTOR:
                reason = None  # already in the slow path: try the same file again
            else:
                reason = _say(error)
                self._fd = _NO_DESCRIPTOR
                if error.errno not in _DISK_FAULTS:
                    reason = self._try_open(at)
            if reason is None:
                reason = self._write_held(line)
            if reason is not None:
                self._count_loss(reason)

    def _try_open(self, at: float) -> str | None:
        if at < self._retry_open_at and self._reason:
            return self._reason
        self._retry_open_at = at + _CHECK_EVERY_S
        if self._held != _NO_DESCRIPTOR and not self._file_is_ours():
            self._held = _NO_DESCRIPTOR
            self.name = _next(self.name)
        try:
            self._open_part()
        except OSError as error:
            return _say(error)
        return None

    def _write_held(self, line: bytes) -> str | None:
        """Write after a fault; None when the line is down, else why it is not."""
        notice = b""
        if self.lost:
            notice = encode(
                {
                    "log": "event",
                    "t": now(),
                    "name": "records-lost",
                    "count": self.lost,
                    "reason": self._reason,
                }
            )
        text = (b"\n" if self._torn else b"") + notice + line
        try:
            written = os.write(self._held, text)
        except OSError as error:
            if error.errno in _DISK_FAULTS:
                return _say(error)
            return self._try_open(now()) or self._write_held_once_more(text)
        if written != len(text):
            self._torn = True
            return "only part of a record fitted"
        self._recovered(written)
        return None

    def _write_held_once_more(self, text: bytes) -> str | None:
        try:
            written = os.write(self._held, text)
        except OSError as error:
            return _say(error)
        if written != len(text):
            self._torn = True
            return "only part of a record fitted"
        self._recovered(written)
        return None

    def _recovered(self, written: int) -> None:
        self.lost = 0
        self._reason = ""
        self._torn = False
        self._size += written
        self._fd = self._held

    def _count_loss(self, reason: str) -> None:
        first = self.lost == 0
        self.lost += 1
        self.lost_total += 1
        self._reason = reason
        if first:
            self._on_fault(
                f"cannot write {self.path}: {reason}. Training goes on; records are being lost until"
                " this ends, and the run will say how many."
            )

    # -- fork -------------------------------------------------------------------------------------

    def _continue_in_child(self) -> None:
        """After a fork: the child gets a file of its own, made when it first logs."""
        self._lock = threading.RLock()
        if self._held != _NO_DESCRIPTOR:
            with contextlib.suppress(OSError):
                os.close(self._held)
        self._fd = self._held = _NO_DESCRIPTOR
        self.name = PartName(f"child-{os.getpid()}", self.name.attempt, 0)
        self.lost = self.lost_total = 0
        self._reason = ""
        self._retry_open_at = 0.0


def _register_fork(writer: JournalWriter) -> None:
    if not hasattr(os, "register_at_fork"):
        return  # platforms without fork
    reference = weakref.ref(writer)

    def after_fork() -> None:
        alive = reference()
        if alive is not None and not alive.closed:
            alive._continue_in_child()

    os.register_at_fork(after_in_child=after_fork)


def _write_whole(descriptor: int, text: bytes) -> None:
    if os.write(descriptor, text) != len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _next(name: PartName) -> PartName:
    return name._replace(part=name.part + 1)


def _say(error: OSError) -> str:
    return error.strerror or str(error)
