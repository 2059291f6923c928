"""A picture of a model, read from a graph or from any module, and drawn as SVG.

Each node is in a layer below everything it reads. An edge over several layers gets a bend in each
of them, so that it passes between the nodes. The order within a layer follows the barycentres of
the neighbours. Then each layer moves as near to its neighbours as its order and the widths allow.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from torch import fx, nn

from epochal.base.atomic_file import new_text_file
from epochal.records.format import format_count
from epochal.torch.checks import check_module
from epochal.torch.graph.profile import Profile, format_time, is_part, parts_of
from epochal.torch.graph.wiring import Kind, counts, kind_of
from epochal.torch.structure import unwrapped

_MOST_NODES = 160
# What torch raises for a module it cannot trace; everything of its own derives from these.
_UNTRACEABLE = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
# What moves numbers without computing any is not drawn: its reader reads its source.
_MOVES = frozenset(
    "alias chunk clone contiguous detach expand expand_as flatten getitem item narrow permute "
    "reshape select slice split split_with_sizes squeeze swapaxes t to transpose type_as unbind "
    "unflatten unsqueeze view view_as get float half bfloat16 double cpu cuda".split()
)
_ACTIVATIONS = frozenset(
    "relu gelu silu sigmoid tanh softmax log_softmax leaky_relu elu softplus mish hardswish".split()
)
# In a symbolic trace nothing says that these return no tensors.
_FACTS = frozenset({"getattr", "size", "dim", "numel", "is_floating_point", "data_ptr"})
_TITLES = {
    "add": "+",
    "iadd": "+",
    "mul": "×",
    "imul": "×",
    "scaled_dot_product_attention": "attention",
}


@dataclass(frozen=True, slots=True)
class PictureNode:
    """One shape; `key` is its name in the model, `time_ms` None where it was not timed."""

    key: str
    kind: Kind
    title: str
    tags: tuple[str, ...] = ()
    parameters: int = 0
    time_ms: float | None = None


class PictureEdge(NamedTuple):
    """One line between two keys."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Nodes and edges of a model; `note` says how they were found where that is worth knowing."""

    title: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    profile: Profile | None = None
    note: str = ""

    def svg(self, path: str | Path | None = None) -> str:
        """Draw it as SVG, light or dark as the viewer prefers; also into a file if one is named."""
        text = draw_svg(self)
        if path is not None:
            with new_text_file(path) as out:
                out.write(text)
        return text

    def timed(self, profile: Profile) -> Picture:
        """Return the same picture with every node's time, by its key."""
        nodes = tuple(replace(node, time_ms=profile.nodes.get(node.key)) for node in self.nodes)
        return replace(self, nodes=nodes, profile=profile)


def picture_of(module: nn.Module, *, depth: int | None = None) -> Picture:
    """Draw a module: a Graph as it was built, any other module as torch.fx reads it.

    Of a module that torch.fx cannot read the parts are drawn without their order, and the
    picture's `note` says why. `depth` draws modules that deep in the tree as one; without it that
    happens only when there would be more than 160 nodes.

    Args:
        module: The module.
        depth: How many levels of modules are shown.
    """
    check_module(module, name="module")
    plain: Any = unwrapped(module)
    if kind_of(plain) == "graph":
        picture: Picture = plain.picture()
        return picture
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _small_enough(plain, depth)
    except _UNTRACEABLE as error:
        lines = str(error).strip().splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0]}"[:120]
    trail = _Trail(plain)
    for path in parts_of(plain, depth=depth):
        trail.module(path, [])
    return trail.picture(note=f"parts only; {reason}")


def from_fx(root: nn.Module, depth: int | None) -> Picture:
    """Follow a symbolic trace, which needs no inputs."""

    class Tracer(fx.Tracer):
        """Stops at the parts that are drawn as one."""

        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return is_part(module, path, depth=depth)

    trail = _Trail(root)
    makers: dict[fx.Node, str] = {}
    for node in Tracer().trace(root).nodes:
        reads = [makers[source] for source in node.all_input_nodes if source in makers]
        maker = None
        if node.op == "placeholder":
            maker = trail.input(str(node.target))
        elif node.op == "output":
            trail.outputs += reads
        elif node.op == "call_module":
            maker = trail.module(str(node.target), reads)
        elif node.op != "get_attr":
            name = node.target if isinstance(node.target, str) else node.target.__name__
            maker = None if name in _FACTS else trail.function(name, reads)
        if maker is not None:
            makers[node] = maker
    return trail.picture(note="from torch.fx")


def _small_enough(module: nn.Module, depth: int | None) -> Picture:
    picture = from_fx(module, depth)
    if depth is not None:
        return picture
    deepest = max((path.count(".") + 1 for path in parts_of(module)), default=1)
    for level in range(deepest - 1, 0, -1):
        if len(picture.nodes) <= _MOST_NODES:
            break
        picture = from_fx(module, level)
    return picture


class _Trail:
    """Collects the nodes of a picture while a trace is followed from call to call.

    The keys that it returns stand for the values that a node made.
    """

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._nodes: dict[str, PictureNode] = {}
        self._edges: list[PictureEdge] = []
        self.outputs: list[str] = []

    def input(self, name: str) -> str:
        """Add a value that comes from outside."""
        return self._add(PictureNode(f"{name} ", "input", name), [])

    def module(self, path: str, reads: Iterable[str]) -> str:
        """Add a call of a part of the module."""
        # A scripted module has no get_submodule, and keeps the name of its class.
        module = reduce(getattr, path.split("."), self._root)
        title = str(getattr(module, "original_name", type(module).__name__))
        shown = path if len(path) <= 24 else f"…{path[-23:]}"
        node = PictureNode(path, kind_of(module), title, (shown,), counts(module)[0])
        return self._add(node, reads)

    def function(self, name: str, reads: Sequence[str]) -> str | None:
        """Add a function outside of all parts; None for one that depends on nothing drawn."""
        sources = list(dict.fromkeys(reads))
        if not sources:
            return None
        stem = name.strip("_") or name
        if len(sources) == 1 and stem in _MOVES:
            return sources[0]
        title = _TITLES.get(stem, stem)
        kind: Kind = "activation" if stem in _ACTIVATIONS else "operation"
        if len(sources) > 1 and title in ("+", "×"):
            kind = "merge"
        return self._add(PictureNode(f"{stem} ", kind, title), sources)

    def picture(self, *, note: str) -> Picture:
        """Return everything that leads to the output, or all of it where nothing does."""
        nodes, edges = dict(self._nodes), list(dict.fromkeys(self._edges))
        if self.outputs:
            nodes["output "] = PictureNode("output ", "output", "output")
            edges += [PictureEdge(source, "output ") for source in dict.fromkeys(self.outputs)]
            order = {key: number for number, key in enumerate(nodes)}
            useful = {"output "}
            for edge in sorted(edges, key=lambda edge: -order[edge.target]):
                useful |= {edge.source} if edge.target in useful else set()
            nodes = {key: node for key, node in nodes.items() if key in useful}
        title = f"{type(self._root).__name__} · {format_count(counts(self._root)[0])} parameters"
        drawn = tuple(edge for edge in edges if edge.source in nodes and edge.target in nodes)
        return Picture(title, tuple(nodes.values()), drawn, note=note)

    def _add(self, node: PictureNode, reads: Iterable[str]) -> str:
        key, number = node.key, 1
        while key in self._nodes:
            number += 1
            key = f"{node.key.rstrip()} ({number})"
        self._nodes[key] = replace(node, key=key)
        self._edges += [PictureEdge(source, key) for source in reads]
        return key


# -- as SVG ---------------------------------------------------------------------------------------


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
_Layers = list[list[str]]
Routes = dict[Edge, tuple[str, ...]]  # the bends that an edge passes, both ends included


def draw_svg(picture: Picture) -> str:
    """Draw the picture; every name in it is escaped."""
    lines = {node.key: _lines(node) for node in picture.nodes}
    sizes = {node.key: _size(node, lines[node.key]) for node in picture.nodes}
    centres, routes, size = _arranged(picture, sizes)
    times = {node.key: node.time_ms for node in picture.nodes if node.time_ms is not None}
    slowest = max(times.values(), default=0.0)
    heat = {key: time / slowest for key, time in times.items()} if slowest > 0 else {}
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
        f"<title>{escape(picture.title)}</title><style>{_style()}</style>",
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


def layered(picture: Picture) -> tuple[_Layers, list[Edge]]:
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
    rows: _Layers = [[] for _ in used]
    for node in picture.nodes:
        rows[used.index(layer[node.key])].append(node.key)
    return rows, edges


def _with_bends(layers: _Layers, edges: Sequence[Edge]) -> tuple[_Layers, Routes]:
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


def _ordered(rows: _Layers, links: Sequence[Edge]) -> _Layers:
    above, below = _neighbours(links)
    rows = [list(row) for row in rows]
    for sweep in range(_ORDER_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for number in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
            place_of = {key: i for i, key in enumerate(rows[number + (-1 if downwards else 1)])}
            keys: dict[str, float] = {}
            for index, key in enumerate(rows[number]):
                places = [place_of[other] for other in neighbours.get(key, ())]
                keys[key] = sum(places) / len(places) if places else float(index)
            rows[number].sort(key=keys.__getitem__)
    return rows


def _horizontal(
    rows: _Layers, links: Sequence[Edge], widths: Mapping[str, float]
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


@cache
def _style() -> str:
    """The rules of ``picture.css``, on one line."""
    text = Path(__file__).with_name("picture.css").read_text(encoding="utf-8")
    return " ".join(text.partition("*/")[2].split())
