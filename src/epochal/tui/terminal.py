"""A terminal taken over for a while, and given back as it was, however the while ends.

Keys come one by one and are not echoed; Ctrl-C and Ctrl-Z stay signals, so that they work even
while something is being read. On Ctrl-Z the terminal is given back before the process stops, and
taken over again when it goes on.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, TextIO

from epochal.tui.cells import Line, plain, width
from epochal.tui.paint import Painter

# The other screen, no cursor, no wrapping at the edge; and all of it back.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_MOST_BYTES = 4096
# A stranger's answer may be needed for the size; 80 by 24 is what everything can do.
_DEFAULT_SIZE = (80, 24)


class Ended(Exception):  # noqa: N818 - an order from outside, not an error
    """The process was told to end; ``code`` is what its parent is told."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = 128 + number


class Terminal:
    """The terminal of a process, between ``with`` and its end."""

    def __init__(self, output: TextIO, *, painter: Painter, input_fd: int | None = None) -> None:
        self._output = output
        self._painter = painter
        self._input = sys.stdin.fileno() if input_fd is None else input_fd
        self._modes: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._wake_read = self._wake_write = -1
        self._shown: list[str] = []
        self.has_resized = False

    def __enter__(self) -> Terminal:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        try:
            self._take_over()
            self._handle(signal.SIGWINCH, self._on_resize)
            self._handle(signal.SIGTSTP, self._on_stop)
            self._handle(signal.SIGCONT, self._on_continue)
            for number in _ENDING:
                self._handle(number, _on_end)
            signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(-1)
        # First nothing may interrupt the giving back, then everybody gets their handlers again.
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def size(self) -> tuple[int, int]:
        """Columns and rows as of now."""
        try:
            size = os.get_terminal_size(self._output.fileno())
        except OSError:
            return _DEFAULT_SIZE
        return (size.columns, size.lines) if size.columns and size.lines else _DEFAULT_SIZE

    def read(self, wait_s: float) -> bytes | None:
        """Bytes of keys; empty after ``wait_s`` seconds or a signal, None when none will come."""
        ready, _, _ = select.select([self._input, self._wake_read], [], [], max(wait_s, 0.0))
        if self._wake_read in ready:
            os.read(self._wake_read, _MOST_BYTES)
        if self._input not in ready:
            return b""
        try:
            return os.read(self._input, _MOST_BYTES) or None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None  # the terminal has hung up

    def show(self, lines: Sequence[Line], *, anew: bool = False) -> None:
        """Put lines on the screen; only those that differ from what is there are sent."""
        painted = [self._painter.paint(one) for one in lines]
        if anew or len(painted) != len(self._shown):
            self._shown = []
        codes = [] if self._shown else ["\x1b[0m\x1b[2J"]
        for row, text in enumerate(painted):
            if not self._shown or self._shown[row] != text:
                # Lines fill their row; only where terminals may count columns differently, as with
                # pictures of letters, the rest of the row is not known.
                erase = "\x1b[2K" if _has_wide(lines[row]) else ""
                codes.append(f"\x1b[{row + 1};1H{erase}{text}")
        self._shown = painted
        if codes:
            # Terminals that know the first and the last code show it all at once.
            self._send(f"\x1b[?2026h{''.join(codes)}\x1b[?2026l")

    def forget(self) -> None:
        """Draw everything at the next ``show``: what is on the screen is not known."""
        self._shown = []

    def _take_over(self) -> None:
        self._modes = termios.tcgetattr(self._input)
        tty.setcbreak(self._input, termios.TCSANOW)
        self._send(_ENTER)
        self.forget()

    def _give_back(self) -> None:
        if self._modes is not None:
            modes, self._modes = self._modes, None
            try:
                self._send(_LEAVE)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
            finally:
                _set_modes(self._input, modes)

    def _send(self, text: str) -> None:
        try:
            self._output.write(text)
            self._output.flush()
        except UnicodeEncodeError:
            encoding = self._output.encoding or "ascii"
            self._output.write(text.encode(encoding, "replace").decode(encoding))
            self._output.flush()

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handlers[number] = signal.signal(number, handler)

    def _on_resize(self, number: int, frame: FrameType | None) -> None:
        self.has_resized = True

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # Stops here, and goes on here; where nobody could wake it, as without a shell, at once.
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_stop)
        self._take_over()
        self.has_resized = True

    def _on_continue(self, number: int, frame: FrameType | None) -> None:
        """Stopped by somebody who asked nobody: the terminal may have been used by others."""
        if self._modes is not None:
            tty.setcbreak(self._input, termios.TCSANOW)
            self._send(_ENTER)
        self.has_resized = True


def _has_wide(spans: Line) -> bool:
    return width(spans) != len(plain(spans))


def _on_end(number: int, frame: FrameType | None) -> None:
    raise Ended(number)


def _set_modes(fd: int, modes: list[Any]) -> None:
    # A background process that sets modes is stopped by SIGTTOU, and would never get to its end.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        termios.tcsetattr(fd, termios.TCSANOW, modes)
    except termios.error:
        return  # the terminal is gone, and its modes with it
    finally:
        signal.signal(signal.SIGTTOU, before)
