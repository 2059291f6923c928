"""Appends lines to one writer's journal file, and continues after faults of the file system.

``append`` is one ``os.write`` on an ``O_APPEND`` descriptor. The kernel appends whole lines in
order, so threads need no lock, and written lines survive the end of the process. The number of the
descriptor never changes: a rotation replaces the file behind it with ``dup2``. So a thread that is
about to write can never use a closed or reused number.

Faults never reach the caller. A line that cannot be written is counted, and ``on_fault`` is called
for the first loss in a row. Every later call tries again. The first one that succeeds writes an
``event`` record with the number of lost records in front of its own line. The writer enters the
slow path by making the descriptor invalid, so the fast path needs no check for it.

The program around may close any descriptor and get its number for a file of its own. Ours has a
high number, which nobody is given soon, and before a write it is looked at once a millisecond.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from epochal.base.atomic_file import sync_folder, sync_folders_above, sync_or_rewrite
from epochal.journal.deleted import DeletedParts, OrphanedPart
from epochal.journal.durable import UnsyncedParts
from epochal.journal.fork import call_in_children
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode, now
from epochal.journal.regular_file import close_if_same, file_id, status_if_same, write_whole

PART_BYTES = 64 * 1024 * 1024
_write = os.write
_NO_DESCRIPTOR = -1
# A file that vanished or was replaced is noticed at most this late.
_CHECK_EVERY_S = 1.0
# So many full parts may wait for a flush; then the oldest is brought to the disk without one.
_MOST_LEFT = 8
# Descriptors are numbered from 0 on, so that the last numbers are given away last.
_HIGHEST_DESCRIPTOR, _LAST_NUMBERS = 1024, 64
# These faults are of the disk, not of the file: another file would meet them too.
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT})
_PARTLY_WRITTEN = "only part of a record fitted"
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

HeaderFor = Callable[[PartName], bytes]


class JournalWriter:
    """One writer of one attempt: a sequence of part files, appended and never rewritten.

    ``header`` gives the first line of a part. ``on_fault`` is told a sentence when records begin to
    be lost, and again when a file had to be replaced. ``restore`` is called after the run folder
    had to be made anew. ``on_tick``, which can be set, is called at most once a second, between two
    records.
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
        self._header_bytes = 0
        self._deleted = DeletedParts()
        self._left = UnsyncedParts()
        self._sync_lock = threading.RLock()
        self._has_failed = False  # fsync of the part being written, which could not be left since
        self._is_unsynced = False
        self._folder_is_synced = self._journal_is_synced = False
        self._size = 0
        self._sure_at = 0.0
        self._looked_at = 0.0
        self._check_at = 0.0
        self._is_due = False
        self._torn = False
        self._reason = ""
        self._retry_open_at = 0.0
        self._closed = False
        self._wants_new_attempt = False
        self.on_tick: Callable[[], object] | None = None
        call_in_children(self)

    @property
    def path(self) -> Path:
        """The part being written."""
        return self.folder.part_path(self.name)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def open(self, *, new_attempt: bool = False) -> None:
        """Create the first part; the only call here that raises for an environmental fault.

        ``new_attempt``: should another process have begun this attempt already, take the next one.
        """
        with self._lock:
            self._wants_new_attempt = new_attempt
            self._open_part()
            self._wants_new_attempt = False

    def append(self, line: bytes, at: float) -> None:
        """Write one line; ``at`` is the time of the call in Unix seconds. Never raises OSError."""
        if at != self._sure_at:  # times are whole milliseconds
            self._make_sure(at)
        try:
            written = _write(self._fd, line)
        except OSError as error:
            self._append_slowly(line, error)
            return
        if written != len(line):
            self._begin_fault(line, written)
        self._size = size = self._size + written
        if self._is_due or size >= self._part_bytes:
            try:
                self._look_after(at)
            except RecursionError:  # the line is down, and the next call looks after the file
                self._is_due = True

    def close(self) -> None:
        """Close the file; lines appended afterwards are not written."""
        with self._lock:
            if self._closed:
                return
            if self.lost or self._torn:
                self._write_held(b"")
            if self._held != _NO_DESCRIPTOR and not self._file_is_ours():
                self._replace_vanished()
            self.lost_total += self._deleted.finish(self._write_again) + self._count_nameless()
            self._closed = True
            self._let_go()

    def _make_sure(self, at: float) -> None:
        """Before a write: leave a descriptor that does not lead to our file any more.

        The file itself is looked after once a second, after the write.
        """
        if self._held != _NO_DESCRIPTOR and self._status_of_ours() is None:
            with self._lock:  # another thread may be about to change the file
                if self._held != _NO_DESCRIPTOR and self._status_of_ours() is None:
                    self._replace_vanished()
        self._sure_at = at
        # Two bounds: a clock that was set back must not put the next look off.
        if at >= self._check_at or at < self._looked_at:
            self._is_due = True

    def append_after_close(self, *lines: bytes) -> None:
        """Write lines after the last record, in a part of their own; the last one ends the run."""
        late = JournalWriter(
            self.folder,
            writer=self.name.writer,
            attempt=self.name.attempt,
            header=self._header,
            on_fault=self._on_fault,
        )
        try:
            late.open()
        except OSError as error:
            self._on_fault(f"{late.path} cannot be written: {_say(error)}")
            return
        for line in lines:
            late.append(line, now())
        late.close()

    def sync(self) -> None:
        """Wait until every line written so far is on the disk itself; raises OSError if it is not.

        A part that the disk failed to take is reported, recorded as an event and written again, in
        a new file under its name. The error is raised if that fails as well, and then at each call
        until it succeeds.
        """
        with self._sync_lock:
            if self._closed:
                return
            try:
                reason = self._write_number_of_lost()
                self._left.write_again(self.folder, self._adopt)
                if self._sync_parts() is not None:
                    self._left.write_again(self.folder, self._adopt)
                    self._sync_held()
                self._sync_folders()
            except OSError as error:
                self._record_failure(error)
                if error.errno is not None and error.filename is None:
                    error.filename = str(self.path)
                raise
            if reason is not None:
                raise OSError(
                    f"{self.path} cannot be written: {reason}; {self.lost} records are lost"
                )
            self._is_unsynced = False

    def sync_closed(self) -> None:
        """Like ``sync``, for what was written last, after ``close``; raises OSError."""
        try:
            # A record that fills its part is followed by a new one.
            sync_folder(self.folder.journal)
            for part in range(max(0, self.name.part - 1), self.name.part + 1):
                with contextlib.suppress(FileNotFoundError):  # sealed meanwhile
                    sync_or_rewrite(self.folder.part_path(self.name._replace(part=part)))
        except FileNotFoundError:
            return
        except OSError as error:
            self._record_failure(error)
            raise

    def move_to(self, folder: RunFolder, attempt: int) -> bool:
        """Move this writer's parts to another run folder; writing continues in them."""
        with self._lock:
            taken = [p.part for p in folder.parts() if p[:2] == (self.name.writer, attempt)]
            first_free = max(taken, default=-1) + 1
            try:
                folder.journal.mkdir(parents=True, exist_ok=True)
                for part in range(self.name.part + 1):
                    old = self.name._replace(part=part)
                    new = PartName(old.writer, attempt, part + first_free)
                    with contextlib.suppress(FileNotFoundError):
                        os.rename(self.folder.part_path(old), folder.part_path(new))
            except OSError as error:
                self._on_fault(f"cannot move {self.path} to {folder.path}: {_say(error)}")
                return False
            self.folder = folder
            self.name = PartName(self.name.writer, attempt, self.name.part + first_free)
            self._left.rename(attempt, first_free)
            self._folder_is_synced = self._journal_is_synced = False
            return True

    # -- the disk itself --------------------------------------------------------------------------

    def _sync_parts(self) -> OSError | None:
        """Sync the part being written, then those that were left; what failed is left to rewrite.

        In this order: a part that is left meanwhile is synced as one of the others.
        """
        failure = None
        with self._lock:
            if self._held != _NO_DESCRIPTOR and not self._file_is_ours():
                self._replace_vanished()
            self._deleted.collect(self._write_again)
        try:
            self._sync_held()
        except OSError as error:
            self._record_failure(error)
            failure = error
            with self._lock:
                if self._closed:
                    raise
                self._open_part(has_failed=True)
                self._has_failed = False
                if self.lost:
                    self._fd = _NO_DESCRIPTOR  # their number is still to be written
        left = self._left.sync(self.folder)
        if left is not None:
            self._record_failure(left)
        return failure or left

    def _sync_held(self) -> None:
        if self._has_failed:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.path))
        if self._held == _NO_DESCRIPTOR:
            return
        try:
            os.fsync(self._held)
        except OSError as error:
            self._has_failed = True
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _write_number_of_lost(self) -> str | None:
        """Try to end a fault, so that its records are counted; why that is not possible, if so."""
        with self._lock:
            return self._write_held(b"") if self.lost else None

    def _record_failure(self, error: OSError) -> None:
        """Report once, until a sync succeeds, that the disk fails."""
        if self._is_unsynced:
            return
        self._is_unsynced = True
        reason = _say(error)
        self._on_fault(
            f"the disk failed to store {self.path}: {reason}. Epochal writes the records again now"
            " and at each flush(), which raises OSError until that succeeds."
        )
        self.append(
            encode({"log": "event", "t": now(), "name": "sync-failed", "reason": reason}), now()
        )

    def _adopt(self, part: OrphanedPart) -> None:
        with self._lock:
            self._deleted.adopt(part)

    def _sync_folders(self) -> None:
        """Sync the names of new parts, and once those of the run and of the folders above it."""
        with contextlib.suppress(FileNotFoundError):  # somebody has moved the run
            if not self._journal_is_synced:
                self._journal_is_synced = True  # before: a part may be made meanwhile
                try:
                    sync_folder(self.folder.journal)
                except OSError:
                    self._journal_is_synced = False
                    raise
            if not self._folder_is_synced:
                sync_folder(self.folder.path)
                sync_folders_above(self.folder.path)
                self._folder_is_synced = True

    # -- files ------------------------------------------------------------------------------------

    def _open_part(self, *, carry: bool = False, has_failed: bool = False) -> None:
        """Open a new part behind the descriptor; raises OSError and leaves the old one in place.

        ``carry``: begin it with the records of the old one. Whatever else a deleted file holds, or
        still gets from other threads, is collected from it later. ``has_failed``: the old one is to
        be written again.
        """
        if self._held != _NO_DESCRIPTOR and self._status_of_ours() is None:
            self._forget_descriptor()
        name, fresh = self._create_next()
        old_name, old, left = self.name, _NO_DESCRIPTOR, None
        try:
            header = text = self._header(name)
            if self._held != _NO_DESCRIPTOR:
                old = os.dup(self._held)
                left = OrphanedPart(old, copied=self._header_bytes)
                text += left.take() if carry else b""
            write_whole(fresh, text)
        except OSError:
            os.close(fresh)
            with contextlib.suppress(OSError):
                self.folder.part_path(name).unlink()
            if left is not None:
                left.close()
            raise
        if self._held == _NO_DESCRIPTOR:
            self._held = fresh
        else:
            os.dup2(fresh, self._held, inheritable=False)
            os.close(fresh)
        self._file_id = file_id(self._held)
        self.name = name
        self._header_bytes = len(header)
        self._size = len(text)
        self._torn = False
        self._fd = self._held
        if left is not None and left.is_deleted():
            self._deleted.adopt(left)
        elif left is not None:
            self._left.add(old_name, old, has_failed=has_failed)

    def _create(self, name: PartName) -> int:
        if self.folder.sealed_path(name).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._journal_is_synced = False
        return _with_high_number(os.open(self.folder.part_path(name), _OPEN_FLAGS, 0o644))

    def _create_next(self) -> tuple[PartName, int]:
        """Create the first part name that is free; O_EXCL, so two writers never share a file."""
        name = self.name if self._held == _NO_DESCRIPTOR else _next(self.name)
        made_folder = False
        while True:
            try:
                return name, self._create(name)
            except FileExistsError:
                if self._wants_new_attempt:
                    name = name._replace(attempt=name.attempt + 1)
                else:
                    name = _next(name)
            except FileNotFoundError:
                if made_folder:
                    raise
                self.folder.journal.mkdir(parents=True, exist_ok=True)
                self._folder_is_synced = False
                self._restore()
                made_folder = True

    def _look_after(self, at: float) -> None:
        with self._lock:
            self._is_due = False
            self._looked_at = at
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
                if len(self._left) > _MOST_LEFT:
                    self._sync_oldest()
            self._deleted.collect(self._write_again)
            if self.on_tick is not None:
                self.on_tick()

    def _sync_oldest(self) -> None:
        """Bring the part that was left first to the disk, where nobody flushes; never raises."""
        if not self._sync_lock.acquire(blocking=False):
            return  # a thread that syncs does this as well
        try:
            failure = self._left.sync(self.folder, at_most=1)
            if failure is not None:
                self._record_failure(failure)
        finally:
            self._sync_lock.release()

    def _file_is_ours(self) -> bool:
        """Whether the descriptor still leads to our file, and that file still has a name."""
        status = self._status_of_ours()
        return status is not None and status.st_nlink > 0

    def _status_of_ours(self) -> os.stat_result | None:
        return status_if_same(self._held, self._file_id)

    def _let_go(self) -> None:
        close_if_same(self._held, self._file_id)
        self._fd = self._held = _NO_DESCRIPTOR
        self._deleted.close()
        self._left.close()

    def _forget_descriptor(self) -> None:
        """The descriptor is not ours any more, so not ours to close."""
        self._left.add_by_name(self.name, self.folder, self._file_id, has_failed=self._has_failed)
        self._has_failed = False
        self._fd = self._held = _NO_DESCRIPTOR
        self.name = _next(self.name)

    # -- deleted files ----------------------------------------------------------------------------

    def _replace_vanished(self) -> None:
        """The file was deleted or its descriptor taken: go on in a new part."""
        gone = self.path
        if self._status_of_ours() is None:
            self._forget_descriptor()
            made = self._try_open() is None
            what = "lost its file descriptor"
        else:
            made = self._make_anew()
            what = "was removed"
        if made:
            self._on_fault(f"{gone} {what} while the run was writing it; going on in {self.path}.")

    def _make_anew(self) -> bool:
        """Move from a deleted file to a new part; False when none can be made.

        Until that works, writing goes on in the deleted file: its records are still there to copy.
        """
        try:
            self._open_part(carry=True)
        except OSError as error:
            self._on_fault(
                f"{self.path} was removed while the run was writing it, and cannot be made anew:"
                f" {_say(error)}. Trying again every second."
            )
            return False
        return True

    def _write_again(self, line: bytes) -> bool:
        """Write a line that went to a deleted file; whether it is down."""
        if self._write_held(line) is None:
            return True
        self._fd = _NO_DESCRIPTOR
        return False

    def _count_nameless(self) -> int:
        """How many records are in a file that was deleted and could not be written again."""
        if self._status_of_ours() is None:
            return 0
        part = OrphanedPart(self._held, copied=self._header_bytes)
        return len(part.lines(ended=True)) if part.is_deleted() else 0

    # -- faults -----------------------------------------------------------------------------------

    def _begin_fault(self, line: bytes, written: int) -> None:
        """Only the beginning of a line was written: the next write starts with a newline."""
        with self._lock:
            self._fd = _NO_DESCRIPTOR
            self._torn = True
            if _is_whole(written, len(line)):
                return
            reason = self._write_held(line)  # the file may be full, but not the disk
            if reason is not None:
                self._count_loss(reason)

    def _append_slowly(self, line: bytes, error: OSError) -> None:
        with self._lock:
            if self._closed:
                return
            reason = self._make_writable(error)
            if reason is None:
                reason = self._write_held(line)
            if reason is not None:
                self._count_loss(reason)

    def _make_writable(self, error: OSError) -> str | None:
        """None when writing is worth a try, else why it is not."""
        if self._held == _NO_DESCRIPTOR or self._status_of_ours() is None:
            return self._try_open()
        if self._fd == _NO_DESCRIPTOR:
            return None  # already in the slow path: try the same file again
        if error.errno == errno.EBADF and self._file_is_ours():
            return None  # another thread has ended the fault since
        self._fd = _NO_DESCRIPTOR
        return _say(error) if error.errno in _DISK_FAULTS else self._try_open()

    def _try_open(self) -> str | None:
        """Start a new part, at most once a second; None, or why it cannot be."""
        at = time.monotonic()
        if at < self._retry_open_at and self._reason:
            return self._reason
        self._retry_open_at = at + _CHECK_EVERY_S
        try:
            self._open_part()
        except OSError as error:
            return _say(error)
        return None

    def _write_held(self, line: bytes) -> str | None:
        """Write after a fault; None when the line is down, else why it is not."""
        try:
            return self._write_with_notice(line)
        except OSError as error:
            if error.errno in _DISK_FAULTS:
                return _say(error)
        reason = self._try_open()
        if reason is not None:
            return reason
        try:
            return self._write_with_notice(line)
        except OSError as error:
            return _say(error)

    def _write_with_notice(self, line: bytes) -> str | None:
        if self._status_of_ours() is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        notice = (b"\n" if self._torn else b"") + self._loss_notice()
        written = os.write(self._held, notice + line)
        self._size += written
        self._torn = written != len(notice) + len(line)
        if notice and _is_whole(written, len(notice)):
            self.lost = 0  # said; it must not be said again should the line itself be cut
        if not _is_whole(written, len(notice) + len(line)):
            return _PARTLY_WRITTEN
        self._reason = ""
        self._retry_open_at = 0.0  # this part takes records, so the next fault is a new one
        if not self._torn:
            self._fd = self._held
        return None

    def _loss_notice(self) -> bytes:
        if not self.lost:
            return b""
        return encode(
            {
                "log": "event",
                "t": now(),
                "name": "records-lost",
                "count": self.lost,
                "reason": self._reason,
            }
        )

    def _count_loss(self, reason: str) -> None:
        first = self.lost == 0
        self.lost += 1
        self.lost_total += 1
        self._reason = reason
        if first:
            self._on_fault(
                f"cannot write {self.path}: {reason}. Training goes on; records are being lost"
                " until this ends, and the run will say how many."
            )

    # -- fork -------------------------------------------------------------------------------------

    def continue_in_child(self) -> None:
        """After a fork: the child gets a file of its own, made when it first logs."""
        if self._closed:
            return
        self._lock, self._sync_lock = threading.RLock(), threading.RLock()
        self._let_go()
        self.on_tick = None
        self.name = PartName(f"child-{os.getpid()}", self.name.attempt, 0)
        self.lost = self.lost_total = 0
        self._reason = ""
        self._retry_open_at = 0.0
        self._has_failed = self._is_unsynced = False
        self._journal_is_synced = False


def _with_high_number(descriptor: int) -> int:
    """Give an open file one of the last numbers, if one is free."""
    lowest = min(os.sysconf("SC_OPEN_MAX"), _HIGHEST_DESCRIPTOR) - _LAST_NUMBERS
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(lowest, 0))
    except OSError:
        return descriptor
    os.close(descriptor)
    return high


def _is_whole(written: int, length: int) -> bool:
    """Whether at most the final newline is missing, which the next write begins with."""
    return written >= length - 1


def _next(name: PartName) -> PartName:
    return name._replace(part=name.part + 1)


def _say(error: OSError) -> str:
    return error.strerror or str(error)
