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
_STREAMS = ("stdout", "stderr")
_MAX_LINE_CHARACTERS = 64 * 1024


class Tee:
    """A text stream that writes to another one and passes whole lines to ``keep``."""

    def __init__(self, stream: TextIO, keep: Callable[[str], None]) -> None:
        self.stream = stream
        self.is_ended = False
        self._keep = keep
        self._rest = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Print, and keep the lines that are complete."""
        written = self.stream.write(text)
        if self.is_ended:
            return written
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
        """Keep an unfinished last line, and nothing from then on."""
        if self._rest:
            self._keep(_last_state(self._rest))
        self._rest, self.is_ended = "", True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _last_state(line: str) -> str:
    """Return the last state of a line: a progress bar redraws one line many times."""
    return line.rstrip("\r").rpartition("\r")[2][:_MAX_LINE_CHARACTERS]


class Capture:
    """Both streams of a process, copied through ``keep(stream_name, line)`` until stopped.

    Several runs may capture at once: each wraps the streams as it finds them.
    """

    def __init__(
        self, keep: Callable[[str, str], None], limit_bytes: int = MAX_CAPTURED_BYTES
    ) -> None:
        self._keep = keep
        self._left = limit_bytes
        self._busy = threading.local()
        self._tees = {n: Tee(getattr(sys, n), partial(self._take, n)) for n in _STREAMS}
        for name, tee in self._tees.items():
            setattr(sys, name, tee)

    def stop(self) -> None:
        """Stop copying, and restore the streams that nobody has wrapped since."""
        for name, tee in self._tees.items():
            tee.end()
            while isinstance(top := getattr(sys, name), Tee) and top.is_ended:
                setattr(sys, name, top.stream)

    def _take(self, stream: str, line: str) -> None:
        """Keep a line up to the limit."""
        if self._left <= 0 or getattr(self._busy, "now", False):
            return  # full, or a line printed by the keeping itself
        kept = line[: self._left]
        self._left -= len(kept) + 1
        self._busy.now = True
        try:
            self._keep(stream, kept)
            if self._left <= 0:
                self._keep("stderr", "[epochal] captured output is full; the rest is not kept")
        finally:
            self._busy.now = False
