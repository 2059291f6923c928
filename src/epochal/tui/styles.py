"""Named styles in the terminal's own sixteen colours, so that light and dark schemes both fit."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.theme import Theme

# Compared runs take these in turn.
COMPARED = ("compared0", "compared1", "compared2", "compared3")
THEME = Theme(
    {
        "dim": "bright_black",
        "strong": "bold",
        "title": "bold",
        "accent": "cyan",
        "good": "green",
        "warn": "yellow",
        "bad": "red",
        "shout": "bold red",
        "chosen": "reverse",
        "key": "bold cyan",
        "curve": "bold cyan",
        "raw": "blue",
        "eval": "bold yellow",
        "compared0": "magenta",
        "compared1": "green",
        "compared2": "red",
        "compared3": "yellow",
    }
)


def console_for(stream: TextIO) -> Console:
    """A console that prints styled text; it follows NO_COLOR, FORCE_COLOR and TERM."""
    return Console(file=stream, theme=THEME, highlight=False, markup=False)
