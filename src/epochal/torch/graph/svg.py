"""A picture as SVG: one file, no script, light or dark as the viewer prefers.

Each node is in a layer below everything it reads. An edge over several layers gets a bend in each
of them, so that it passes between the nodes. The order within a layer follows the barycentres of
the neighbours; the sweep with the fewest crossings wins. Then each layer moves as near to its
neighbours as its order and the widths allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from epochal.format import format_count
from epochal.torch.graph.picture import Picture, PictureNode
from epochal.torch.graph.profile import format_time

_MARGIN, _HEAD, _LINE, _GAP_Y = 24.0, 34.0, 13.0, 26.0
_GAP_X, _BEND_GAP_X = 22.0, 12.0
_LONGEST = 34
_ORDER_SWEEPS, _PLACE_SWEEPS = 12, 160
# Long edges and chains of nodes are to be straight; where both meet, the edge gives way.
_BEND_PULL, _CHAIN_PULL, _MIXED_PULL = 8.0, 4.0, 0.1
# How much wider and higher than its text an outline is, where it narrows.
_ROOMIER = {"activation": (1.22, 1.12), "input": (1.15, 1.0), "output": (1.15, 1.0)}
_TEXT_SCALE = {"name": 1.12, "tag": 0.86, "count": 0.86, "time": 0.86}

Point = tuple[float, float]
Edge = tuple[str, str]
Layers = list[list[str]]
Routes = dict[Edge, tuple[str, ...]]  # the bends that an edge passes, both ends included


def draw_svg(picture: Picture) -> str:
    """Draw the picture; every name in it is escaped."""
    lines = {node.key: _lines(node) for node in picture.nodes}
    sizes = {node.key: _size(node, lines[node.key]) for node in picture.nodes}
    centres, routes, size = _arranged(picture, sizes)
    heat = _heat(picture)
    profile = picture.profile
    subtitle = picture.note
    if profile is not None:
        timing = f"forward {format_time(profile.forward_ms)}"
        parts = [timing, f"median of {profile.passes} on {profile.device}", picture.note]
        subtitle = " · ".join(filter(None, parts))
    heading = max(_width(picture.title) * 1.25, _width(subtitle) * 0.9)
    width = max(size[0], heading, 280) + 2 * _MARGIN
    height = size[1] + _HEAD + _MARGIN + 12 + (26 if profile is not None else 0)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="epochal-graph" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{escape(picture.title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="ep-tip" class="tip" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0,1L7,4L0,7Z"/></marker></defs>',
        f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="head" x="{_MARGIN}" y="21">{escape(picture.title)}</text>',
        f'<text class="sub" x="{_MARGIN}" y="36">{escape(subtitle)}</text>',
        f'<g transform="translate({_MARGIN},{_HEAD + 12})">',
        *(_edge(routes[edge]) for edge in picture.edges if edge in routes),
        *(
            _node(node, centres[node.key], sizes[node.key], lines[node.key], heat.get(node.key))
            for node in picture.nodes
        ),
        "</g>",
    ]
    if profile is not None:
        out.append(f'<g transform="translate({_MARGIN},{height - 22:.0f})">{_heat_legend()}</g>')
    return "\n".join([*out, "</svg>"]) + "\n"


def heat_colour(share: float) -> str:
    """Return green at 0, yellow at a half, red at 1."""
    stops = ((0x27, 0xAE, 0x60), (0xF3, 0x9C, 0x12), (0xE7, 0x4C, 0x3C))
    place = min(max(share, 0.0), 1.0) * 2
    low, part = (0, place) if place < 1 else (1, place - 1)
    return "#" + "".join(
        f"{round(a + (b - a) * part):02x}" for a, b in zip(stops[low], stops[low + 1], strict=True)
    )


# -- nodes and edges ------------------------------------------------------------------------------


def _lines(node: PictureNode) -> list[tuple[str, str]]:
    """Return the lines of text in a node, each with its style."""
    lines = [("name", _short(node.title))]
    if node.tags:
        lines.append(("tag", _short(" ".join(f"#{tag}" for tag in node.tags))))
    if node.parameters and node.kind != "merge":
        lines.append(("count", format_count(node.parameters)))
    if node.time_ms is not None and node.kind != "merge":
        lines.append(("time", format_time(node.time_ms)))
    return lines


def _size(node: PictureNode, lines: Sequence[tuple[str, str]]) -> Point:
    text_width = max(_width(text) * _TEXT_SCALE[style] for style, text in lines)
    text_height = _LINE * len(lines)
    if node.kind == "merge":
        side = max(text_width + 12, text_height + 10, 30.0)
        return side, side
    wider, higher = _ROOMIER.get(node.kind, (1.0, 1.0))
    return max(text_width * wider + 22, 54.0), text_height * higher + 14


def _node(
    node: PictureNode,
    centre: Point,
    size: Point,
    lines: Sequence[tuple[str, str]],
    heat: float | None,
) -> str:
    hot = "" if heat is None else f' style="fill:{heat_colour(heat)}"'
    top = centre[1] - _LINE * (len(lines) - 1) / 2 + 4
    texts = "".join(
        f'<text class="{style}" x="{centre[0]:.1f}" y="{top + _LINE * i:.1f}">{escape(text)}</text>'
        for i, (style, text) in enumerate(lines)
    )
    hint = [node.key.strip(), node.title, *(f"#{tag}" for tag in node.tags)]
    if node.parameters:
        hint.append(f"{node.parameters:,} parameters")
    if node.time_ms is not None:
        hint.append(f"forward {format_time(node.time_ms)}")
    title = escape("\n".join(dict.fromkeys(hint)))
    timed = "" if heat is None else " timed"
    shape = f'{_outline(node.kind, *centre, *size)} class="shape"{hot}/>'
    return f'<g class="node {node.kind}{timed}"><title>{title}</title>{shape}{texts}</g>'


def _outline(kind: str, x: float, y: float, w: float, h: float) -> str:
    """Return the SVG element of a node's outline, without its end: a class can be added."""
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    if kind == "activation":
        return f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{w / 2:.1f}" ry="{h / 2:.1f}"'
    if kind == "merge":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{w / 2:.1f}"'
    if kind in ("input", "output"):
        # A house; the input's points down.
        flat, roof = (top, bottom) if kind == "input" else (bottom, top)
        eaves = roof + (flat - roof) * 0.3
        points = [(left, flat), (left, eaves), (x, roof), (right, eaves), (right, flat)]
        return f'<path d="M{"L".join(map(_at, points))}Z"'
    radius = 12 if kind == "graph" else 5
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}"'


def _edge(points: Sequence[Point]) -> str:
    """Draw an edge: a curve from layer to layer, straight past the nodes of a layer."""
    path = [f"M{_at(points[0])}"]
    for number, (a, b) in enumerate(pairwise(points)):
        if number % 2 or abs(a[0] - b[0]) < 0.5:
            path.append(f"L{_at(b)}")
        else:
            middle = (a[1] + b[1]) / 2
            path.append(f"C{a[0]:.1f},{middle:.1f} {b[0]:.1f},{middle:.1f} {_at(b)}")
    return f'<path class="edge" d="{"".join(path)}" marker-end="url(#ep-tip)"/>'


def _heat(picture: Picture) -> dict[str, float]:
    """Return each timed node's time as a share of the slowest one's."""
    times = {node.key: node.time_ms for node in picture.nodes if node.time_ms is not None}
    slowest = max(times.values(), default=0.0)
    return {key: time / slowest for key, time in times.items()} if slowest > 0 else {}


def _heat_legend() -> str:
    boxes = "".join(
        f'<rect x="{8 * i}" y="-1" width="8" height="10" fill="{heat_colour(i / 11)}"/>'
        for i in range(12)
    )
    return f'{boxes}<text class="legend" x="104" y="8">fastest to slowest node</text>'


def _width(text: str) -> float:
    """Return about how wide a text is in the picture's font, in pixels."""
    narrow, wide = set("iljtfr.,:;|!'()[] "), set("mwMW@%—")
    return sum(
        3.8 if c in narrow else 10.5 if c in wide else 7.0 if c.isascii() else 8.0 for c in text
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _at(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


# -- layout ---------------------------------------------------------------------------------------


def _arranged(
    picture: Picture, sizes: Mapping[str, Point]
) -> tuple[dict[str, Point], dict[Edge, list[Point]], Point]:
    """Return the centres of the nodes, the points of the edges, and the whole size."""
    layers, edges = layered(picture)
    layers, routes = _with_bends(layers, edges)
    links = [pair for route in routes.values() for pair in pairwise(route)]
    layers = _ordered(layers, links)
    widths = {key: size[0] for key, size in sizes.items()}
    x = _horizontal(layers, links, widths)
    left = min((x[key] - widths.get(key, 0.0) / 2 for key in x), default=0.0)
    right = max((x[key] + widths.get(key, 0.0) / 2 for key in x), default=0.0)
    centres: dict[str, Point] = {}
    spans: dict[str, Point] = {}
    y = 0.0
    for layer in layers:
        height = max((sizes[key][1] for key in layer if key in sizes), default=0.0)
        for key in layer:
            half = sizes[key][1] / 2 if key in sizes else height / 2
            centres[key] = (x[key] - left, y + height / 2)
            spans[key] = (y + height / 2 - half, y + height / 2 + half)
        y += height + _GAP_Y
    points: dict[Edge, list[Point]] = {}
    for edge, route in routes.items():
        ends = [(centres[key][0], side) for key in route for side in spans[key]]
        points[edge] = ends[1:-1]  # from the bottom of the first to the top of the last
    return centres, points, (right - left, max(0.0, y - _GAP_Y))


def layered(picture: Picture) -> tuple[Layers, list[Edge]]:
    """Return the nodes in layers, each below everything it reads, and the edges, each once.

    An input is just above the first node that reads it.
    """
    edges = list(dict.fromkeys((edge.source, edge.target) for edge in picture.edges))
    before, after = _neighbours(edges)
    layer: dict[str, int] = {}
    waiting = [node.key for node in picture.nodes]
    while waiting:
        ready = [key for key in waiting if all(one in layer for one in before.get(key, ()))]
        assert ready, "a picture's flow has no cycle"
        for key in ready:
            layer[key] = 1 + max((layer[source] for source in before.get(key, ())), default=-1)
        waiting = [key for key in waiting if key not in layer]
    for key in layer:
        if key not in before and key in after:
            layer[key] = min(layer[target] for target in after[key]) - 1
    used = sorted(set(layer.values()))
    rows: Layers = [[] for _ in used]
    for node in picture.nodes:
        rows[used.index(layer[node.key])].append(node.key)
    return rows, edges


def _with_bends(layers: Layers, edges: Sequence[Edge]) -> tuple[Layers, Routes]:
    rows = [list(layer) for layer in layers]
    layer_of = {key: number for number, row in enumerate(rows) for key in row}
    routes: Routes = {}
    for source, target in edges:
        between = range(layer_of[source] + 1, layer_of[target])
        bends = [f"\0{source}\0{target}\0{layer}" for layer in between]
        for layer, bend in zip(between, bends, strict=True):
            rows[layer].append(bend)
        routes[source, target] = (source, *bends, target)
    return rows, routes


def _ordered(rows: Layers, links: Sequence[Edge]) -> Layers:
    above, below = _neighbours(links)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        rows = [list(row) for row in rows]
        for number in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
            place_of = {key: i for i, key in enumerate(rows[number + (-1 if downwards else 1)])}
            keys: dict[str, float] = {}
            for index, key in enumerate(rows[number]):
                places = [place_of[other] for other in neighbours.get(key, ())]
                keys[key] = sum(places) / len(places) if places else float(index)
            rows[number].sort(key=keys.__getitem__)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: Layers, below: Mapping[str, list[str]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place_of = {key: index for index, key in enumerate(lower)}
        ends = [end for key in upper for end in sorted(place_of[t] for t in below.get(key, ()))]
        total += sum(
            1 for i, first in enumerate(ends) for second in ends[i + 1 :] if second < first
        )
    return total


def _horizontal(
    rows: Layers, links: Sequence[Edge], widths: Mapping[str, float]
) -> dict[str, float]:
    """Return the centre of each item: near to its neighbours, with room for all."""
    pulls: dict[str, list[tuple[str, float]]] = {}
    for source, target in links:
        pull = (_CHAIN_PULL, _MIXED_PULL, _BEND_PULL)[_is_bend(source) + _is_bend(target)]
        pulls.setdefault(source, []).append((target, pull))
        pulls.setdefault(target, []).append((source, pull))
    x: dict[str, float] = {}
    for row in rows:
        offsets = _offsets(row, widths)
        x.update({key: offset - offsets[-1] / 2 for key, offset in zip(row, offsets, strict=True)})
    for sweep in range(_PLACE_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for key in row:
                weight = sum(pull for _, pull in pulls.get(key, ()))
                pulled = sum(x[other] * pull for other, pull in pulls.get(key, ()))
                wanted.append((pulled / weight, weight) if weight else (x[key], 0.1))
            x.update(zip(row, _pooled(wanted, _offsets(row, widths)), strict=True))
    return x


def _pooled(wanted: Sequence[Point], offsets: Sequence[float]) -> list[float]:
    """Return the positions nearest to the wanted ones (with weights) that keep order and gaps."""
    blocks: list[tuple[float, float, int]] = []
    for (place, weight), offset in zip(wanted, offsets, strict=True):
        blocks.append((place - offset, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, wa, na), (b, wb, nb) = blocks[-2:]
            blocks[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    bases = [base for base, _, count in blocks for _ in range(count)]
    return [base + offset for base, offset in zip(bases, offsets, strict=True)]


def _offsets(row: Sequence[str], widths: Mapping[str, float]) -> list[float]:
    """Return the least distances from the first centre of a row to each."""
    offsets = [0.0] if row else []
    for before, key in pairwise(row):
        gap = _BEND_GAP_X if _is_bend(key) and _is_bend(before) else _GAP_X
        half = (widths.get(before, 0.0) + widths.get(key, 0.0)) / 2
        offsets.append(offsets[-1] + half + gap)
    return offsets


def _neighbours(links: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for source, target in links:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    return above, below


def _is_bend(key: str) -> bool:
    return key.startswith("\0")


# -- style ----------------------------------------------------------------------------------------

# Name: the colour on a light and on a dark page.
_COLOURS = {
    "ground": ("#ffffff", "#14171d"),
    "ink": ("#1b1f27", "#e6e9ef"),
    "dim": ("#667085", "#98a1b0"),
    "line": ("#475467", "#8a94a6"),
    "link": ("#2f6fde", "#6ba2ff"),
    "module": ("#eef2f7", "#232833"),
    "module-line": ("#98a2b3", "#515b6d"),
    "activation": ("#e7f6ec", "#173226"),
    "activation-line": ("#6cbf8b", "#3f8b62"),
    "norm": ("#fdf3e1", "#362b17"),
    "norm-line": ("#e0ac55", "#93702f"),
    "merge": ("#ffffff", "#14171d"),
    "merge-line": ("#475467", "#8a94a6"),
    "graph": ("#f1ecfd", "#2a2342"),
    "graph-line": ("#9d83e0", "#7a65b8"),
    "port": ("#e4eefc", "#1b2c49"),
    "port-line": ("#6f9ee8", "#4a78c2"),
}
_FAMILIES = ("module", "activation", "norm", "merge", "graph")
_SHAPES = {one: one for one in _FAMILIES} | {
    "operation": "module",
    "input": "port",
    "output": "port",
}
_STYLE = (
    f".epochal-graph{{{''.join(f'--ep-{name}:{light};' for name, (light, _) in _COLOURS.items())}"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "@media(prefers-color-scheme:dark){.epochal-graph{"
    f"{''.join(f'--ep-{name}:{dark};' for name, (_, dark) in _COLOURS.items())}}}}}"
    ".epochal-graph text{font-size:12px;fill:var(--ep-ink);text-anchor:middle}"
    ".epochal-graph .ground{fill:var(--ep-ground)}"
    ".epochal-graph .head{font-size:14px;font-weight:600;text-anchor:start}"
    ".epochal-graph .sub,.epochal-graph .legend{font-size:11px;fill:var(--ep-dim);"
    "text-anchor:start}"
    ".epochal-graph .name{font-weight:600}"
    ".epochal-graph .tag{font-size:10.5px;fill:var(--ep-link)}"
    ".epochal-graph .count,.epochal-graph .time{font-size:10.5px;fill:var(--ep-dim)}"
    ".epochal-graph .shape{stroke-width:1.2}"
    ".epochal-graph .edge{fill:none;stroke:var(--ep-line);stroke-width:1.2}"
    ".epochal-graph .tip path{fill:var(--ep-line)}"
    ".epochal-graph .timed text{fill:#10131a}"
    + "".join(
        f".epochal-graph .{kind} .shape{{fill:var(--ep-{family});stroke:var(--ep-{family}-line)}}"
        for kind, family in _SHAPES.items()
    )
)
