"""Copies what a program prints into its run, on request: ``init(capture=True)``.

Only text that goes through ``sys.stdout`` and ``sys.stderr`` is seen, line by line; what C code
writes to the terminal directly is not. The copy is bounded: after the limit one record says so and
copying ends.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TextIO

MAX_CAPTURED_BYTES = 8 * 1024 * 1024
_MAX_LINE_CHARACTERS = 64 * 1024


class Tee:
    """A text stream that writes to another one and passes whole lines to ``keep``."""

    def __init__(self, stream: TextIO, keep: Callable[[str], None]) -> None:
        self._stream = stream
        self._keep = keep
        self._rest = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Print, and keep the lines that are complete."""
        written = self._stream.write(text)
        with self._lock:
            *lines, rest = (self._rest + text).split("\n")
            # A bar that is redrawn for hours must not pile up here.
            self._rest = _last_state(rest) + ("\r" if rest.endswith("\r") else "")
        for line in lines:
            self._keep(_last_state(line))
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """Print several texts."""
        for line in lines:
            self.write(line)

    def end(self) -> None:
        """Keep an unfinished last line."""
        if self._rest:
            self._keep(_last_state(self._rest))
            self._rest = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _last_state(line: str) -> str:
    """Return the last state of a line: a progress bar redraws one line many times."""
    return line.rstrip("\r").rpartition("\r")[2][:_MAX_LINE_CHARACTERS]


class Capture:
    """Both streams of a process, copied through ``keep(stream_name, line)`` until stopped."""

    def __init__(
        self, keep: Callable[[str, str], None], limit_bytes: int = MAX_CAPTURED_BYTES
    ) -> None:
        self._keep = keep
        self._left = limit_bytes
        _STREAMS.add(self)

    def stop(self) -> None:
        """Stop copying; the last one to stop restores the streams."""
        _STREAMS.remove(self)

    def take(self, stream: str, line: str) -> None:
        """Keep a line up to the limit."""
        if self._left <= 0:
            return
        kept = line[: self._left]
        self._left -= len(kept) + 1
        self._keep(stream, kept)
        if self._left <= 0:
            self._keep("stderr", "[epochal] captured output is full; the rest is not kept")


class _Streams:
    """The streams of this process, wrapped once for all runs that keep what is printed."""

    def __init__(self) -> None:
        self._captures: list[Capture] = []
        self._tees: list[tuple[str, Tee, TextIO]] = []
        self._busy = threading.local()

    def add(self, capture: Capture) -> None:
        self._captures.append(capture)
        for name in ("stdout", "stderr"):
            # Also for a later run: the program may have replaced a stream since.
            if not isinstance(stream := getattr(sys, name), Tee):
                tee = Tee(stream, partial(self._take, name))
                setattr(sys, name, tee)
                self._tees.append((name, tee, stream))

    def remove(self, capture: Capture) -> None:
        """Remove one run; after the last, restore streams that nobody has wrapped since."""
        for _, tee, _ in self._tees:
            tee.end()
        self._captures.remove(capture)
        if self._captures:
            return
        for name, tee, before in reversed(self._tees):
            if getattr(sys, name) is tee:
                setattr(sys, name, before)
        self._tees.clear()

    def _take(self, stream: str, line: str) -> None:
        if getattr(self._busy, "now", False):
            return  # a line printed by the keeping itself
        self._busy.now = True
        try:
            for capture in list(self._captures):
                capture.take(stream, line)
        finally:
            self._busy.now = False


_STREAMS = _Streams()
