"""Watches the process a companion works for, without being able to disturb it.

Not by a pipe, which forked workers would hold open; not by the parent-death signal, which follows
the thread that started us. Linux gives a descriptor that becomes readable when a process ends.
"""

from __future__ import annotations

import contextlib
import os
import sys

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
