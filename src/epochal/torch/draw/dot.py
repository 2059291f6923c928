"""A picture in Graphviz' language, for those who have their own tools for it."""

from __future__ import annotations

from epochal.format import format_count
from epochal.torch.draw.picture import Picture, PictureNode, heat_colour
from epochal.torch.graph.profile_report import format_time

_SHAPES = {
    "input": "invhouse",
    "output": "house",
    "activation": "ellipse",
    "merge": "circle",
    "loop": "box3d",
    "map": "parallelogram",
    "switch": "diamond",
    "gate": "diamond",
    "state": "diamond",
}
_FILLS = {
    "input": "#e4eefc",
    "output": "#e4eefc",
    "activation": "#e7f6ec",
    "norm": "#fdf3e1",
    "merge": "#ffffff",
    "loop": "#f1ecfd",
    "map": "#f1ecfd",
    "graph": "#f1ecfd",
    "switch": "#fdecf3",
    "gate": "#fdecf3",
    "state": "#fdecf3",
}
_EDGES = {
    "flow": 'color="#475467"',
    "reference": 'style=dashed color="#2f6fde" fontcolor="#2f6fde"',
    "state": 'style=dotted color="#d9730d" fontcolor="#d9730d" constraint=false',
}


def draw_dot(picture: Picture) -> str:
    """Write the picture; levels of several nodes are dashed clusters."""
    ids = {node.key: f"n{number}" for number, node in enumerate(picture.nodes)}
    lines = [
        "digraph {",
        f"  label={_text(picture.title)} labelloc=t rankdir=TB;",
        '  node [style=filled fontname="Helvetica" fontsize=11];',
        '  edge [fontname="Helvetica" fontsize=9];',
    ]
    levels: dict[int | None, list[PictureNode]] = {}
    for node in picture.nodes:
        levels.setdefault(node.level, []).append(node)
    for level, nodes in levels.items():
        drawn = [f"  {ids[node.key]} [{_attributes(picture, node)}];" for node in nodes]
        if level is None or len(nodes) < 2:
            lines += drawn
            continue
        lines += [f"  subgraph cluster_{level} {{", f"    label={_text(_level(picture, level))}"]
        lines += ["    style=dashed;", *(f"  {line}" for line in drawn), "  }"]
    for edge in picture.edges:
        label = f" label={_text(edge.label)}" if edge.label else ""
        lines.append(f"  {ids[edge.source]} -> {ids[edge.target]} [{_EDGES[edge.kind]}{label}];")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(picture: Picture, node: PictureNode) -> str:
    text = [node.title, *(f"#{tag}" for tag in node.tags)]
    if node.parameters:
        text.append(format_count(node.parameters))
    if node.time is not None:
        text.append(format_time(node.time.forward_ms))
    heat = picture.heat(node)
    fill = _FILLS.get(node.kind, "#eef2f7") if heat is None else heat_colour(heat)
    label, shape = _text("\n".join(text)), _SHAPES.get(node.kind, "box")
    return f'label={label} shape={shape} fillcolor="{fill}"'


def _level(picture: Picture, level: int) -> str:
    time = next((one for one in picture.levels if one.level == level), None)
    if time is None:
        return f"level {level}"
    return f"level {level}: {format_time(time.wall_ms)}, x{time.parallelism:.2f}"


def _text(text: str) -> str:
    clean = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{clean}"'
