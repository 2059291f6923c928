"""HTML for notebooks: a card, a table, a progress bar and a small chart.

Everything is plain HTML and inline SVG: no scripts, no frames and no files. A saved notebook still
shows it. Text has the colour of the notebook's theme. Loads neither numpy nor anything else heavy:
a training uses it as well as a reader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from epochal.records.format import format_number

Point = tuple[float, float]

MOST_POINTS = 400
_COLOURS = ("#4285d4", "#e8833a")  # readable on white and on black
_LONGEST_NAME = 40
# Width and height, and the room for labels on the left, above and below.
_LABELLED = (520, 130), (58, 16, 14)
_SPARK = (160, 28), (2, 2, 2)
_FONT = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.5"
_MONO = "font-family:ui-monospace,monospace;font-size:12px"
_CELL = "text-align:left;padding:2px 12px 2px 0;border:0;background:none"
_NOTE = "margin:4px 0 0;padding-left:8px;border-left:3px solid #e8833a"


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> Sequence[Point]:
    """Return at most about ``most`` points: the extremes of each slice of x, and the last point.

    Of points that are not finite only the last one remains.
    """
    if len(points) <= most:
        return points
    start, end = min(points)[0], max(points)[0]
    slices_per_x = most / 2 / ((end - start) or 1.0)
    low: dict[int, Point] = {}
    high: dict[int, Point] = {}
    for point in points:
        if not math.isfinite(point[1]):
            continue
        number = int((point[0] - start) * slices_per_x)
        if number not in low or point[1] < low[number][1]:
            low[number] = point
        if number not in high or point[1] > high[number][1]:
            high[number] = point
    return sorted({*low.values(), *high.values(), points[-1]})


def chart(lines: Mapping[str, Sequence[Point]], *, labels: bool = True) -> str:
    """Draw lines by name as SVG; "" where no point is finite. Without labels it is a sparkline."""
    few = {name: thinned(points) for name, points in lines.items()}
    finite = {
        name: [point for point in points if math.isfinite(point[1])] for name, points in few.items()
    }
    every = [point for points in finite.values() for point in points]
    if not every:
        return ""
    (width, height), (left, top, bottom) = _LABELLED if labels else _SPARK
    xs = [x for points in few.values() for x, _ in points]  # also where the loss is nan
    start, end = min(xs), max(xs)
    low, high = min(y for _, y in every), max(y for _, y in every)
    if low == high:  # a constant lies in the middle
        room = abs(low) / 10 or 1.0
        low, high = low - room, high + room
    x_scale = (width - left - 4) / ((end - start) or 1.0)
    y_scale = (height - top - bottom) / (high - low)
    parts = []
    for number, (name, points) in enumerate(finite.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [
            f"{left + (x - start) * x_scale:.1f},{height - bottom - (y - low) * y_scale:.1f}"
            for x, y in sorted(points)
        ]
        places += places if len(places) == 1 else []  # a line of no length is drawn as a dot
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}"'
            ' stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>'
        )
        if labels:
            parts.append(_label(left + 220 * number, 10, _short(name), colour=colour))
    if labels:
        parts += [
            _label(left - 6, top + 4, format_number(high), anchor="end"),
            _label(left - 6, height - bottom, format_number(low), anchor="end"),
            _label(left, height - 2, f"{start:,.0f}"),
            _label(width - 4, height - 2, f"{end:,.0f}", anchor="end"),
        ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" style="max-width:100%;vertical-align:middle">{"".join(parts)}</svg>'
    )


def progress_bar(share: float | None, text: str) -> str:
    """A bar with a text beside it; the text alone where the share (0-1) is not known."""
    if share is None:
        return f"<div>{escape(text)}</div>"
    bar = (
        '<div style="flex:0 0 240px;height:8px;border-radius:4px;background:rgba(128,128,128,.3)">'
        f'<div style="width:{100 * share:.1f}%;height:8px;border-radius:4px;'
        f'background:{_COLOURS[0]}"></div></div>'
    )
    return (
        '<div style="display:flex;align-items:center;gap:10px">'
        f"{bar}<span>{escape(text)}</span></div>"
    )


def card(
    title: str,
    status: str,
    *,
    facts: Mapping[str, str] | None = None,
    bar: str = "",
    picture: str = "",
    lines: Iterable[str] = (),
    notes: Iterable[str] = (),
    command: str = "",
    link: str | None = None,
) -> str:
    """A run as a card; ``bar`` and ``picture`` are HTML, everything else is text."""
    values = "".join(
        '<span style="display:inline-block;margin-right:18px">'
        f'<span style="opacity:.65">{escape(_short(name))}</span> <b>{escape(value)}</b></span>'
        for name, value in (facts or {}).items()
    )
    text = escape("\n".join(lines))
    parts = [
        f'<div><b>{escape(title)}</b> <span style="opacity:.75">{escape(status)}</span></div>',
        bar,
        values and f"<div>{values}</div>",
        picture and f"<div>{picture}</div>",
        text and f'<pre style="margin:4px 0 0;background:none;{_MONO}">{text}</pre>',
        *(f'<div style="{_NOTE}">{escape(note)}</div>' for note in notes),
        link and f"<div>{anchor(link)}</div>",
        command and f'<div style="margin-top:4px"><code>{escape(command)}</code></div>',
    ]
    return f'<div style="{_FONT};margin:4px 0">{"".join(part or "" for part in parts)}</div>'


def anchor(url: str) -> str:
    """An address as a link that opens in a new tab."""
    return f'<a href="{escape(url)}" target="_blank" rel="noopener">{escape(url)}</a>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, below: str = "") -> str:
    """A table of texts, with a line of text below it."""
    head = "".join(f'<th style="{_CELL};opacity:.65">{escape(name)}</th>' for name in header)
    body = "".join(
        f'<tr style="background:none">{"".join(_cell(text) for text in row)}</tr>' for row in rows
    )
    return (
        f'<div style="{_FONT}"><table style="font:inherit;border-collapse:collapse">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{escape(below)}</div>"
    )


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{escape(text)}</td>'


def _label(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "") -> str:
    fill = colour or 'currentColor" fill-opacity="0.65'
    return (
        f'<text x="{x}" y="{y}" font-size="11" text-anchor="{anchor}" fill="{fill}">'
        f"{escape(text)}</text>"
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
