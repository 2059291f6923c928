"""Letters for pictures made of pixels: five wide, seven high, capitals only.

A glyph is seven rows; the bits of a row, from 16 down to 1, are its dots from left to right.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

COLUMNS, ROWS = 5, 7
_GLYPHS: Mapping[str, tuple[int, ...]] = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 6, 8, 16, 31),
    "3": (14, 17, 1, 6, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    "A": (14, 17, 17, 31, 17, 17, 17),
    "B": (30, 17, 17, 30, 17, 17, 30),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "D": (30, 17, 17, 17, 17, 17, 30),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "F": (31, 16, 16, 30, 16, 16, 16),
    "G": (14, 17, 16, 23, 17, 17, 15),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "I": (14, 4, 4, 4, 4, 4, 14),
    "J": (7, 2, 2, 2, 2, 18, 12),
    "K": (17, 18, 20, 24, 20, 18, 17),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "M": (17, 27, 21, 21, 17, 17, 17),
    "N": (17, 25, 25, 21, 19, 19, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "Q": (14, 17, 17, 17, 21, 18, 13),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "V": (17, 17, 17, 17, 17, 10, 4),
    "W": (17, 17, 17, 21, 21, 27, 17),
    "X": (17, 17, 10, 4, 10, 17, 17),
    "Y": (17, 17, 10, 4, 4, 4, 4),
    "Z": (31, 1, 2, 4, 8, 16, 31),
    " ": (0, 0, 0, 0, 0, 0, 0),
    ".": (0, 0, 0, 0, 0, 12, 12),
    "…": (0, 0, 0, 0, 0, 0, 21),
    ",": (0, 0, 0, 0, 12, 4, 8),
    ":": (0, 12, 12, 0, 12, 12, 0),
    "-": (0, 0, 0, 31, 0, 0, 0),
    "+": (0, 4, 4, 31, 4, 4, 0),
    "_": (0, 0, 0, 0, 0, 0, 31),
    "=": (0, 0, 31, 0, 31, 0, 0),
    "/": (1, 1, 2, 4, 8, 16, 16),
    "%": (25, 26, 2, 4, 8, 11, 19),
    "(": (2, 4, 8, 8, 8, 4, 2),
    ")": (8, 4, 2, 2, 2, 4, 8),
    "#": (10, 10, 31, 10, 31, 10, 10),
    "@": (14, 17, 23, 21, 23, 16, 14),
}
# What has no glyph is an empty box, so that a name keeps its length.
_UNKNOWN = (31, 17, 17, 17, 17, 17, 31)


def letters(text: str) -> NDArray[np.bool_]:
    """The dots of a text, seven rows high, with a free column between letters."""
    shown = np.zeros((ROWS, max(len(text) * (COLUMNS + 1) - 1, 0)), dtype=np.bool_)
    for place, character in enumerate(text):
        rows = _GLYPHS.get(character.upper(), _UNKNOWN)
        left = place * (COLUMNS + 1)
        for row, bits in enumerate(rows):
            for column in range(COLUMNS):
                shown[row, left + column] = bool(bits >> (COLUMNS - 1 - column) & 1)
    return shown
