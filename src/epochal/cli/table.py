"""A table of plain text that fits its width: the columns that may shrink give way."""

from __future__ import annotations

import itertools
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from operator import gt

from epochal.cli.output import one_line

_GAP = 2
_PLAIN_COLUMNS = 80
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
    grown = GrowingTable(header, width=width, shrink=shrink, right=right)
    return "\n".join(grown.lines(rows))


class GrowingTable:
    """The same, some rows at a time: the first ones decide how wide the columns are.

    In later rows columns in ``shrink`` are cut, and the others take the room that they need.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        width: int | None = None,
        shrink: Sequence[int] = (),
        right: Sequence[int] = (),
    ) -> None:
        self._header = header
        self._width = width
        self._shrink = shrink
        self._is_right = [index in right for index in range(len(header))]
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """The lines of some more rows; before the first ones the header."""
        is_first = not self._widths
        given = [self._header, *rows] if is_first else rows
        cells = [[one_line(cell) for cell in row] for row in given]
        sizes = [[_cells(cell) for cell in row] for row in cells]
        if is_first:
            self._widths = self._fitted([max(column) for column in zip(*sizes, strict=True)])
        widths, shrink = self._widths, self._shrink
        lines: list[str] = []
        for row, of_row in zip(cells, sizes, strict=True):
            room = widths
            if not is_first and any(map(gt, of_row, widths)):
                room = [
                    width if index in shrink else max(width, of_row[index])
                    for index, width in enumerate(widths)
                ]
            lines.append((" " * _GAP).join(map(_fit, row, of_row, room, self._is_right)).rstrip())
        return lines

    def _fitted(self, widths: list[int]) -> list[int]:
        if self._width is None:
            return widths
        for index in self._shrink:
            widths[index] = min(widths[index], self._width)
        while sum(widths) + _GAP * (len(widths) - 1) > self._width:
            widest = max(self._shrink, key=lambda index: widths[index], default=None)
            if widest is None or widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths


def terminal_columns() -> int:
    """How wide a table may be: the terminal's width, 80 columns for a pipe or a file."""
    if not sys.stdout.isatty():
        return _PLAIN_COLUMNS
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
        ends = itertools.accumulate(map(_cells, text))
        shown = list(itertools.takewhile(lambda end: end < columns, ends))
        text, size = f"{text[: len(shown)]}…", (shown[-1] if shown else 0) + 1
    space = " " * (columns - size)
    return space + text if right else text + space
