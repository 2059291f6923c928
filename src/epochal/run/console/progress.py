"""A progress bar on a terminal: name, bar, done/total, percent, loss, rate, time left."""

from __future__ import annotations

import math
import os
import unicodedata
from typing import TextIO

import msgspec

from epochal.records.format import format_count, format_duration, format_number
from epochal.run.console.live_line import LiveLine
from epochal.run.console.stream import printable
from epochal.settings import no_colours

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
