"""Sleeps until the parent has ended, somebody knocks on standard input, or time is up."""

from __future__ import annotations

import os
import selectors
import sys
import time

_CHUNK_BYTES = 4096


class Waker:
    """Waits on descriptors; a knock carries no meaning but "look now"."""

    def __init__(self, parent: int | None, *, knocks: int | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._knocks = _readable_stdin() if knocks is None else knocks
        self._parent = parent
        for descriptor in (self._knocks, parent):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Sleep for at most so long; whether something rang."""
        if not self._selector.get_map():
            time.sleep(seconds)  # nothing to wait on, which not every system takes for an answer
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd == self._knocks and not _drain(key.fd):
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
    """Standard input, where the system can wait on it and it is no terminal of somebody else's."""
    if os.name == "nt" or sys.stdin is None or sys.stdin.isatty():
        return None
    try:
        descriptor = sys.stdin.fileno()
        with selectors.DefaultSelector() as probe:
            probe.register(descriptor, selectors.EVENT_READ)
    except (OSError, ValueError):  # closed, or a plain file, which cannot be waited on
        return None
    return descriptor
