"""Prints a run's lines, blocks and progress on stderr: by level, and at a bounded rate."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

from epochal.base.guard import Guard
from epochal.run.console.cell import CellBar, CellOutput, kernel_shell
from epochal.run.console.live_line import ProgressBar
from epochal.run.console.messages import (
    LogVerbosity,
    Verbosity,
    as_verbosity,
    enabled,
    obeys_control_codes,
    printable,
    render,
    stream_for,
    write_line,
)
from epochal.series.trend import Grade
from epochal.settings import no_colours

Line = str | Callable[[], str]
# The terminal's own green, amber and red.
_COLOURS: dict[Grade, int] = {"good": 32, "warn": 33, "bad": 31}


class Card(Protocol):
    """What a notebook shows of a run in place of a bar and of step lines."""

    def update(self, now: float) -> None:
        """Draw it if that is due."""

    def write(self, text: str, is_note: bool) -> bool:
        """Add a line, or a note that stays; False where it must be printed."""

    def close(self) -> None:
        """Draw the end of the run."""

    def html(self) -> str:
        """The run as HTML."""


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
    ) -> None:
        self._level: Verbosity | None = None
        self._of_logger: LogVerbosity | None = None
        if verbosity is not None:
            self.set_verbosity(verbosity)
        self._stream = stream
        self._min_interval_s = min_interval_s
        self._step_due = -math.inf
        self._held: Line | None = None
        self._bar: ProgressBar | CellBar | None = None
        self._notices: set[str] = set()
        self.card: Card | None = None  # of a run in a notebook
        self.guard = Guard()
        self.label = ""

    def set_verbosity(
        self, verbosity: Verbosity | LogVerbosity | int | str
    ) -> Callable[[], object]:
        """Give this console a level of its own; gives what takes it back."""
        before = self._level, self._of_logger
        if verbosity is not LogVerbosity.DEFAULT:
            self._level = as_verbosity(verbosity)
            self._of_logger = verbosity if isinstance(verbosity, LogVerbosity) else None

        def restore() -> None:
            self._level, self._of_logger = before

        return restore

    def enabled(self, level: Verbosity) -> bool:
        """Whether this console shows this level."""
        return enabled(level) if self._level is None else level <= self._level

    def step(self, line: Line, *, now: float | None = None) -> None:
        """Print a step's line, or hold it back if the last one is younger than ``min_interval_s``.

        ``now`` is ``time.monotonic``, for callers that have just read it.
        """
        if not self.enabled(Verbosity.NORMAL) or self.card is not None:
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
        """Print an evaluation's line, bold on a terminal; all that ``LogVerbosity.MINIMAL`` shows.

        ``graded`` is a part of the line and how it is to be taken: green, amber or red.
        """
        is_asked = self._of_logger is not None and self._of_logger.shows_eval
        if is_asked or self.enabled(Verbosity.NORMAL):
            self._follow(lambda: self._bold_text(line, graded))

    def line(self, text: Line, level: Verbosity = Verbosity.NORMAL) -> None:
        """Print the line of an epoch, or another one."""
        if self.enabled(level):
            self._follow(text)

    def block(self, text: Line) -> None:
        """Print a block and an empty line after it."""
        if self.enabled(Verbosity.NORMAL):
            self._follow(lambda: f"{_text(text)}\n")

    def closing(self, line: Line) -> None:
        """Close, then print the training's last line; a card has all that it says."""
        self.close()
        if self.enabled(Verbosity.NORMAL) and self.card is None:
            self._print(line)

    def message(self, text: str, *args: object, level: Verbosity = Verbosity.NORMAL) -> None:
        """Print a message of the program, on the stream that ``console.messages`` gives it."""
        if self.enabled(level):
            self._release()
            write_line(stream_for(level), render(text, args))

    def notice(self, text: str) -> None:
        """Say on stderr, at every level, what must not go unseen; the same sentence only once."""
        if text not in self._notices:
            self._notices.add(text)
            self._release()
            self._print(f"epochal: {text}", label="", is_note=True)

    def finding(self, text: str, *, is_error: bool) -> None:
        """Print what a health rule found: an error at QUIET, a warning at NORMAL.

        ``LogVerbosity.MINIMAL`` and ``SILENT`` print neither; ``epochal doctor`` and the page do.
        """
        level = Verbosity.QUIET if is_error else Verbosity.NORMAL
        is_minimal = self._of_logger is not None and self._of_logger < LogVerbosity.DEFAULT
        if self.enabled(level) and not is_minimal:
            self.notice(text)

    def start_progress(
        self, *, name: str = "", total: float | None = None, unit: str = "step"
    ) -> bool:
        """Show a progress bar from now on; False where there is none (quiet, piped, TERM=dumb)."""
        if self.card is None and self._bar is None and self.enabled(Verbosity.NORMAL):
            with self.guard.member("progress bar"):
                cell, stream = CellOutput.current(), self._target()
                if cell is not None and self._stream is None:
                    self._bar = CellBar(cell, name=name, total=total, unit=unit)
                elif stream is not None and obeys_control_codes(stream):
                    self._bar = ProgressBar(stream, name=name, total=total, unit=unit)
        return self._bar is not None or self._shown_card is not None

    def set_progress_total(self, total: float) -> None:
        """Give the bar, if there is one, a total that was not known when it was opened."""
        if self._bar is not None:
            self._bar.total = total

    def progress(self, done: float, *, now: float, **figures: float | None) -> None:
        """Redraw the bar if it is due; figures are ``loss``, ``rate`` (per second), ``eta_s``."""
        if self._bar is not None:
            with self.guard.member("progress bar"):
                self._bar.update(done, now=now, **figures)
        elif (card := self._shown_card) is not None:
            self.guard.run("notebook display", card.update, now)

    def close(self) -> None:
        """Remove the bar and print the delayed step line; closing twice does nothing."""
        bar, self._bar = self._bar, None
        if bar is not None:
            self.guard.run("progress bar", bar.close)
        elif (card := self._shown_card) is not None:
            self.guard.run("notebook display", card.close)
        self._release()

    @property
    def _shown_card(self) -> Card | None:
        return self.card if self.card is not None and self.enabled(Verbosity.NORMAL) else None

    def _target(self) -> TextIO | None:
        if self._stream is not None:
            return self._stream
        return sys.stderr if kernel_shell() is None else sys.stdout  # notebooks show stderr in red

    def _follow(self, line: Line) -> None:
        """Print a line that is not a step, after the step before it."""
        self._release()
        self._print(line)

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._print(held)

    def _print(self, line: Line, *, label: str | None = None, is_note: bool = False) -> None:
        label = self.label if label is None else label
        self.guard.run("console line", self._write, line, label, is_note)

    def _write(self, line: Line, label: str, is_note: bool) -> None:
        text = _text(line) if not label else f"{printable(label)} | {_text(line)}"
        card = self._shown_card
        if card is not None and self.guard.run("notebook display", card.write, text, is_note):
            return
        if self._bar is not None:
            self._bar.write_above(text)
        else:
            write_line(self._target(), text)

    def _bold_text(self, line: Line, graded: tuple[str, Grade] | None) -> str:
        text = _text(line)
        if not obeys_control_codes(self._target()):
            return text
        if graded is not None and not no_colours():
            part, grade = graded
            text = text.replace(part, f"\x1b[{_COLOURS[grade]}m{part}\x1b[39m", 1)
        return f"\x1b[1m{text}\x1b[22m"


def _text(line: Line) -> str:
    return line if isinstance(line, str) else line()
