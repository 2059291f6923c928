"""The one live line of a terminal, shared by the bars of all runs that print there.

Bars stand side by side, the one opened last at the right. Where the terminal is too narrow for all
of them, those opened first are left out.
"""

from __future__ import annotations

from typing import TextIO

from epochal.console.live_line import LiveLine

_LEAST_COLUMNS = 36
_BETWEEN = "  "


class SharedLine:
    """The live line of one stream, from the first bar on it to the last."""

    def __init__(self, stream: TextIO) -> None:
        self._line = LiveLine(stream)
        self._line.open()
        self._texts: dict[object, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether the line may be drawn: not in a forked child, nor on a terminal that has gone."""
        return self._line.is_open

    def join(self, bar: object) -> None:
        """Make room for one more bar: the others are narrower when they are drawn next."""
        self._texts = dict.fromkeys([*self._texts, bar], "")

    def leave(self, bar: object) -> bool:
        """Take a bar away; True when it was the last and the line is closed."""
        self._texts.pop(bar, None)
        if self._texts:
            self._draw()
            return False
        self._line.close()
        return True

    def columns_for(self, bar: object, columns: int) -> int | None:
        """How many of a terminal's columns a bar has; None where there is no room for it."""
        num_shown = min(len(self._texts), max(1, columns // _LEAST_COLUMNS))
        if bar not in list(self._texts)[-num_shown:]:
            return None
        return (columns - len(_BETWEEN) * (num_shown - 1)) // num_shown

    @property
    def is_shared(self) -> bool:
        """Whether there are several bars, which only their names tell apart."""
        return len(self._texts) > 1

    def show(self, bar: object, text: str) -> None:
        """Draw a bar in its place."""
        if bar in self._texts:
            self._texts[bar] = text
            self._draw()

    def write_line(self, text: str) -> bool:
        """Write a line of text above; False if the terminal is gone."""
        return self._line.write_line(text)

    def _draw(self) -> None:
        self._line.show(_BETWEEN.join(text for text in self._texts.values() if text))


_LINES: dict[int, SharedLine] = {}


def join_line(stream: TextIO, bar: object) -> SharedLine:
    """The line of a stream, with a place for this bar."""
    line = _LINES.get(id(stream))
    if line is None or not line.is_open:
        line = _LINES[id(stream)] = SharedLine(stream)
    line.join(bar)
    return line


def leave_line(line: SharedLine, bar: object) -> None:
    """Take a bar off its line."""
    if line.leave(bar):
        for key, known in list(_LINES.items()):
            if known is line:
                del _LINES[key]
