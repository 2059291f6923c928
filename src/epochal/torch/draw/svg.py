"""A picture as SVG: one file, no script, light or dark as the viewer prefers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from epochal.format import format_count
from epochal.torch.draw.columns import Drawing, Point, arrange, layered
from epochal.torch.draw.picture import Picture, PictureEdge, PictureNode, heat_colour
from epochal.torch.draw.svg_shapes import STYLE, outline, size_of
from epochal.torch.graph.profile_report import format_time

_MARGIN = 24.0
_HEAD = 34.0
_LINE = 13.0
_LONGEST = 34
_CORNER = 6.0


def draw_svg(picture: Picture) -> str:
    """Draw the picture; every name in it is escaped."""
    nodes = {node.key: node for node in picture.nodes}
    lines = {key: _lines(node) for key, node in nodes.items()}
    sizes = {key: size_of(node.kind, *_text_size(lines[key])) for key, node in nodes.items()}
    layers, edges = layered(picture)
    drawing = arrange(layers, edges, sizes)
    backs = [edge for edge in picture.edges if (edge.source, edge.target) not in drawing.routes]
    foot = _legend(picture)
    subtitle = _subtitle(picture)
    heading = max(_width(picture.title) * 1.25, _width(subtitle) * 0.9)
    width = max(drawing.width + 12 * len(backs), heading, 280) + 2 * _MARGIN
    height = drawing.height + _HEAD + _MARGIN + (26 if foot else 0) + 12
    body = [
        *_level_boxes(picture, drawing, sizes),
        *(_edge(edge, drawing) for edge in picture.edges),
        *(_back_edge(edge, drawing, sizes, number) for number, edge in enumerate(backs)),
        *(_node(picture, nodes[k], drawing.centres[k], sizes[k], lines[k]) for k in nodes),
        *(_edge_label(edge, drawing) for edge in picture.edges if edge.label),
    ]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="epochal-graph" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(picture.title)}</title><style>{STYLE}</style>",
        _markers(),
        f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="head" x="{_MARGIN}" y="21">{escape(picture.title)}</text>',
        f'<text class="sub" x="{_MARGIN}" y="36">{escape(subtitle)}</text>',
        f'<g transform="translate({_MARGIN},{_HEAD + 12})">',
    ]
    tail = ["</g>", foot and f'<g transform="translate({_MARGIN},{height - 22:.0f})">{foot}</g>']
    return "\n".join(filter(None, [*head, *body, *tail, "</svg>"])) + "\n"


def _subtitle(picture: Picture) -> str:
    if picture.profile is None:
        return picture.note
    profile = picture.profile
    parts = [f"forward {format_time(profile.forward_ms)}"]
    if profile.backward_ms == profile.backward_ms:
        parts.append(f"backward {format_time(profile.backward_ms)}")
    parts.append(f"median of {profile.passes} on {profile.device}")
    parts.append(f"measuring {format_time(profile.overhead_ms)} a pass")
    return " · ".join([*parts, *([picture.note] if picture.note else [])])


def _lines(node: PictureNode) -> list[tuple[str, str]]:
    """The lines of text in a node, each with its style."""
    lines = [("name", _short(node.title))]
    facts = [*(f"#{tag}" for tag in node.tags)]
    if facts:
        lines.append(("tag", _short(" ".join(facts))))
    if node.parameters and node.kind != "merge":
        lines.append(("count", format_count(node.parameters)))
    if node.time is not None and node.kind != "merge":
        text = format_time(node.time.forward_ms)
        if node.time.backward_ms == node.time.backward_ms:
            text += f" + {format_time(node.time.backward_ms)}"
        lines.append(("time", text))
    return _joined(lines)


def _joined(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Put a short count on the line of a short tag."""
    if len(lines) > 2 and lines[1][0] == "tag" and lines[2][0] == "count" and len(lines[1][1]) < 16:
        return [lines[0], ("tag", f"{lines[1][1]} · {lines[2][1]}"), *lines[3:]]
    return lines


def _node(
    picture: Picture,
    node: PictureNode,
    centre: Point,
    size: tuple[float, float],
    lines: Sequence[tuple[str, str]],
) -> str:
    heat = picture.heat(node)
    hot = "" if heat is None else f' style="fill:{heat_colour(heat)}"'
    shape = f'{outline(node.kind, (*centre, *size))} class="shape"{hot}/>'
    top = centre[1] - _LINE * (len(lines) - 1) / 2 + 4
    texts = "".join(
        f'<text class="{style}" x="{centre[0]:.1f}" y="{top + _LINE * i:.1f}">{escape(text)}</text>'
        for i, (style, text) in enumerate(lines)
    )
    timed = "" if heat is None else " timed"
    return (
        f'<g class="node {node.kind}{timed}"><title>{escape(_hint(node))}</title>{shape}{texts}</g>'
    )


def _hint(node: PictureNode) -> str:
    facts = [node.key.strip(), node.title, *(f"#{tag}" for tag in node.tags)]
    if node.parameters:
        facts.append(f"{node.parameters:,} parameters")
    if node.time is not None:
        facts.append(f"forward {format_time(node.time.forward_ms)}")
        facts.append(f"backward {format_time(node.time.backward_ms)}")
    return "\n".join(dict.fromkeys(facts))


def _edge(edge: PictureEdge, drawing: Drawing) -> str:
    stretches = drawing.routes.get((edge.source, edge.target))
    if stretches is None:
        return ""
    path = f"M{_at(stretches[0][0])}" + _curve(stretches[0])
    if len(stretches) == 3:
        path += _cornered(stretches[1]) + _curve(stretches[2])
    return f'<path class="edge {edge.kind}" d="{path}" marker-end="url(#ep-{edge.kind})"/>'


def _edge_label(edge: PictureEdge, drawing: Drawing) -> str:
    stretches = drawing.routes.get((edge.source, edge.target))
    if stretches is None:
        return ""
    x, y = stretches[-1][-1]
    text = escape(_short(edge.label))
    return f'<text class="edge-label {edge.kind}" x="{x + 8:.1f}" y="{y - 7:.1f}">{text}</text>'


def _curve(points: Sequence[Point]) -> str:
    """Bow from layer to layer, straight past the nodes of a layer."""
    parts = []
    for number, (a, b) in enumerate(pairwise(points)):
        if number % 2 or abs(a[0] - b[0]) < 0.5:
            parts.append(f"L{_at(b)}")
        else:
            middle = (a[1] + b[1]) / 2
            parts.append(f"C{a[0]:.1f},{middle:.1f} {b[0]:.1f},{middle:.1f} {_at(b)}")
    return "".join(parts)


def _cornered(points: Sequence[Point]) -> str:
    """Run along straight lines with round corners."""
    parts = []
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        parts.append(f"L{_at(_towards(here, before))}Q{_at(here)} {_at(_towards(here, after))}")
    return "".join(parts) + f"L{_at(points[-1])}"


def _towards(here: Point, there: Point) -> Point:
    dx, dy = there[0] - here[0], there[1] - here[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-9)
    step = min(_CORNER, length / 2) / length
    return here[0] + dx * step, here[1] + dy * step


def _back_edge(
    edge: PictureEdge, drawing: Drawing, sizes: dict[str, tuple[float, float]], number: int
) -> str:
    """Lead a carried value back up, on the right of its column."""
    (x1, y1), (x2, y2) = drawing.centres[edge.source], drawing.centres[edge.target]
    right = drawing.right_of[drawing.column_of[edge.source]] + 14 + 8 * number
    start = (x1 + sizes[edge.source][0] / 2, y1)
    end = (x2 + sizes[edge.target][0] / 2, y2)
    path = f"M{_at(start)}" + _cornered([start, (right, y1), (right, y2), end])
    return f'<path class="edge state" d="{path}" marker-end="url(#ep-state)"/>'


def _level_boxes(
    picture: Picture, drawing: Drawing, sizes: dict[str, tuple[float, float]]
) -> list[str]:
    levels: dict[int, list[str]] = {}
    for node in picture.nodes:
        if node.level is not None:
            levels.setdefault(node.level, []).append(node.key)
    times = {time.level: time for time in picture.levels}
    boxes = []
    for level, keys in levels.items():
        if len(keys) < 2:
            continue
        xs = [
            drawing.centres[key][0] + side * sizes[key][0] / 2 for key in keys for side in (-1, 1)
        ]
        ys = [
            drawing.centres[key][1] + side * sizes[key][1] / 2 for key in keys for side in (-1, 1)
        ]
        left, top = min(xs) - 8, min(ys) - 8
        boxes.append(
            f'<rect class="level" x="{left:.1f}" y="{top:.1f}" width="{max(xs) - left + 8:.1f}" '
            f'height="{max(ys) - top + 8:.1f}" rx="8"/>'
        )
        time = times.get(level)
        if time is not None:
            boxes.append(
                f'<text class="level-label" x="{left + 4:.1f}" y="{top - 3:.1f}">level {level} · '
                f"{format_time(time.wall_ms)} · ×{time.parallelism:.2f}</text>"
            )
    return boxes


def _legend(picture: Picture) -> str:
    kinds = {edge.kind for edge in picture.edges}
    entries = [("reference", "reference"), ("state", "carried between calls")]
    parts, x = [], 0.0
    for kind, text in entries:
        if kind in kinds:
            parts.append(f'<path class="edge {kind}" d="M{x:.0f},4H{x + 26:.0f}"/>')
            parts.append(f'<text class="legend" x="{x + 32:.0f}" y="8">{text}</text>')
            x += 60 + _width(text) * 0.9
    if picture.profile is not None:
        for index in range(12):
            colour = heat_colour(index / 11)
            parts.append(
                f'<rect x="{x + 8 * index:.0f}" y="-1" width="8" height="10" fill="{colour}"/>'
            )
        parts.append(f'<text class="legend" x="{x + 104:.0f}" y="8">fastest to slowest node</text>')
    return "".join(parts)


def _markers() -> str:
    return (
        "<defs>"
        + "".join(
            f'<marker id="ep-{kind}" class="tip {kind}" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto"><path d="M0,1L7,4L0,7Z"/></marker>'
            for kind in ("flow", "reference", "state")
        )
        + "</defs>"
    )


def _text_size(lines: Sequence[tuple[str, str]]) -> tuple[float, float]:
    scale = {"name": 1.12, "tag": 0.86, "count": 0.86, "time": 0.86}
    return max(_width(text) * scale[style] for style, text in lines), _LINE * len(lines)


def _width(text: str) -> float:
    """About how wide a text is in the picture's font, in pixels."""
    narrow, wide = set("iljtfr.,:;|!'()[] "), set("mwMW@%—")
    return sum(
        3.8 if c in narrow else 10.5 if c in wide else 7.0 if c.isascii() else 8.0 for c in text
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _at(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
