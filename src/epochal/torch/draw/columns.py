"""The layers of a picture, folded into columns so that a deep model still fits a page.

Each node is in a layer below everything it reads. The layers are split into consecutive runs of
about equal height, and each run is drawn as a column. An edge to a later column leaves at the
bottom and passes below the columns. It climbs in the gap left of its column, and enters from the
top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from epochal.torch.draw.layout import Edge, Placed, place
from epochal.torch.draw.picture import Picture

_GAP_Y = 26.0
_COLUMN_GAP = 46.0
_TRACK = 7.0
_FEWEST_LAYERS = 18
_SHAPE = 1.35  # width over height that a folded drawing tries for
_HIGHEST_COLUMN = 2600.0
_SLACK = 3  # layers by which a cut may move to where fewer edges are cut

Point = tuple[float, float]
Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Centres by key, each edge's stretches (every bend's top and bottom), and the whole size."""

    centres: Mapping[str, Point]
    routes: Mapping[Edge, tuple[tuple[Point, ...], ...]]
    column_of: Mapping[str, int]
    right_of: tuple[float, ...]
    width: float
    height: float


@dataclass(slots=True)
class _Column:
    layers: list[list[str]]
    edges: list[Edge] = field(default_factory=list)
    tops: list[str] = field(default_factory=list)
    bottoms: list[str] = field(default_factory=list)


def arrange(
    layers: Sequence[Sequence[str]], edges: Sequence[Edge], sizes: Mapping[str, Size]
) -> Drawing:
    """Place nodes and edges; every edge must lead to a later layer."""
    heights = [max((sizes[key][1] for key in layer), default=0.0) + _GAP_Y for layer in layers]
    widest = max((sum(sizes[key][0] + 24 for key in layer) for layer in layers), default=0.0)
    cuts = _cuts(layers, edges, heights, widest)
    columns = [
        _Column([list(layer) for layer in layers[start:end]])
        for start, end in zip([0, *cuts], [*cuts, len(layers)], strict=True)
    ]
    column_of = {k: i for i, column in enumerate(columns) for row in column.layers for k in row}
    crossing = _distribute(edges, columns, column_of)
    widths = {key: size[0] for key, size in sizes.items()}
    placed = [place([one.tops, *one.layers, one.bottoms], one.edges, widths) for one in columns]
    return _assembled(placed, columns, column_of, crossing, sizes)


def _cuts(
    layers: Sequence[Sequence[str]], edges: Sequence[Edge], heights: Sequence[float], widest: float
) -> list[int]:
    total = sum(heights)
    width = widest + _COLUMN_GAP
    count = max(round((_SHAPE * total / width) ** 0.5), -(-int(total) // int(_HIGHEST_COLUMN)))
    if len(layers) < _FEWEST_LAYERS or count < 2:
        return []
    layer_of = {key: number for number, layer in enumerate(layers) for key in layer}
    spans = [(layer_of[source], layer_of[target]) for source, target in edges]

    def cut_edges(at: int) -> int:
        return sum(1 for low, high in spans if low < at <= high)

    cuts: list[int] = []
    for number in range(1, count):
        aim, reached, layer = total * number / count, 0.0, 0
        while layer < len(layers) and reached < aim:
            reached += heights[layer]
            layer += 1
        first = (cuts[-1] if cuts else 0) + 1
        near = range(max(layer - _SLACK, first), min(layer + _SLACK, len(layers) - 1) + 1)
        if near:
            cuts.append(min(near, key=lambda at: 2 * cut_edges(at) + abs(at - layer)))
    return cuts


def _distribute(
    edges: Sequence[Edge], columns: list[_Column], column_of: Mapping[str, int]
) -> dict[Edge, tuple[str, str]]:
    """Give each edge to its column; one between columns becomes two, from and to a port."""
    crossing: dict[Edge, tuple[str, str]] = {}
    for source, target in edges:
        start, end = column_of[source], column_of[target]
        if start == end:
            columns[start].edges.append((source, target))
            continue
        # One way out and one way in for all edges of a node to the same column.
        leaves, enters = f"\1out:{source}:{end}", f"\1in:{source}:{end}"
        if leaves not in columns[start].bottoms:
            columns[start].bottoms.append(leaves)
            columns[start].edges.append((source, leaves))
            columns[end].tops.append(enters)
        columns[end].edges.append((enters, target))
        crossing[source, target] = (leaves, enters)
    return crossing


@dataclass(frozen=True, slots=True)
class _Way:
    """The tracks of an edge between columns: how far down below them, how far left of its own."""

    column: int
    below: int
    beside: int


def _ways(
    crossing: Mapping[Edge, tuple[str, str]], column_of: Mapping[str, int]
) -> dict[tuple[str, str], _Way]:
    ways: dict[tuple[str, str], _Way] = {}
    taken: list[tuple[int, int, int]] = []  # track, and from which column to which
    for (source, target), ports in crossing.items():
        if ports in ways:
            continue
        start, end = column_of[source], column_of[target]
        used = {track for track, low, high in taken if low < end and start < high}
        below = next(track for track in range(len(used) + 1) if track not in used)
        taken.append((below, start, end))
        beside = sum(1 for way in ways.values() if way.column == end)
        ways[ports] = _Way(end, below, beside)
    return ways


def _assembled(
    placed: Sequence[Placed],
    columns: Sequence[_Column],
    column_of: Mapping[str, int],
    crossing: Mapping[Edge, tuple[str, str]],
    sizes: Mapping[str, Size],
) -> Drawing:
    ways = _ways(crossing, column_of)
    lowest = max((way.below for way in ways.values()), default=-1) + 1
    beside = [sum(1 for way in ways.values() if way.column == i) for i in range(len(columns))]
    head = _TRACK * (max(beside) + 1) if ways else 0.0
    centres: dict[str, Point] = {}
    spans: dict[str, tuple[float, float]] = {}
    lefts: list[float] = []
    left, bottom = 0.0, 0.0
    for number, column in enumerate(placed):
        left += _COLUMN_GAP + _TRACK * beside[number] if number else 0.0
        lefts.append(left)
        y = head
        for row in filter(None, column.layers):
            height = max((sizes[key][1] for key in row if key in sizes), default=0.0)
            for key in row:
                centres[key] = (left + column.x[key], y + height / 2)
                half = sizes[key][1] / 2 if key in sizes else height / 2
                spans[key] = (y + height / 2 - half, y + height / 2 + half)
            y += height + (_GAP_Y if height else _GAP_Y / 2)
        bottom = max(bottom, y - (0 if ways else _GAP_Y))
        left += column.width
    routes = _routes(placed, centres, spans, column_of)
    for edge, (leaves, enters) in crossing.items():
        track = ways[leaves, enters]
        source, target = edge
        low = bottom + _TRACK * track.below
        climb = lefts[column_of[target]] - _COLUMN_GAP / 2 - _TRACK * track.beside
        high = head - _TRACK * (track.beside + 1)
        way = (
            centres[leaves],
            (centres[leaves][0], low),
            (climb, low),
            (climb, high),
            (centres[enters][0], high),
            centres[enters],
        )
        routes[edge] = (*routes[source, leaves], way, *routes[enters, target])
    for leaves, enters in crossing.values():
        for pair in [pair for pair in routes if leaves in pair or enters in pair]:
            del routes[pair]
    return Drawing(
        {key: point for key, point in centres.items() if key in sizes},
        routes,
        column_of,
        tuple(x + one.width for x, one in zip(lefts, placed, strict=True)),
        left,
        bottom + _TRACK * lowest,
    )


def _routes(
    placed: Sequence[Placed],
    centres: Mapping[str, Point],
    spans: Mapping[str, tuple[float, float]],
    column_of: Mapping[str, int],
) -> dict[Edge, tuple[tuple[Point, ...], ...]]:
    routes: dict[Edge, tuple[tuple[Point, ...], ...]] = {}
    for column in placed:
        for edge, items in column.routes.items():
            points: list[Point] = [(centres[items[0]][0], spans[items[0]][1])]
            for bend in items[1:-1]:
                points += [(centres[bend][0], spans[bend][0]), (centres[bend][0], spans[bend][1])]
            points.append((centres[items[-1]][0], spans[items[-1]][0]))
            routes[edge] = (tuple(points),)
    return routes


def layered(picture: Picture) -> tuple[list[list[str]], list[Edge]]:
    """The layers, and the edges that lead down: each node is below everything it reads.

    What reads nothing (an input, a carried value) is just above the first node that reads it.
    """
    keys = [node.key for node in picture.nodes]
    edges = _forward_edges(picture)
    before: dict[str, list[str]] = {key: [] for key in keys}
    after: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    layer: dict[str, int] = {}
    for key in _sorted(keys, before, after):
        layer[key] = 1 + max((layer[source] for source in before[key]), default=-1)
    for key in keys:
        if not before[key] and after[key]:
            layer[key] = min(layer[target] for target in after[key]) - 1
    used = sorted(set(layer.values()))
    rows: list[list[str]] = [[] for _ in used]
    for key in keys:
        rows[used.index(layer[key])].append(key)
    return rows, edges


def _forward_edges(picture: Picture) -> list[Edge]:
    """Every pair once, without what leads back: from a node to the state that carries it."""
    states = {node.key for node in picture.nodes if node.kind == "state"}
    pairs = [
        (edge.source, edge.target)
        for edge in picture.edges
        if edge.source != edge.target and edge.target not in states
    ]
    return list(dict.fromkeys(pairs))


def _sorted(
    keys: list[str], before: dict[str, list[str]], after: dict[str, list[str]]
) -> list[str]:
    waiting = {key: len(before[key]) for key in keys}
    ready = [key for key in keys if not waiting[key]]
    order: list[str] = []
    while ready:
        key = ready.pop()
        order.append(key)
        for target in after[key]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    assert len(order) == len(keys), "a picture's flow has no cycle"
    return order
