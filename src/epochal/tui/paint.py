"""Styles to colours: the terminal's own sixteen, so that light and dark schemes both fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from epochal.tui.cells import Line, printable

STYLES: Mapping[str, str] = {
    "": "",
    "dim": "bright_black",
    "strong": "bold",
    "title": "bold",
    "accent": "cyan",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "shout": "bold red",
    "chosen": "reverse",
    "tab": "bold reverse",
    "key": "bold cyan",
    "curve": "bold cyan",
    "raw": "blue",
    "eval": "bold yellow",
    "other0": "magenta",
    "other1": "green",
    "other2": "red",
    "other3": "yellow",
}
OTHERS = tuple(name for name in STYLES if name.startswith("other"))


class Painter:
    """Turns lines into what a terminal is sent; without colours into plain text."""

    def __init__(self, system: ColorSystem | None, *, has_styles: bool) -> None:
        self._styles = {name: Style.parse(words or "none") for name, words in STYLES.items()}
        self._system = system
        self._has_styles = has_styles

    def paint(self, spans: Line) -> str:
        """A line with our control codes; those in its texts are escaped."""
        if not self._has_styles:
            return "".join(printable(span.text) for span in spans)
        return "".join(self._painted(printable(span.text), span.style) for span in spans)

    def _painted(self, text: str, style: str) -> str:
        if not style or not text:
            return text
        # Without colours (NO_COLOR) bold and reverse still tell things apart.
        system = ColorSystem.STANDARD if self._system is None else self._system
        chosen = self._styles[style]
        return (chosen if self._system is not None else chosen.without_color).render(
            text, color_system=system
        )


def painter_for(stream: TextIO) -> Painter:
    """What a stream can show: NO_COLOR, FORCE_COLOR and TERM are heeded."""
    console = Console(file=stream)
    names = {"standard": ColorSystem.STANDARD, "windows": ColorSystem.WINDOWS}
    system = console.color_system
    chosen = None if system is None or console.no_color else names.get(system, ColorSystem.STANDARD)
    return Painter(chosen, has_styles=console.is_terminal and not console.is_dumb_terminal)
