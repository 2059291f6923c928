"""A picture of a model before it is drawn: nodes, edges, and what is written beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from epochal.atomic_file import new_text_file
from epochal.torch.graph.node import EdgeKind, Kind
from epochal.torch.graph.profile_report import LevelTime, NodeTime, Profile


@dataclass(frozen=True, slots=True)
class PictureNode:
    """One shape; `key` is its name in the model, `level` None for what does not run."""

    key: str
    kind: Kind
    title: str
    tags: tuple[str, ...] = ()
    parameters: int = 0
    level: int | None = None
    time: NodeTime | None = None


@dataclass(frozen=True, slots=True)
class PictureEdge:
    """One line between two keys; `label` is the name of a reference."""

    source: str
    target: str
    kind: EdgeKind = "flow"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """Nodes and edges of a model; `note` says how they were found where that is worth knowing."""

    title: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    levels: tuple[LevelTime, ...] = ()
    profile: Profile | None = None
    note: str = ""

    def svg(self, path: str | Path | None = None) -> str:
        """Draw it as SVG, light or dark as the viewer prefers; also into a file if one is named."""
        from epochal.torch.draw.svg import draw_svg

        text = draw_svg(self)
        if path is not None:
            with new_text_file(path) as out:
                out.write(text)
        return text

    def dot(self) -> str:
        """Write it in Graphviz' language."""
        from epochal.torch.draw.dot import draw_dot

        return draw_dot(self)

    def timed(self, profile: Profile) -> Picture:
        """The same picture with every node's time, by its key."""
        nodes = tuple(replace(node, time=profile.node(node.key)) for node in self.nodes)
        return replace(self, nodes=nodes, levels=profile.levels, profile=profile)

    def heat(self, node: PictureNode) -> float | None:
        """A node's time as a share of the slowest one's (0-1); None where it was not timed."""
        slowest = max((one.time.total_ms for one in self.nodes if one.time), default=0.0)
        if node.time is None or not slowest > 0:
            return None
        share = node.time.total_ms / slowest
        return share if math.isfinite(share) else None


def heat_colour(share: float) -> str:
    """Green at 0, yellow at a half, red at 1."""
    stops = ((0x27, 0xAE, 0x60), (0xF3, 0x9C, 0x12), (0xE7, 0x4C, 0x3C))
    place = min(max(share, 0.0), 1.0) * 2
    low, part = (0, place) if place < 1 else (1, place - 1)
    return "#" + "".join(
        f"{round(a + (b - a) * part):02x}" for a, b in zip(stops[low], stops[low + 1], strict=True)
    )


def without_unknown(
    nodes: Sequence[PictureNode], edges: Sequence[PictureEdge]
) -> tuple[PictureEdge, ...]:
    """The edges whose ends exist, each once."""
    keys = {node.key for node in nodes}
    return tuple(dict.fromkeys(e for e in edges if e.source in keys and e.target in keys))
