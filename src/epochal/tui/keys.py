"""Keys: what a terminal sends for them, and what they do."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping

# Sequences after the escape character; terminals differ, so several lead to one name.
_SEQUENCES: Mapping[str, str] = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "[H": "home",
    "[F": "end",
    "OH": "home",
    "OF": "end",
    "[1~": "home",
    "[4~": "end",
    "[7~": "home",
    "[8~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "[3~": "delete",
    "[Z": "shift-tab",
}
_CONTROLS: Mapping[str, str] = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x0c": "redraw",
    "\x15": "erase",
    " ": "space",
}
_ESCAPE = "\x1b"
_LONGEST = 8

# What the help shows: keys, and what they do.
HELP: tuple[tuple[str, str, str], ...] = (
    ("Go", "1-6  Tab", "overview charts system log text config"),
    ("Go", "up down", "the run before, the run after"),
    ("Go", "r", "the list of runs, on and off"),
    ("Go", "/", "filter runs; in charts: series"),
    ("Go", "Esc", "back: from a large chart, a filter, a zoom"),
    ("Go", "q", "leave; what is watched goes on"),
    ("Charts", "+ -  0", "closer, wider, the whole run"),
    ("Charts", "left right", "earlier, later; the end is followed"),
    ("Charts", "s", "smoothing: none, 0.6, 0.9, 0.97"),
    ("Charts", "l  o", "logarithmic y axis; leave outliers out"),
    ("Charts", "x", "along steps, epochs, tokens, clock, time"),
    ("Charts", "[ ]", "another series in the large chart"),
    ("Charts", "Enter", "in charts: the chosen one alone"),
    ("Charts", "c  C", "compare with this run; with none"),
    ("View", "j k  PgUp PgDn", "scroll; g and G go to the ends"),
    ("View", "p  Space", "hold the picture; nothing is lost"),
    ("View", "Ctrl-L", "draw everything anew"),
    ("Run", "X", "stop the training, saved if it saves; asks first"),
    ("Run", "Z", "suspend it, or let it go on; asks first"),
)
FILTERS = (
    "A filter is a regular expression on project/name, or a query:",
    'config.lr < 3e-4 and status == "running"',
)


class KeyReader:
    """Turns bytes of a terminal into names of keys; a character is its own name."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = ""

    @property
    def is_pending(self) -> bool:
        """Whether an escape character waits for what follows it."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        """The keys that these bytes complete."""
        self._pending += self._decoder.decode(data)
        return list(self._taken())

    def flush(self) -> list[str]:
        """What waited was a key of its own: nothing followed the escape character."""
        pending, self._pending = self._pending, ""
        return ["escape"] if pending == _ESCAPE else []

    def _taken(self) -> Iterator[str]:
        while self._pending:
            if self._pending[0] != _ESCAPE:
                character, self._pending = self._pending[0], self._pending[1:]
                yield _CONTROLS.get(character, character)
                continue
            length = _sequence_length(self._pending)
            if length is None:
                return
            sequence, self._pending = self._pending[1:length], self._pending[length:]
            name = "escape" if not sequence else _SEQUENCES.get(sequence)
            if name is not None:
                yield name


def _sequence_length(text: str) -> int | None:
    """How long the escape sequence at the start is; None while its end has not come."""
    if len(text) < 2:
        return None
    if text[1] == _ESCAPE:
        return 1
    if text[1] not in "[O":
        return 2
    for end in range(2, min(len(text), _LONGEST)):
        if "\x40" <= text[end] <= "\x7e":
            return end + 1
    return _LONGEST if len(text) >= _LONGEST else None
