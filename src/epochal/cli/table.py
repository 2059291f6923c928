"""A table of plain text that fits its width: the columns that may shrink give way."""

from __future__ import annotations

import itertools
import shutil
import sys
import unicodedata
from collections.abc import Sequence

from epochal.cli.output import one_line, say

_GAP = 2
_PLAIN_COLUMNS = 80
_UNLIMITED = 10_000
_NARROWEST = 8


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    shrink: Sequence[int] = (),
    right: Sequence[int] = (),
) -> str:
    """Lay out rows under a header; columns in ``right`` are aligned to the right.

    With ``width``, columns in ``shrink`` are cut, the widest first, until a line fits.
    """
    cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    sizes = [[_cells(cell) for cell in row] for row in cells]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    if width is not None:
        _shrink(widths, shrink, width)
    is_right = [index in right for index in range(len(header))]
    lines = [
        (" " * _GAP).join(map(_fit, row, of_row, widths, is_right)).rstrip()
        for row, of_row in zip(cells, sizes, strict=True)
    ]
    return "\n".join(lines)


def say_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shrink: Sequence[int] = (),
    right: Sequence[int] = (),
) -> None:
    """Print a table that fits the terminal."""
    say(table(header, rows, width=terminal_columns(), shrink=shrink, right=right))


def _shrink(widths: list[int], shrink: Sequence[int], width: int) -> None:
    for index in shrink:
        widths[index] = min(widths[index], width)
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        widest = max(shrink, key=lambda index: widths[index], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1


def terminal_columns() -> int:
    """How wide a table may be: as wide as the terminal; in a pipe or a file nothing is cut."""
    if not sys.stdout.isatty():
        return _UNLIMITED
    return shutil.get_terminal_size((_PLAIN_COLUMNS, 0)).columns


def _cells(text: str) -> int:
    """How many terminal columns a text takes: East Asian wide characters two, marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _fit(text: str, size: int, columns: int, right: bool) -> str:
    if size > columns:
        # A name often differs at its end from others, as dates and numbers do; a text begins.
        tail = text[-(columns // 2) :] if text.isascii() and " " not in text else ""
        ends = itertools.accumulate(map(_cells, text))
        shown = list(itertools.takewhile(lambda end: end < columns - _cells(tail), ends))
        text, size = f"{text[: len(shown)]}…{tail}", (shown[-1] if shown else 0) + 1 + _cells(tail)
    space = " " * (columns - size)
    return space + text if right else text + space
