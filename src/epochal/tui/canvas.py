"""Curves as characters: dots on a fine grid, two by four of them in one braille character."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.tui.glyphs import Glyphs

Dots = NDArray[np.bool_]

_BRAILLE = 0x2800
# The bit of each dot of a braille character, row by row; of the ASCII pair: upper 1, lower 2.
_BRAILLE_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_PAIR_BITS = np.array([[1], [2]])


class Canvas:
    """A rectangle of character cells; what is drawn later lies in front.

    Dots are counted from the upper left corner. In a cell that several curves pass, the dots of the
    foremost are shown alone: its course stays exact, and a cell has only one colour.
    """

    def __init__(self, columns: int, rows: int, *, glyphs: Glyphs) -> None:
        if columns < 1 or rows < 1:
            raise ValueError(f"a canvas has at least one cell, got {columns} by {rows}")
        self._columns, self._rows = columns, rows
        self._glyphs = glyphs
        self._bits = _BRAILLE_BITS if glyphs.has_braille else _PAIR_BITS
        self._tall, self._wide = (4, 2) if glyphs.has_braille else (2, 1)
        self._layers: list[tuple[Dots, str]] = []
        self._marks: dict[tuple[int, int], tuple[str, str]] = {}

    @property
    def width(self) -> int:
        """How many dots there are next to each other."""
        return self._columns * self._wide

    @property
    def height(self) -> int:
        """How many dots there are on top of each other."""
        return self._rows * self._tall

    def layer(self, style: str) -> Dots:
        """A new layer in front of the others, indexed by row and column of dots."""
        dots = np.zeros((self.height, self.width), dtype=np.bool_)
        self._layers.append((dots, style))
        return dots

    def mark(self, x: int, y: int, glyph: str, style: str) -> None:
        """Put a character into the cell of a dot, in front of everything."""
        self._marks[y // self._tall, x // self._wide] = (glyph, style)

    def lines(self) -> list[Text]:
        """The picture, one line for each row of cells."""
        codes = np.zeros((self._rows, self._columns), dtype=np.int64)
        owners = np.full((self._rows, self._columns), -1, dtype=np.int64)
        for index, (dots, _) in enumerate(self._layers):
            own = self._codes(dots)
            codes = np.where(own > 0, own, codes)
            owners = np.where(own > 0, index, owners)
        return [
            self._line(row, row_codes, row_owners)
            for row, (row_codes, row_owners) in enumerate(
                zip(codes.tolist(), owners.tolist(), strict=True)
            )
        ]

    def _codes(self, dots: Dots) -> NDArray[np.int64]:
        cells = dots.reshape(self._rows, self._tall, self._columns, self._wide)
        coded: NDArray[np.int64] = np.einsum("rtcw,tw->rc", cells, self._bits)
        return coded

    def _line(self, row: int, codes: Sequence[int], owners: Sequence[int]) -> Text:
        line = Text()
        text, style = "", ""
        for column, (code, owner) in enumerate(zip(codes, owners, strict=True)):
            mark = self._marks.get((row, column))
            # A blank takes the style before it, so that a curve stays one span.
            own = mark or (self._glyph(code, owner), self._layers[owner][1] if code else style)
            if own[1] != style:
                line.append(text, style)
                text = ""
            text, style = text + own[0], own[1]
        return line.append(text, style)

    def _glyph(self, code: int, owner: int) -> str:
        if not code:
            return " "
        if self._glyphs.has_braille:
            return chr(_BRAILLE + code)
        is_front = owner == len(self._layers) - 1
        return (self._glyphs.dots if is_front else self._glyphs.dots_behind)[code - 1]


def draw_path(dots: Dots, xs: NDArray[np.int64], ys: NDArray[np.int64]) -> None:
    """Draw straight lines from point to point; each column gets every dot that the line passes."""
    dots[ys, xs] = True
    for x0, y0, x1, y1 in zip(xs[:-1], ys[:-1], xs[1:], ys[1:], strict=True):
        steps = max(abs(int(x1) - int(x0)), abs(int(y1) - int(y0)))
        if steps > 1:
            along = np.arange(1, steps) / steps
            rows = np.rint(y0 + (y1 - y0) * along).astype(np.int64)
            columns = np.rint(x0 + (x1 - x0) * along).astype(np.int64)
            dots[rows, columns] = True
