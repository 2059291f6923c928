"""The outline of each kind of node, its size around its text, and the style sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from epochal.torch.graph.node import Kind

Box = tuple[float, float, float, float]  # centre x, centre y, width, height

_ROOMIER: Mapping[str, tuple[float, float]] = {
    # How much wider and higher than its text an outline is, where it narrows.
    "activation": (1.22, 1.12),
    "switch": (1.75, 1.6),
    "gate": (1.75, 1.6),
    "state": (1.75, 1.6),
    "map": (1.2, 1.0),
    "loop": (1.08, 1.3),
    "input": (1.15, 1.0),
    "output": (1.15, 1.0),
}
_DEPTH = 6.0  # of the third dimension of a loop's box


def size_of(kind: Kind, text_width: float, text_height: float) -> tuple[float, float]:
    """Width and height of a node around its text."""
    if kind == "merge":
        side = max(text_width + 12, text_height + 10, 30.0)
        return side, side
    wider, higher = _ROOMIER.get(kind, (1.0, 1.0))
    return max(text_width * wider + 22, 54.0), text_height * higher + 14


def outline(kind: Kind, box: Box) -> str:
    """The SVG element of a node's outline, without its end: a class can be added."""
    return _OUTLINES.get(kind, _rectangle)(box)


def _rectangle(box: Box) -> str:
    x, y, w, h = box
    return f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="5"'


def _graph(box: Box) -> str:
    x, y, w, h = box
    return f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="12"'


def _ellipse(box: Box) -> str:
    x, y, w, h = box
    return f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{w / 2:.1f}" ry="{h / 2:.1f}"'


def _circle(box: Box) -> str:
    x, y, w, _ = box
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{w / 2:.1f}"'


def _diamond(box: Box) -> str:
    x, y, w, h = box
    return _path((x, y - h / 2), (x + w / 2, y), (x, y + h / 2), (x - w / 2, y))


def _leaning(box: Box) -> str:
    x, y, w, h = box
    lean = min(h / 3, 12)
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    return _path((left + lean, top), (right, top), (right - lean, bottom), (left, bottom))


def _house(box: Box) -> str:
    x, y, w, h = box
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    eaves = top + h * 0.3
    return _path((left, bottom), (left, eaves), (x, top), (right, eaves), (right, bottom))


def _turned_house(box: Box) -> str:
    x, y, w, h = box
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    eaves = bottom - h * 0.3
    return _path((left, top), (right, top), (right, eaves), (x, bottom), (left, eaves))


def _deep(box: Box) -> str:
    x, y, w, h = box
    left, right, top, bottom = x - w / 2, x + w / 2, y - h / 2, y + h / 2
    d = _DEPTH
    top += d
    front = f"M{left:.1f},{top:.1f}H{right - d:.1f}V{bottom:.1f}H{left:.1f}Z"
    roof = (
        f"M{left:.1f},{top:.1f}L{left + d:.1f},{top - d:.1f}H{right:.1f}L{right - d:.1f},{top:.1f}Z"
    )
    side = f"M{right:.1f},{top - d:.1f}V{bottom - d:.1f}L{right - d:.1f},{bottom:.1f}V{top:.1f}Z"
    return f'<path d="{front}{roof}{side}"'


def _path(*points: tuple[float, float]) -> str:
    return f'<path d="M{"L".join(f"{x:.1f},{y:.1f}" for x, y in points)}Z"'


_OUTLINES: Mapping[str, Callable[[Box], str]] = {
    "activation": _ellipse,
    "merge": _circle,
    "switch": _diamond,
    "gate": _diamond,
    "state": _diamond,
    "map": _leaning,
    "input": _turned_house,
    "output": _house,
    "loop": _deep,
    "graph": _graph,
}


_LIGHT = {
    "ground": "#ffffff",
    "ink": "#1b1f27",
    "dim": "#667085",
    "line": "#475467",
    "module": "#eef2f7",
    "module-line": "#98a2b3",
    "activation": "#e7f6ec",
    "activation-line": "#6cbf8b",
    "norm": "#fdf3e1",
    "norm-line": "#e0ac55",
    "merge": "#ffffff",
    "merge-line": "#475467",
    "loop": "#f1ecfd",
    "loop-line": "#9d83e0",
    "choice": "#fdecf3",
    "choice-line": "#dd82aa",
    "port": "#e4eefc",
    "port-line": "#6f9ee8",
    "reference": "#2f6fde",
    "state": "#d9730d",
    "level": "#c3cad5",
}
_DARK = {
    "ground": "#14171d",
    "ink": "#e6e9ef",
    "dim": "#98a1b0",
    "line": "#8a94a6",
    "module": "#232833",
    "module-line": "#515b6d",
    "activation": "#173226",
    "activation-line": "#3f8b62",
    "norm": "#362b17",
    "norm-line": "#93702f",
    "merge": "#14171d",
    "merge-line": "#8a94a6",
    "loop": "#2a2342",
    "loop-line": "#7a65b8",
    "choice": "#3a2030",
    "choice-line": "#a55680",
    "port": "#1b2c49",
    "port-line": "#4a78c2",
    "reference": "#6ba2ff",
    "state": "#f0a04b",
    "level": "#3b4351",
}
_FAMILY = {
    "module": "module",
    "operation": "module",
    "graph": "loop",
    "loop": "loop",
    "activation": "activation",
    "norm": "norm",
    "merge": "merge",
    "map": "loop",
    "switch": "choice",
    "gate": "choice",
    "state": "choice",
    "input": "port",
    "output": "port",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--ep-{name}:{colour};" for name, colour in colours.items())


STYLE = (
    f".epochal-graph{{{_variables(_LIGHT)}"
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    f"@media(prefers-color-scheme:dark){{.epochal-graph{{{_variables(_DARK)}}}}}"
    ".epochal-graph text{font-size:12px;fill:var(--ep-ink);text-anchor:middle}"
    ".epochal-graph .ground{fill:var(--ep-ground)}"
    ".epochal-graph .head{font-size:14px;font-weight:600;text-anchor:start}"
    ".epochal-graph .sub,.epochal-graph .legend{font-size:11px;fill:var(--ep-dim);"
    "text-anchor:start}"
    ".epochal-graph .name{font-weight:600}"
    ".epochal-graph .tag{font-size:10.5px;fill:var(--ep-reference)}"
    ".epochal-graph .count,.epochal-graph .time{font-size:10.5px;fill:var(--ep-dim)}"
    ".epochal-graph .shape{stroke-width:1.2}"
    ".epochal-graph .edge{fill:none;stroke:var(--ep-line);stroke-width:1.2}"
    ".epochal-graph .edge.reference{stroke:var(--ep-reference);stroke-dasharray:5 3}"
    ".epochal-graph .edge.state{stroke:var(--ep-state);stroke-dasharray:1.5 3;stroke-width:1.6}"
    ".epochal-graph .tip path{fill:var(--ep-line)}"
    ".epochal-graph .tip.reference path{fill:var(--ep-reference)}"
    ".epochal-graph .tip.state path{fill:var(--ep-state)}"
    ".epochal-graph .edge-label,.epochal-graph .level-label{font-size:10px;text-anchor:start;"
    "paint-order:stroke;stroke:var(--ep-ground);stroke-width:3px;stroke-linejoin:round}"
    ".epochal-graph .edge-label.reference{fill:var(--ep-reference)}"
    ".epochal-graph .edge-label.state{fill:var(--ep-state)}"
    ".epochal-graph .level{fill:none;stroke:var(--ep-level);stroke-dasharray:4 4}"
    ".epochal-graph .level-label{fill:var(--ep-dim)}"
    ".epochal-graph .timed text{fill:#10131a}"
    + "".join(
        f".epochal-graph .{kind} .shape{{fill:var(--ep-{family});stroke:var(--ep-{family}-line)}}"
        for kind, family in _FAMILY.items()
    )
)
