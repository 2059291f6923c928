"""Prints a run's lines, blocks and progress on stderr: by level, and at a bounded rate."""

from __future__ import annotations

import math
import os
import sys
import time
import unicodedata
from collections.abc import Callable
from typing import TextIO

import msgspec

from epochal.console.live_line import (
    join_line,
    leave_line,
    obeys_control_codes,
    printable,
    write_line,
)
from epochal.console.messages import (
    LogVerbosity,
    Text,
    Verbosity,
    as_verbosity,
    enabled,
    render,
    stream_for,
)
from epochal.errors import UsageError
from epochal.format import format_count, format_duration, format_number
from epochal.guard import Guard
from epochal.series.overfit import Grade
from epochal.settings import no_colours

# A progress bar on a terminal: name, bar, done/total, percent, loss, rate, time left.

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
    """A bar that lives below all other output; made by ``open_progress_bar``.

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
        self._line = join_line(stream, self)

    def update(
        self,
        done: float,
        *,
        now: float,
        loss: float | None = None,
        rate: float | None = None,
        eta_s: float | None = None,
    ) -> None:
        """Draw the state of this moment, unless the last drawing is younger than ``INTERVAL_S``."""
        if now < self._due:
            return
        self._due = now + INTERVAL_S
        progress = Progress(
            name=self._name,
            done=done,
            total=self.total,
            unit=self._unit,
            loss=loss,
            rate=rate,
            eta_s=eta_s,
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
        leave_line(self._line, self)


def open_progress_bar(
    stream: TextIO | None, *, name: str = "", total: float | None = None, unit: str = "step"
) -> ProgressBar | None:
    """Open a bar on this stream; None where one cannot be drawn (no terminal, TERM=dumb)."""
    if stream is None or not obeys_control_codes(stream):
        return None
    return ProgressBar(stream, name=name, total=total, unit=unit)


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


Line = str | Callable[[], str]
# The terminal's own green, amber and red.
_COLOURS: dict[Grade, int] = {"good": 32, "warn": 33, "bad": 31}


class Console:
    """What a run or monitor prints through.

    ``stream`` is sys.stderr, looked up anew for each line, unless one is given. ``verbosity`` None
    or ``LogVerbosity.DEFAULT`` follows the process's level; any other is this console's own.
    A line may be a callable: it is called only when the line is printed. ``min_interval_s`` bounds
    how often step lines appear; the newest one held back is printed before anything else is, and on
    ``close``.

    Nothing here raises. ``guard`` handles a line that cannot be formatted; what a closed stream (a
    hang-up, a closed pipe) does not take is lost. With several open runs, ``label`` comes before
    each line.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbosity: Verbosity | LogVerbosity | int | str | None = None,
        min_interval_s: float = 0.0,
        progress: bool = True,
    ) -> None:
        if not 0 <= min_interval_s < math.inf:
            raise UsageError(f"min_interval_s={min_interval_s!r} must be 0 or more seconds.")
        self._level: Verbosity | None = None
        self._always_eval = False
        self._is_minimal = False
        if verbosity is not None:
            self.set_verbosity(verbosity)
        self._stream = stream
        self._min_interval_s = min_interval_s
        self._step_due = -math.inf
        self._held: Line | None = None
        self._wants_progress = progress
        self._bar: ProgressBar | None = None
        self._has_colours = not no_colours()
        self._notices: set[str] = set()
        self.guard = Guard()
        self.label = ""

    def set_verbosity(
        self, verbosity: Verbosity | LogVerbosity | int | str
    ) -> Callable[[], object]:
        """Give this console a level of its own; gives what takes it back."""
        before = self._level, self._always_eval, self._is_minimal
        of_logger = verbosity if isinstance(verbosity, LogVerbosity) else None
        if of_logger is not LogVerbosity.DEFAULT:
            self._level = as_verbosity(verbosity)
            self._always_eval = of_logger is not None and of_logger.shows_eval
            self._is_minimal = of_logger is not None and of_logger < LogVerbosity.DEFAULT

        def restore() -> None:
            self._level, self._always_eval, self._is_minimal = before

        return restore

    def enabled(self, level: Verbosity) -> bool:
        """Whether this console shows this level."""
        return enabled(level) if self._level is None else level <= self._level

    def step(self, line: Line, *, now: float | None = None) -> None:
        """Print a step's line, or hold it back if the last one is younger than ``min_interval_s``.

        ``now`` is ``time.monotonic``, for callers that have just read it.
        """
        if not self.enabled(Verbosity.NORMAL):
            return
        if self._min_interval_s > 0:
            now = time.monotonic() if now is None else now
            if now < self._step_due:
                self._held = line
                return
            self._step_due = now + self._min_interval_s
        self._held = None
        self._print(line)

    def eval(self, line: Line, *, graded: tuple[str, Grade] | None = None) -> None:
        """Print an evaluation's line, bold on a terminal; all that ``LogVerbosity.QUIET`` shows.

        ``graded`` is a part of the line and how it is to be taken: green, amber or red.
        """
        if self._always_eval or self.enabled(Verbosity.NORMAL):
            self._follow(lambda: self._bold_text(line, graded))

    def gpu(self, line: Line) -> None:
        """Print the state of a GPU; VERBOSE only."""
        if self.enabled(Verbosity.VERBOSE):
            self._follow(line)

    def line(self, text: Line) -> None:
        """Print the line of an epoch, or another one."""
        if self.enabled(Verbosity.NORMAL):
            self._follow(text)

    def block(self, text: Line) -> None:
        """Print a block and an empty line after it."""
        if self.enabled(Verbosity.NORMAL):
            self._follow(lambda: f"{_text(text)}\n")

    def closing(self, line: Line) -> None:
        """Close, then print the training's last line."""
        self.close()
        if self.enabled(Verbosity.NORMAL):
            self._print(line)

    def message(self, text: Text, *args: object, level: Verbosity = Verbosity.NORMAL) -> None:
        """Say something at a level, on the stream that ``console.messages`` gives it."""
        if self.enabled(level):
            self._release()
            self.guard.run(
                "console message", lambda: write_line(stream_for(level), render(text, args))
            )

    def notice(self, text: str) -> None:
        """Say on stderr, at every level, what must not go unseen; the same sentence only once."""
        if text not in self._notices:
            self._notices.add(text)
            self._release()
            self._print(f"epochal: {text}", label="")

    def finding(self, text: str, *, is_error: bool) -> None:
        """Print what a health rule found: an error at QUIET, a warning at NORMAL.

        ``LogVerbosity.QUIET`` and ``SILENT`` print neither; ``epochal doctor`` and the page do.
        """
        level = Verbosity.QUIET if is_error else Verbosity.NORMAL
        if self.enabled(level) and not self._is_minimal:
            self.notice(text)

    def start_progress(
        self, *, name: str = "", total: float | None = None, unit: str = "step"
    ) -> bool:
        """Show a progress bar from now on; False where there is none (quiet, piped, TERM=dumb)."""
        if self._bar is None and self._wants_progress and self.enabled(Verbosity.NORMAL):
            with self.guard.member("progress bar"):
                self._bar = open_progress_bar(self._target(), name=name, total=total, unit=unit)
        return self._bar is not None

    def set_progress_total(self, total: float) -> None:
        """Give the bar, if there is one, a total that was not known when it was opened."""
        if self._bar is not None:
            self._bar.total = total

    def progress(
        self,
        done: float,
        *,
        now: float,
        loss: float | None = None,
        rate: float | None = None,
        eta_s: float | None = None,
    ) -> None:
        """Redraw the bar if it is due; ``rate`` in units per second."""
        if self._bar is not None:
            with self.guard.member("progress bar"):
                self._bar.update(done, now=now, loss=loss, rate=rate, eta_s=eta_s)

    def close(self) -> None:
        """Remove the bar and print the delayed step line; closing twice does nothing."""
        bar, self._bar = self._bar, None
        if bar is not None:
            self.guard.run("progress bar", bar.close)
        self._release()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _target(self) -> TextIO | None:
        return sys.stderr if self._stream is None else self._stream

    def _follow(self, line: Line) -> None:
        """Print a line that is not a step, after the step before it."""
        self._release()
        self._print(line)

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._print(held)

    def _print(self, line: Line, *, label: str | None = None) -> None:
        label = self.label if label is None else label
        self.guard.run("console line", self._write, line, label)

    def _write(self, line: Line, label: str) -> None:
        text = _text(line) if not label else f"{printable(label)} | {_text(line)}"
        if self._bar is not None:
            self._bar.write_above(text)
        else:
            write_line(self._target(), text)

    def _bold_text(self, line: Line, graded: tuple[str, Grade] | None) -> str:
        text = _text(line)
        return (
            f"\x1b[1m{self._coloured(text, graded)}\x1b[22m"
            if obeys_control_codes(self._target())
            else text
        )

    def _coloured(self, text: str, graded: tuple[str, Grade] | None) -> str:
        if graded is None or not self._has_colours:
            return text
        part, grade = graded
        return text.replace(part, f"\x1b[{_COLOURS[grade]}m{part}\x1b[39m", 1)


def _text(line: Line) -> str:
    return line if isinstance(line, str) else line()
