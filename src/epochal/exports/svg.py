"""The losses of runs as an SVG picture, written without a library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO
from xml.sax.saxutils import escape

import numpy as np

from epochal.exports.export import Rows
from epochal.exports.loss_picture import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Dot,
    Label,
    Shape,
    Stroke,
    draw,
)
from epochal.store.store import RunView


def write(runs: Sequence[RunView], out: TextIO, *, rows: Rows | None = None) -> None:
    """Write one picture of all runs; ``rows`` does not apply and is ignored."""
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n'
        f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}"'
        f' height="{HEIGHT - TOP - BOTTOM + 5}"/></clipPath>\n'
    )
    for shape in draw(runs):
        out.writelines(f"{line}\n" for line in _elements(shape))
    out.write("</svg>\n")


def _elements(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Label):
        yield (
            f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
            f' fill="{shape.colour}">{escape(shape.text)}</text>'
        )
    elif isinstance(shape, Dot):
        yield (
            f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}"'
            f' fill="{shape.colour}" stroke="#fff"/>'
        )
    else:
        yield from _polylines(shape)


def _polylines(stroke: Stroke) -> Iterator[str]:
    """One line for each stretch without a gap; a point between two gaps is a short one."""
    known = np.isfinite(stroke.x) & np.isfinite(stroke.y)
    in_legend = bool(known.any()) and float(np.nanmax(stroke.y)) < TOP
    clip = "" if in_legend else ' clip-path="url(#plot)"'
    for piece in np.split(np.arange(known.size), np.flatnonzero(np.diff(known)) + 1):
        if not piece.size or not known[piece[0]]:
            continue
        # What lies far outside would only make the file long.
        ys = np.clip(stroke.y[piece], -9 * HEIGHT, 9 * HEIGHT)
        points = [f"{x:.1f},{y:.1f}" for x, y in zip(stroke.x[piece], ys, strict=True)]
        if len(points) == 1:
            points.append(f"{stroke.x[piece[0]] + 1:.1f},{ys[0]:.1f}")
        yield (
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{stroke.colour}"'
            f' stroke-width="{stroke.width:g}" stroke-opacity="{stroke.opacity:g}"'
            f' stroke-linejoin="round"{clip}/>'
        )
