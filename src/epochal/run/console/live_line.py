"""One terminal line that stays below whatever else is printed.

While it is open, other output to the terminal passes through here. The line is erased, the text is
written unchanged, and the line is drawn again after the text has ended its own line. So it is not
drawn during a prompt or below another program's progress bar. Nothing is buffered, wrapped or
reinterpreted. A stream that is not a terminal is never changed.

No thread draws: the line changes when its owner calls ``show``. All methods may be called from any
thread; in a forked child they draw nothing.

The bars of all runs that print on a terminal share its line. They stand side by side, the one
opened last at the right. Where the terminal is too narrow, those opened first are left out.

Limits: output that bypasses the wrapped streams (a child process, C code) overwrites the beginning
of the line. A terminal that becomes narrower may keep a fragment of it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any, TextIO

from epochal.run.console.stream import is_terminal, write_line

_CLEAR = "\r\x1b[2K"
_LEAST_COLUMNS = 36
_BETWEEN = "  "


class LiveLine:
    """The line of one terminal that obeys control codes, from its first bar to its last."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._write = stream.write
        self._flush = stream.flush
        self._texts: dict[object, str] = {}  # by bar
        self._visible = False
        self._at_line_start = True
        self._open = True
        self._lock = RLock()
        self._pid = os.getpid()
        streams = {id(s): s for s in (stream, sys.stdout, sys.stderr) if is_terminal(s)}
        self._taps = [_Tap(self, stream) for stream in streams.values()]
        atexit.register(self._close)

    @classmethod
    def join(cls, stream: TextIO, bar: object) -> LiveLine:
        """Return the line of a stream, with a place for one more bar beside the others."""
        line = _LINES.get(id(stream))
        if line is None or not line.is_open:
            line = _LINES[id(stream)] = cls(stream)
        line._texts = dict.fromkeys([*line._texts, bar], "")
        return line

    def leave(self, bar: object) -> None:
        """Remove a bar; with the last one the line is closed."""
        self._texts.pop(bar, None)
        if self._texts:
            self.show(None, "")
            return
        self._close()
        if _LINES.get(id(self._stream)) is self:
            del _LINES[id(self._stream)]

    @property
    def is_open(self) -> bool:
        """Whether the line may be drawn: not in a forked child, nor on a terminal that has gone."""
        return self._open and self._is_owner()

    @property
    def is_shared(self) -> bool:
        """Whether there are several bars, which only their names tell apart."""
        return len(self._texts) > 1

    def columns_for(self, bar: object, columns: int) -> int | None:
        """How many of a terminal's columns a bar has; None where there is no room for it."""
        num_shown = min(len(self._texts), max(1, columns // _LEAST_COLUMNS))
        if bar not in list(self._texts)[-num_shown:]:
            return None
        return (columns - len(_BETWEEN) * (num_shown - 1)) // num_shown

    def show(self, bar: object, text: str) -> None:
        """Draw a bar in its place; it waits while a line of other output is unfinished."""
        with self._guard():
            if bar in self._texts:
                self._texts[bar] = text
            self._draw()

    def hide(self) -> None:
        """Take the line away until the next ``show`` or the next finished line of other output."""
        with self._guard():
            self._erase()

    def pass_on(self, text: str, *, write: Callable[[str], int], flush: Callable[[], None]) -> int:
        """Let other output to the same terminal appear above the line."""
        if not text:
            return 0
        with self._guard():
            self._erase()
            written = write(text)
            self._at_line_start = _ends_line(text)
            if self._at_line_start:
                flush()
                self._draw()
            return written

    def write_line(self, text: str) -> None:
        """Write the owner's own text on a new line above, unless the terminal is gone."""
        with self._guard():
            self._erase()
            write_line(self._stream, text if self._at_line_start else f"\n{text}")
            self._at_line_start = True
            self._draw()

    def _close(self) -> None:
        """Take the line away and leave the process's streams alone."""
        with self._guard():
            self._erase()
            self._open = False
            for tap in self._taps:
                tap.remove()
            self._taps.clear()
        atexit.unregister(self._close)

    def _is_owner(self) -> bool:
        return self._pid == os.getpid()

    def _guard(self) -> AbstractContextManager[object]:
        # A child may be forked while another thread holds the lock, and nobody would release it.
        return self._lock if self._is_owner() else nullcontext()

    def _draw(self) -> None:
        text = _BETWEEN.join(text for text in self._texts.values() if text)
        if self._at_line_start and text and self.is_open:
            # The cursor goes back to the first column: what bypasses us stays readable there.
            self._visible = self._send(f"{_CLEAR}{text}\r")

    def _erase(self) -> None:
        if self._visible:
            self._visible = False
            self._send(_CLEAR)

    def _send(self, codes: str) -> bool:
        try:
            self._write(codes)
            self._flush()
        except (OSError, ValueError):
            # The terminal is gone, and with it the only thing this line was for.
            self._open = False
            return False
        return True


_LINES: dict[int, LiveLine] = {}


class _Tap:
    """Lets a live line know what passes through a stream.

    It puts methods in front of the stream's own, on the object itself: to replace ``sys.stderr``
    would miss the loggers that took hold of it earlier.
    """

    def __init__(self, line: LiveLine, stream: TextIO) -> None:
        self._line = line
        self._stream: Any = stream
        self._write = stream.write
        self._flush = stream.flush
        self._fileno = stream.fileno
        self._unflushed = False
        self._replaced: dict[str, tuple[object, object]] = {}
        for name, method in (("write", self.write), ("flush", self.flush), ("fileno", self.fileno)):
            self._replace(name, method)

    def write(self, text: str) -> int:
        if not self._line.is_open:
            self._line.hide()
            return self._write(text)
        self._unflushed = True
        return self._line.pass_on(text, write=self._write, flush=self._flush)

    def flush(self) -> None:
        # A flush with nothing to flush comes from those who are about to write past the stream:
        # input() and the debugger before a prompt, programs before they start a child.
        if not self._unflushed:
            self._line.hide()
        self._unflushed = False
        self._flush()

    def fileno(self) -> int:
        self._line.hide()
        return self._fileno()

    def remove(self) -> None:
        # What somebody else has put in front of our methods stays: ours only pass on from now.
        for name, (ours, earlier) in self._replaced.items():
            if vars(self._stream).get(name) is ours:
                if earlier is None:
                    delattr(self._stream, name)
                else:
                    setattr(self._stream, name, earlier)

    def _replace(self, name: str, method: object) -> None:
        try:
            earlier = vars(self._stream).get(name)
            setattr(self._stream, name, method)
        except (AttributeError, TypeError):
            return  # a stream that cannot be tapped may be overwritten by the line: see the limits
        self._replaced[name] = (method, earlier)


def _ends_line(text: str) -> bool:
    if text.endswith("\n"):
        return True
    # Blanks and a return to the first column wipe a line: another progress bar has cleaned up.
    blank = text.replace("\x1b[2K", "").replace("\x1b[K", "")
    return "\r" in blank and not blank.strip()
