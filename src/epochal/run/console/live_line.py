"""One terminal line that stays below whatever else is printed, and the progress bar in it.

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
import math
import os
import sys
import unicodedata
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any, TextIO

import msgspec

from epochal.records.format import format_count, format_duration, format_number
from epochal.run.console.messages import is_terminal, printable, write_line
from epochal.settings import no_colours

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


INTERVAL_S = 0.25
SHORTEST_BAR = 10
LONGEST_BAR = 40
LONGEST_NAME = 24
_COUNT_FROM = 1_000_000  # from here on done/total is shown as 1.2M/10.0M
_FALLBACK_COLUMNS = 80
_GREEN, _CYAN, _GREY = 32, 36, 90  # the terminal's own colours


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a training; ``rate`` in units per second."""

    name: str = ""
    done: float
    total: float | None = None
    unit: str = "step"
    loss: float | None = None
    rate: float | None = None
    eta_s: float | None = None

    @property
    def share(self) -> float | None:
        """The finished share of the total, 0-1; None when the total is unknown."""
        return min(max(self.done / self.total, 0.0), 1.0) if self.total else None


class Layout(msgspec.Struct, frozen=True):
    """One line cut to a terminal's width: text, a bar of some columns, text."""

    left: str
    bar_columns: int
    right: str


class ProgressBar:
    """A bar that lives below all other output, on a terminal that obeys control codes.

    Redrawn by ``update`` and by nothing else, at most four times a second: there is no thread.
    """

    def __init__(self, stream: TextIO, *, name: str = "", total: float | None, unit: str) -> None:
        # Asked before the line opens, which hides when somebody asks for a file number.
        self._descriptor = stream.fileno()
        self._is_ascii = not (stream.encoding or "").lower().startswith("utf")
        self._name = name
        self.total = total
        self._unit = unit
        self._due = -math.inf
        self._line = LiveLine.join(stream, self)

    def update(self, done: float, *, now: float, **figures: float | None) -> None:
        """Draw the state of this moment, unless the last drawing is younger than ``INTERVAL_S``."""
        if now < self._due:
            return
        self._due = now + INTERVAL_S
        progress = Progress(
            name=self._name, done=done, total=self.total, unit=self._unit, **figures
        )
        # One column stays free: a line that fills the last one wraps on some terminals.
        columns = self._line.columns_for(self, _columns(self._descriptor) - 1)
        if columns is not None:
            named, is_ascii = self._line.is_shared, self._is_ascii
            self._line.show(self, _draw(progress, columns=columns, named=named, is_ascii=is_ascii))

    def write_above(self, text: str) -> None:
        """Write one line of text above the bar, unless the terminal is gone."""
        self._line.write_line(text)

    def close(self) -> None:
        """Remove the bar and leave the terminal as if it had never been there."""
        self._line.leave(self)


def lay_out(progress: Progress, *, columns: int, named: bool = False) -> Layout:
    """Choose what fits: the bar shrinks first, then rate, name, loss, count, time left give way.

    ``named``: the name goes last, because it tells this bar from others.
    """
    parts = _parts(progress)
    bar = SHORTEST_BAR if progress.total else 0
    lesser = ("rate", "loss", "count", "eta", "name")
    for expendable in lesser if named else ("rate", "name", "loss", "count", "eta"):
        if _width(parts) + bar + 1 <= columns:
            break
        parts.pop(expendable, None)
    name = parts.pop("name", "")
    right = "  ".join(parts.values())[: max(columns, 0)]
    left = f"{name} " if name else ""
    if not progress.total:
        return Layout(left, 0, right)
    room = columns - _cells(left) - _cells(right) - 1
    return Layout(left, max(0, min(LONGEST_BAR, room)), f" {right}" if room > 0 else right)


def _parts(progress: Progress) -> dict[str, str]:
    share = progress.share
    parts = {
        "name": printable(progress.name, longest=LONGEST_NAME),
        "count": _count(progress),
        "percent": "" if share is None else f"{math.floor(share * 100):3d}%",
        "loss": "" if progress.loss is None else f"loss={format_number(progress.loss)}",
        "rate": "" if progress.rate is None else _rate(progress.rate, progress.unit),
        "eta": "" if progress.eta_s is None else f"ETA {format_duration(progress.eta_s)}",
    }
    return {part: text for part, text in parts.items() if text}


def _count(progress: Progress) -> str:
    if progress.total is None:
        return f"{progress.unit} {_amount(progress.done, progress.done)}"
    total = _amount(progress.total, progress.total)
    return f"{_amount(progress.done, progress.total):>{len(total)}}/{total}"


def _amount(value: float, scale: float) -> str:
    return format_count(value) if scale >= _COUNT_FROM else f"{value:.0f}"


def _rate(rate: float, unit: str) -> str:
    if not math.isfinite(rate) or rate <= 0:
        return ""
    if rate < 1:
        return f"{format_duration(1 / rate)}/{unit}"
    return f"{format_count(rate) if rate >= 1000 else f'{rate:.1f}'} {unit}/s"


def _width(parts: dict[str, str]) -> int:
    return sum(_cells(text) for text in parts.values()) + 2 * max(len(parts) - 1, 0)


def _cells(text: str) -> int:
    """The columns that a text takes; letters of East Asia take two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def _columns(descriptor: int) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or _FALLBACK_COLUMNS
    except OSError:
        return _FALLBACK_COLUMNS


def _draw(progress: Progress, *, columns: int, named: bool, is_ascii: bool) -> str:
    """The line with its bar; without colours the two halves of the bar differ in shape."""
    layout = lay_out(progress, columns=columns, named=named)
    share = progress.share or 0.0
    filled = round(layout.bar_columns * share)
    full, rest = "=-" if is_ascii else "━─"
    done, left = full * filled, rest * (layout.bar_columns - filled)
    if not no_colours():
        done = done and f"\x1b[{_GREEN if share >= 1 else _CYAN}m{done}\x1b[0m"
        left = left and f"\x1b[{_GREY}m{left}\x1b[0m"
    return f"{layout.left}{done}{left}{layout.right}"
