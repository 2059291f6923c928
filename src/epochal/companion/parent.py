"""Watches the process a companion works for, without being able to disturb it.

Not by a pipe, which forked workers would hold open; not by the parent-death signal, which follows
the thread that started us. Linux gives a descriptor that becomes readable when a process ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import time

from epochal.journal.process import liveness, process_identity


class ParentWatch:
    """One process by number and start time; ``descriptor`` can be polled for its end, or is None.

    Without ``started`` the process that has the number now is meant.
    """

    def __init__(self, pid: int, *, started: float | None = None) -> None:
        self.pid = pid
        self._identity = process_identity(pid)
        if started is not None:
            self._identity["pid_start"] = started
        self.descriptor = _descriptor(pid) if self.is_alive() else None
        # It may have ended, and its number been taken, between the look and the opening.
        if not self.is_alive():
            self.close()

    def is_alive(self) -> bool:
        """Whether it runs; a process that waits to be collected does not."""
        return self._identity["pid_start"] is not None and liveness(self._identity) == "alive"

    def close(self) -> None:
        """Give the descriptor back."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _descriptor(pid: int) -> int | None:
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an older kernel, or a sandbox that forbids it
            return os.pidfd_open(pid)
    return None


_CHUNK_BYTES = 4096


class Waker:
    """Waits on descriptors; a byte that arrives means "look now" and nothing else."""

    def __init__(self, parent: int | None, *, wake_fd: int | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_fd = _readable_stdin() if wake_fd is None else wake_fd
        self._parent = parent
        for descriptor in (self._wake_fd, parent):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Sleep for at most so long; whether something rang."""
        if not self._selector.get_map():
            time.sleep(seconds)  # nothing to wait on, which not every system takes for an answer
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd == self._wake_fd and not _drain(key.fd):
                self._selector.unregister(key.fd)  # the other end is closed: it would ring for ever
            elif key.fd == self._parent:
                self._selector.unregister(key.fd)
        return bool(ready)

    def close(self) -> None:
        """Let the descriptors go; they stay open."""
        self._selector.close()


def _drain(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, _CHUNK_BYTES))
    except OSError:
        return False


def _readable_stdin() -> int | None:
    """Standard input, if the system can wait on it and it is not a terminal."""
    if os.name == "nt" or sys.stdin is None or sys.stdin.isatty():
        return None
    try:
        descriptor = sys.stdin.fileno()
        with selectors.DefaultSelector() as probe:
            probe.register(descriptor, selectors.EVENT_READ)
    except (OSError, ValueError):  # closed, or a plain file, which cannot be waited on
        return None
    return descriptor
