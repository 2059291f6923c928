"""A graph's own structure as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from epochal.format import format_count
from epochal.torch.draw.picture import Picture, PictureEdge, PictureNode
from epochal.torch.graph.node import Node
from epochal.torch.graph.node_modules import Merge, title_of
from epochal.torch.graph.profile_report import Profile
from epochal.torch.graph.summary import counts

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph

_OUTPUT = "output"


def picture_of_graph(graph: Graph, profile: Profile | None) -> Picture:
    """Draw every node, its references and states, and the output.

    With a profile the nodes of labelled graphs inside are drawn in the place of their graph.
    """
    drawing = _Drawing(expand=profile is not None)
    output = drawing.add(graph)
    drawing.nodes.append(PictureNode(_OUTPUT + " ", "output", _OUTPUT))
    drawing.edges.append(PictureEdge(output, _OUTPUT + " "))
    picture = Picture(
        title=f"{graph.label or 'graph'} [{graph.short_hash()}] · "
        f"{format_count(counts(graph)[0])} parameters",
        nodes=tuple(drawing.nodes),
        edges=tuple(dict.fromkeys(drawing.edges)),
    )
    return picture if profile is None else picture.timed(profile)


@dataclass(slots=True)
class _Drawing:
    """Nodes and edges so far; `expand` draws what is in labelled graphs."""

    expand: bool
    nodes: list[PictureNode] = field(default_factory=list)
    edges: list[PictureEdge] = field(default_factory=list)

    def add(self, graph: Graph, prefix: str = "", inputs: Sequence[str] | None = None) -> str:
        """Draw a graph and give the key of its output; `inputs` are drawn already."""
        wiring = graph.wiring
        given = {} if inputs is None else dict(zip(wiring.inputs, inputs, strict=False))
        keys: dict[int, str] = {}
        for node in wiring.nodes:
            sources = [keys[source.node] for source in node.sources if source.node in keys]
            module = graph.module_of(node)
            if node.kind == "input" and node.id in given:
                keys[node.index] = given[node.id]
            elif self.expand and node.kind == "graph" and getattr(module, "label", None):
                inner = cast("Graph", module)
                keys[node.index] = self.add(inner, f"{prefix}{inner.label}.", sources)
            else:
                keys[node.index] = key = f"{prefix}{_key(node)}"
                self.nodes.append(_shape(graph, node, prefix))
                self.edges += [
                    PictureEdge(keys[source.node], key, source.kind, source.name)
                    for source in node.sources
                    if node.kind != "state"
                ]
        self.edges += [
            PictureEdge(keys[node.carries], keys[node.index], "state")
            for node in wiring.nodes
            if node.carries is not None
        ]
        return keys[wiring.output]


def _key(node: Node) -> str:
    # A space is in no name, so that an input may be called as a node is.
    return f"{node.id} " if node.kind in ("input", "state") else node.name


def _shape(graph: Graph, node: Node, prefix: str) -> PictureNode:
    module = graph.module_of(node)
    key = f"{prefix}{_key(node)}"
    # A node of a graph inside says which graph, and is in none of the outer graph's levels.
    tags = tuple(f"{prefix}{tag}".rstrip(".") for tag in node.tags or (("",) if prefix else ()))
    level = None if prefix else node.level
    if module is None:
        title = node.id.removeprefix("state_") if node.kind == "state" else node.id
        return PictureNode(key, node.kind, title, tags, level=None)
    title = {"add": "+", "mean": "mean"}[module.op.value] if isinstance(module, Merge) else ""
    if node.kind in ("loop", "map", "switch", "gate"):
        title = f"{title_of(module)} {module.extra_repr()}"
    return PictureNode(
        key,
        node.kind,
        title
        or (getattr(module, "label", None) if node.kind == "graph" else "")
        or title_of(module),
        tags,
        counts(module)[0],
        level,
    )
