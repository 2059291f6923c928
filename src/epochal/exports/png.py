"""The losses of runs as a PNG picture, twice as large as the drawing; needs no drawing library.

Names are in capitals: the letters are our own. Colours and lines are those of the SVG picture.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from epochal.exports.letters import ROWS, letters
from epochal.exports.loss_picture import (
    BOTTOM,
    HEIGHT,
    TOP,
    WIDTH,
    Dot,
    Stroke,
    Words,
    draw,
)
from epochal.store.store import RunView

_SCALE = 2
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BITS, _TRUE_COLOUR = 8, 2

Pixels = NDArray[np.float64]


def write(runs: Sequence[RunView], out: BinaryIO) -> None:
    """Write one picture of all runs."""
    canvas = _Canvas()
    for shape in draw(runs):
        if isinstance(shape, Stroke):
            canvas.stroke(shape)
        elif isinstance(shape, Dot):
            canvas.dot(shape)
        else:
            canvas.words(shape)
    out.write(_encoded(canvas.pixels))


class _Canvas:
    """A white page on which shapes are laid, one over the other."""

    def __init__(self) -> None:
        self.pixels: Pixels = np.full((HEIGHT * _SCALE, WIDTH * _SCALE, 3), 255.0)

    def stroke(self, stroke: Stroke) -> None:
        """Draw a line; where it crosses itself it is no darker."""
        x, y = stroke.x * _SCALE, np.clip(stroke.y, -HEIGHT, 2 * HEIGHT) * _SCALE
        cover: Pixels = np.zeros(self.pixels.shape[:2])
        half = stroke.width * _SCALE / 2
        known = np.isfinite(x) & np.isfinite(y)
        for at in range(x.size - 1):
            if known[at] and known[at + 1]:
                _cover(cover, (x[at], y[at]), (x[at + 1], y[at + 1]), half)
        for at in np.flatnonzero(known & ~_neighbours(known)).tolist():
            _cover(cover, (x[at], y[at]), (x[at] + _SCALE, y[at]), half)
        if known.any() and float(stroke.y[known].max()) >= TOP:
            # A spike ends at the edge of the plot; ticks stand just below it.
            cover[: TOP * _SCALE] = 0.0
            cover[(HEIGHT - BOTTOM + 5) * _SCALE :] = 0.0
        self._lay(cover * stroke.opacity, stroke.colour)

    def dot(self, dot: Dot) -> None:
        """Draw a circle with a white edge."""
        place = (dot.x * _SCALE, dot.y * _SCALE)
        for radius, colour in ((dot.radius + 1.0, "#ffffff"), (dot.radius, dot.colour)):
            cover: Pixels = np.zeros(self.pixels.shape[:2])
            _cover(cover, place, place, radius * _SCALE)
            self._lay(cover, colour)

    def words(self, words: Words) -> None:
        """Set a text in letters of our own; what has no room at the edge is cut."""
        large = letters(words.text).repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)
        dots: Pixels = large.astype(np.float64)
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor]
        left = round(words.x * _SCALE - shift * dots.shape[1])
        top = round((words.y - ROWS) * _SCALE)
        cover: Pixels = np.zeros(self.pixels.shape[:2])
        right = min(left + dots.shape[1], cover.shape[1])
        if 0 <= left < right and 0 <= top <= cover.shape[0] - dots.shape[0]:
            cover[top : top + dots.shape[0], left:right] = dots[:, : right - left]
        self._lay(cover, words.colour)

    def _lay(self, cover: Pixels, colour: str) -> None:
        rows = np.flatnonzero(cover.any(axis=1))
        if not rows.size:
            return
        part = slice(rows[0], rows[-1] + 1)
        ink = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], dtype=np.float64)
        share = cover[part, :, None]
        self.pixels[part] = self.pixels[part] * (1.0 - share) + ink * share


def _neighbours(known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each point has a known one before or after it."""
    around = np.zeros_like(known)
    around[1:] |= known[:-1]
    around[:-1] |= known[1:]
    return around


def _cover(
    cover: Pixels, start: tuple[float, float], end: tuple[float, float], half: float
) -> None:
    """Add the pixels near a piece of line, each by how much of it lies inside."""
    (x0, y0), (x1, y1) = start, end
    reach = half + 1
    left, right = int(max(min(x0, x1) - reach, 0)), int(max(x0, x1) + reach) + 1
    top, bottom = int(max(min(y0, y1) - reach, 0)), int(max(y0, y1) + reach) + 1
    area = cover[top:bottom, left:right]
    if not area.size:
        return
    px = np.arange(left, left + area.shape[1])[None, :] + 0.5
    py = np.arange(top, top + area.shape[0])[:, None] + 0.5
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    along = ((px - x0) * (x1 - x0) + (py - y0) * (y1 - y0)) / length if length else 0.0
    along = np.clip(along, 0.0, 1.0)
    distance = np.hypot(px - x0 - along * (x1 - x0), py - y0 - along * (y1 - y0))
    np.maximum(area, np.clip(half + 0.5 - distance, 0.0, 1.0), out=area)


def _encoded(pixels: Pixels) -> bytes:
    """The pixels as a PNG file: eight bits a colour, rows unfiltered."""
    height, width, _ = pixels.shape
    rows = np.rint(pixels).astype(np.uint8).reshape(height, width * 3)
    body = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, _EIGHT_BITS, _TRUE_COLOUR, 0, 0, 0)
    return (
        _SIGNATURE
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(body, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(name + body)
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", checksum)
