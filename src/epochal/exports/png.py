"""The losses of runs as a PNG picture, drawn with Pillow: twice as large as the SVG picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from epochal.errors import UsageError
from epochal.exports.export import Rows
from epochal.exports.loss_picture import BOTTOM, HEIGHT, TOP, WIDTH, Dot, Stroke, draw
from epochal.store.store import RunView

if TYPE_CHECKING:
    from PIL.Image import Image

_SCALE = 2
# Lines are drawn this many times as large and made smaller, which smooths their edges.
_FINER = 2
_FONT_SIZE = 11
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
_MISSING = "png pictures need the package 'pillow': pip install pillow, or write svg instead."
_Point = tuple[float, float]


def write(runs: Sequence[RunView], out: BinaryIO, *, rows: Rows | None = None) -> None:
    """Write one picture of all runs; ``rows`` has no effect.

    Raises ``UsageError`` where Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise UsageError(_MISSING) from error
    picture = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), "white")
    font = ImageFont.load_default(_FONT_SIZE * _SCALE)
    for shape in draw(runs):
        if isinstance(shape, Stroke):
            _draw_stroke(picture, shape)
        elif isinstance(shape, Dot):
            _draw_dot(picture, shape)
        else:
            ImageDraw.Draw(picture).text(
                (shape.x * _SCALE, shape.y * _SCALE),
                shape.text,
                fill=shape.colour,
                font=font,
                anchor=_ANCHORS[shape.anchor],
            )
    picture.save(out, format="PNG", optimize=True)


def _draw_stroke(picture: Image, stroke: Stroke) -> None:
    """Draw a line; where it crosses itself it is no darker."""
    from PIL import Image, ImageDraw

    mask = Image.new("L", (picture.width * _FINER, picture.height * _FINER))
    pen = ImageDraw.Draw(mask)
    width = round(stroke.width * _SCALE * _FINER)
    shade = round(255 * stroke.opacity)
    for points in _pieces(stroke):
        pen.line(points, fill=shade, width=width, joint="curve")
    mask = mask.reduce(_FINER)
    if not _is_in_legend(stroke):
        # A spike ends at the edge of the plot; ticks stand just below it.
        mask.paste(0, (0, 0, mask.width, TOP * _SCALE))
        mask.paste(0, (0, (HEIGHT - BOTTOM + 5) * _SCALE, mask.width, mask.height))
    picture.paste(stroke.colour, (0, 0), mask=mask)


def _draw_dot(picture: Image, dot: Dot) -> None:
    """Draw a circle with a white edge."""
    from PIL import Image, ImageDraw

    for radius, colour in ((dot.radius + 1.0, "white"), (dot.radius, dot.colour)):
        size = math.ceil(2 * radius * _SCALE) * _FINER
        mask = Image.new("L", (size, size))
        ImageDraw.Draw(mask).ellipse((0, 0, size - 1, size - 1), fill=255)
        corner = (round((dot.x - radius) * _SCALE), round((dot.y - radius) * _SCALE))
        picture.paste(colour, corner, mask=mask.reduce(_FINER))


def _pieces(stroke: Stroke) -> Iterator[list[_Point]]:
    """The stretches without a gap; a point between two gaps is a short line."""
    scale = _SCALE * _FINER
    known = np.isfinite(stroke.x) & np.isfinite(stroke.y)
    for piece in np.split(np.arange(known.size), np.flatnonzero(np.diff(known)) + 1):
        if piece.size and known[piece[0]]:
            x = stroke.x[piece] * scale
            y = np.clip(stroke.y[piece], -HEIGHT, 2 * HEIGHT) * scale
            points = list(zip(x.tolist(), y.tolist(), strict=True))
            yield points if len(points) > 1 else [points[0], (points[0][0] + scale, points[0][1])]


def _is_in_legend(stroke: Stroke) -> bool:
    known = np.isfinite(stroke.x) & np.isfinite(stroke.y)
    return bool(known.any()) and float(stroke.y[known].max()) < TOP
