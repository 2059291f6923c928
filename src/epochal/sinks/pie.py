"""A pie chart as one SVG text: memory by segment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape

from epochal.format import format_bytes

_SIZE, _RADIUS, _LINE = 240, 110, 22
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2"),
    *("#edc948", "#b07aa1", "#9c755f", "#ff9da7", "#bab0ac"),
)


def pie_svg(title: str, sizes: Mapping[str, float]) -> str:
    """A slice for each size in bytes that is not 0, the largest first, with a legend."""
    shown = sorted(((s, n) for n, s in sizes.items() if s > 0), reverse=True)
    height = max(_SIZE, _LINE * (len(shown) + 1)) + _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE * 2} {height}"'
        ' font-family="sans-serif" font-size="13">'
        f'<text x="8" y="16" font-weight="bold">{escape(title)}</text>'
        f"{''.join(_slices(shown))}{''.join(_legend(shown))}</svg>"
    )


def _slices(shown: list[tuple[float, str]]) -> Iterator[str]:
    total = math.fsum(size for size, _ in shown)
    x, y = _SIZE / 2, _SIZE / 2 + _LINE
    begin = 0.0
    for index, (size, name) in enumerate(shown):
        end = begin + size / total
        words = f"<title>{escape(name)}: {format_bytes(size)}</title>"
        if len(shown) == 1:
            yield f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{_colour(0)}">{words}</circle>'
            return
        points = [_edge(x, y, share) for share in (begin, end)]
        large = int(end - begin > 0.5)
        yield (
            f'<path d="M{x} {y}L{points[0]}A{_RADIUS} {_RADIUS} 0 {large} 1 {points[1]}Z"'
            f' fill="{_colour(index)}">{words}</path>'
        )
        begin = end


def _legend(shown: list[tuple[float, str]]) -> Iterator[str]:
    for index, (size, name) in enumerate(shown):
        y = _LINE * (index + 2)
        yield f'<rect x="{_SIZE}" y="{y - 11}" width="12" height="12" fill="{_colour(index)}"/>'
        yield f'<text x="{_SIZE + 18}" y="{y}">{escape(name)} {format_bytes(size)}</text>'


def _edge(x: float, y: float, share: float) -> str:
    angle = math.tau * share
    return f"{x + _RADIUS * math.sin(angle):.2f} {y - _RADIUS * math.cos(angle):.2f}"


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]
