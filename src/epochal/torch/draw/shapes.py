"""The outline of each kind of node, and how large it must be for its text."""

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
