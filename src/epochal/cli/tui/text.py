"""Styled text: named styles, cutting to a width, sparklines, and the first line about a run."""

from __future__ import annotations

from typing import TextIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text
from rich.theme import Theme

from epochal.journal.row import RunRow, State
from epochal.records.format import format_count, format_duration, format_number
from epochal.store.progress import Progress

# The terminal's own sixteen colours, so that light and dark schemes both work.
THEME = Theme(
    {
        "dim": "bright_black",
        "strong": "bold",
        "accent": "cyan",
        "good": "green",
        "warn": "yellow",
        "bad": "red",
        "shout": "bold red",
        "key": "bold cyan",
    }
)
_STATES: dict[State, str] = {
    "running": "good",
    "finished": "accent",
    "waiting": "dim",
    "silent": "warn",
    "interrupted": "warn",
    "terminated": "warn",
    "failed": "bad",
    "crashed": "bad",
    "unreadable": "bad",
}
_LEVELS = "▁▂▃▄▅▆▇█"
_RECENT_POINTS = 240
_SHORTEST_BAR, _LONGEST_BAR = 6, 40
_LARGE = 1e6


def console_for(stream: TextIO) -> Console:
    """A console that prints styled text; it follows NO_COLOR, FORCE_COLOR and TERM."""
    return Console(file=stream, theme=THEME, highlight=False, markup=False)


def printable(text: str) -> str:
    """Escape control characters, so that text from a run cannot steer the terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode()
        for c in text
    )


def clip(text: str, columns: int) -> str:
    """Escape a text and cut it to at most ``columns``, with an ellipsis at the end."""
    clipped = Text(printable(text))
    clipped.truncate(max(columns, 0), overflow="ellipsis")
    return clipped.plain


def short_number(value: float) -> str:
    """A value in few characters; large ones in millions and more."""
    return format_count(value) if _LARGE <= abs(value) < np.inf else format_number(value)


def sparkline(values: NDArray[np.float64], columns: int) -> str:
    """The last points of a series in so many characters, each the mean of its share of them.

    The heights span the common values, so that a single spike does not flatten the rest. A share
    without a finite point is ``×``.
    """
    recent = values[-_RECENT_POINTS:]
    shares = np.array_split(recent, max(min(columns, recent.size), 1))
    finite = [share[np.isfinite(share)] for share in shares]
    means = np.array([share.mean() if share.size else np.nan for share in finite])
    if not np.isfinite(means).any():
        return "×" * (len(means) if recent.size else 0)
    low, high = np.nanpercentile(means, (3, 97))
    heights = np.clip((means - low) / (high - low), 0, 1) if high > low else means * 0 + 0.5
    heights *= len(_LEVELS) - 1
    return "".join("×" if np.isnan(h) else _LEVELS[round(h)] for h in heights.tolist())


def state_dot(state: State) -> tuple[str, str]:
    """The dot that shows the state of a run, and its style."""
    return ("●" if state == "running" else "○", _STATES[state])


def run_line(info: RunRow, progress: Progress, *, columns: int) -> Text:
    """State, name, bar, percent and time left; what matters least is left out first."""
    style = _STATES[info.status.state]
    line = Text.assemble(state_dot(info.status.state), (f" {info.status.text} ", style))
    name = printable(f"{info.project}/{info.name}")
    ends = _ends(progress)
    while True:
        end = Text.assemble(*((f"  {text}", style) for text, style in ends))
        room = columns - line.cell_len - end.cell_len
        if len(name) + _SHORTEST_BAR + 2 <= room or not ends:
            break
        ends.pop()
    has_bar = progress.share is not None and room >= _SHORTEST_BAR + 14
    line.append(clip(name, room - (_SHORTEST_BAR + 2 if has_bar else 0)), "strong")
    if progress.share is not None and has_bar:
        bar = min(columns - line.cell_len - end.cell_len - 2, _LONGEST_BAR)
        filled = round(min(max(progress.share, 0.0), 1.0) * bar)
        line.append("  ").append("━" * filled, style).append("─" * (bar - filled), "dim")
    return line.append_text(end)


def _ends(progress: Progress) -> list[tuple[str, str]]:
    """What follows the bar, the most important first."""
    ends = []
    if progress.share is not None:
        ends.append((f"{100 * progress.share:.0f} %", "strong"))
    if progress.eta_s is not None:
        ends.append((f"ETA {format_duration(progress.eta_s)}", "strong"))
    ends.append((progress.text, ""))
    if progress.elapsed_s is not None:
        words = "so far" if progress.is_going else "in all"
        ends.append((f"{format_duration(progress.elapsed_s)} {words}", "dim"))
    return ends
