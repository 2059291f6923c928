"""Draws the charts of ``wandb.plot`` as SVG: lines, points, bars, a matrix."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from typing import Any

from epochal.format import format_number
from epochal.wandb.data_types.table import Table

_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 28, 40
_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5")
_MOST_POINTS = 10_000
_MOST_NAMES = 40

Point = tuple[float, float]


def draw(
    spec: str, table: Table, fields: Mapping[str, Any], texts: Mapping[str, Any]
) -> str | None:
    """A drawing of a table; None of a chart that is not known, or without a point."""
    kind = spec.removeprefix("wandb/").partition("/")[0]
    drawn = _KINDS.get(kind)
    if drawn is None or not table.data:
        return None
    columns = {name: index for index, name in enumerate(table.columns)}
    chosen = {key: columns.get(name) for key, name in fields.items() if name is not None}
    if any(index is None for index in chosen.values()):
        return None
    body = drawn(table.data[:_MOST_POINTS], chosen)
    if body is None:
        return None
    title = html.escape(str(texts.get("title") or ""))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="11">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
        f'<text x="{_LEFT}" y="18" font-size="13" font-weight="600">{title}</text>{body}</svg>'
    )


def _lines(rows: list[list[Any]], at: Mapping[str, Any], *, points: bool = False) -> str | None:
    x, y = at.get("x", at.get("step")), at.get("y", at.get("lineVal"))
    by = at.get("stroke", at.get("class", at.get("lineKey")))
    if x is None or y is None:
        return None
    lines: dict[str, list[Point]] = {}
    for row in rows:
        place = _number(row[x]), _number(row[y])
        if place[0] is not None and place[1] is not None:
            name = "" if by is None else str(row[by])
            lines.setdefault(name, []).append((place[0], place[1]))
    if not lines:
        return None
    every = [point for line in lines.values() for point in line]
    to_x, to_y, axes = _axes(every)
    body = [axes]
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(to_x(one), to_y(other)) for one, other in line]
        if points:
            body += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>' for a, b in places
            ]
        else:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            body.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        if name and number < len(_COLOURS):
            body.append(_label(_WIDTH - _RIGHT, _TOP + 4 + 13 * number, name, "end", colour))
    return "".join(body)


def _points(rows: list[list[Any]], at: Mapping[str, Any]) -> str | None:
    return _lines(rows, at, points=True)


def _bars(rows: list[list[Any]], at: Mapping[str, Any]) -> str | None:
    named = [(str(row[at["label"]]), _number(row[at["value"]])) for row in rows[:_MOST_NAMES]]
    values = [(name, value) for name, value in named if value is not None]
    return _columns(values) if values else None


def _distribution(rows: list[list[Any]], at: Mapping[str, Any]) -> str | None:
    import numpy as np

    found = [value for row in rows if (value := _number(row[at["value"]])) is not None]
    if not found:
        return None
    counts, edges = np.histogram(found, bins=min(30, max(1, len(set(found)))))
    names = [format_number(float(edge)) for edge in edges[:-1]]
    return _columns(list(zip(names, counts.tolist(), strict=True)))


def _columns(values: list[tuple[str, float]]) -> str:
    _, to_y, axes = _axes([(0.0, 0.0), *((1.0, value) for _, value in values)], numbers=False)
    room = (_WIDTH - _LEFT - _RIGHT) / len(values)
    body = [axes]
    for number, (name, value) in enumerate(values):
        top, bottom = sorted((to_y(value), to_y(0.0)))
        left = _LEFT + room * number
        body.append(
            f'<rect x="{left + room * 0.1:.1f}" y="{top:.1f}" width="{room * 0.8:.1f}"'
            f' height="{max(bottom - top, 0.5):.1f}" fill="{_COLOURS[0]}"/>'
        )
        if len(values) <= 12:
            body.append(_label(left + room / 2, _HEIGHT - _BOTTOM + 16, name[:14], "middle"))
    return "".join(body)


def _matrix(rows: list[list[Any]], at: Mapping[str, Any]) -> str | None:
    names = list(dict.fromkeys(str(row[at["Actual"]]) for row in rows))
    if not 0 < len(names) <= _MOST_NAMES:
        return None
    place = {name: number for number, name in enumerate(names)}
    most = max((_number(row[at["nPredictions"]]) or 0.0 for row in rows), default=0.0) or 1.0
    width = (_WIDTH - _LEFT - 40) / len(names)
    height = (_HEIGHT - _TOP - _BOTTOM) / len(names)
    body: list[str] = []
    for row in rows:
        count = _number(row[at["nPredictions"]]) or 0.0
        i, j = place[str(row[at["Actual"]])], place.get(str(row[at["Predicted"]]), 0)
        x, y = _LEFT + 28 + width * j, _TOP + height * i
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            f' fill="{_COLOURS[0]}" fill-opacity="{count / most:.3f}" stroke="#ddd"/>'
        )
        if len(names) <= 12:
            middle = (x + width / 2, y + height / 2 + 4)
            body.append(_label(*middle, format_number(count), "middle"))
    for name, number in place.items():
        y = _TOP + height * (number + 0.5) + 4
        body.append(_label(_LEFT + 24, y, name[:12], "end"))
        x = _LEFT + 28 + width * (number + 0.5)
        body.append(_label(x, _HEIGHT - _BOTTOM + 14, name[:12], "middle"))
    body.append(_label(_WIDTH / 2, _HEIGHT - 8, "predicted (columns), actual (rows)", "middle"))
    return "".join(body)


def _axes(
    points: list[Point], *, numbers: bool = True
) -> tuple[Callable[[float], float], Callable[[float], float], str]:
    """How to place a point, and the frame with the ends of both axes."""
    to_x, low_x, high_x = _scale([x for x, _ in points], _LEFT, _WIDTH - _RIGHT)
    to_y, low_y, high_y = _scale([y for _, y in points], _HEIGHT - _BOTTOM, _TOP)
    frame = (
        f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}" fill="none"'
        ' stroke="#999"/>'
    )
    ends = [
        _label(_LEFT - 4, _TOP + 8, format_number(high_y), "end"),
        _label(_LEFT - 4, _HEIGHT - _BOTTOM, format_number(low_y), "end"),
    ]
    if numbers:
        ends.append(_label(_LEFT, _HEIGHT - _BOTTOM + 16, format_number(low_x), "start"))
        ends.append(_label(_WIDTH - _RIGHT, _HEIGHT - _BOTTOM + 16, format_number(high_x), "end"))
    return to_x, to_y, frame + "".join(ends)


def _scale(
    values: list[float], start: float, end: float
) -> tuple[Callable[[float], float], float, float]:
    low, high = min(values), max(values)
    width = (high - low) or 1.0

    def to_pixel(value: float) -> float:
        return start + (value - low) / width * (end - start)

    return to_pixel, low, high


def _label(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">'
        f"{html.escape(text)}</text>"
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


_KINDS: Mapping[str, Callable[[list[list[Any]], Mapping[str, Any]], str | None]] = {
    "line": _lines,
    "lineseries": _lines,
    "area-under-curve": _lines,
    "scatter": _points,
    "bar": _bars,
    "histogram": _distribution,
    "confusion_matrix": _matrix,
}
