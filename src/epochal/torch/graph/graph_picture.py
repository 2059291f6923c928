"""A graph's own structure as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.format import format_count
from epochal.torch.graph.function import title_of
from epochal.torch.graph.merge import Merge
from epochal.torch.graph.node import Node
from epochal.torch.graph.picture import Picture, PictureEdge, PictureNode
from epochal.torch.graph.profile_report import Profile
from epochal.torch.graph.summary import counts

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph

_OUTPUT = "output"


def picture_of_graph(graph: Graph, profile: Profile | None) -> Picture:
    """Draw every node, its references and states, and the output."""
    wiring = graph.wiring
    keys = {node.index: _key(node) for node in wiring.nodes}
    nodes = [_shape(graph, node) for node in wiring.nodes]
    edges = [
        PictureEdge(keys[source.node], keys[node.index], source.kind, source.name)
        for node in wiring.nodes
        if node.kind != "state"
        for source in node.sources
    ]
    edges += [
        PictureEdge(keys[node.carries], keys[node.index], "state")
        for node in wiring.nodes
        if node.carries is not None
    ]
    nodes.append(PictureNode(_OUTPUT + " ", "output", _OUTPUT))
    edges.append(PictureEdge(keys[wiring.output], _OUTPUT + " "))
    picture = Picture(
        title=f"{graph.label or 'graph'} [{graph.short_hash()}] · "
        f"{format_count(counts(graph)[0])} parameters",
        nodes=tuple(nodes),
        edges=tuple(dict.fromkeys(edges)),
    )
    return picture if profile is None else picture.timed(profile)


def _key(node: Node) -> str:
    # A space is in no name, so that an input may be called as a node is.
    return f"{node.id} " if node.kind in ("input", "state") else node.name


def _shape(graph: Graph, node: Node) -> PictureNode:
    module = graph.module_of(node)
    if module is None:
        title = node.id.removeprefix("state_") if node.kind == "state" else node.id
        return PictureNode(_key(node), node.kind, title, node.tags, level=None)
    title = {"add": "+", "mean": "mean"}[module.op.value] if isinstance(module, Merge) else ""
    if node.kind in ("loop", "map", "switch", "gate"):
        title = f"{title_of(module)} {module.extra_repr()}"
    return PictureNode(
        _key(node),
        node.kind,
        title
        or (getattr(module, "label", None) if node.kind == "graph" else "")
        or title_of(module),
        node.tags,
        counts(module)[0],
        node.level,
    )
