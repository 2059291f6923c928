"""Labelled graphs inside graphs: finding them, and walking dotted paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from epochal.errors import UsageError
from epochal.torch.graph.names import suggestion
from epochal.torch.graph.node import Node

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph


def graphs_in(module: nn.Module, kind: type[Graph]) -> Iterator[Graph]:
    """The outermost graphs in a module, in the order of its children."""
    if isinstance(module, kind):
        yield module
        return
    for child in module.children():
        yield from graphs_in(child, kind)


def tree_faults(nested: list[Graph], tags: dict[str, int]) -> list[str]:
    """What keeps nested graphs from being told apart by their labels."""
    faults = []
    seen: dict[str, Graph] = {}
    for graph in nested:
        if graph.label is None:
            continue
        if graph.label in seen:
            faults.append(f"two graphs inside this one are labelled {graph.label!r}")
        elif graph.label in tags:
            faults.append(f"{graph.label!r} is both a tag and the label of a graph inside")
        seen[graph.label] = graph
    return faults


def graph_at(root: Graph, labels: list[str]) -> Graph:
    """Walk down labels; raises ValueError at one that is not there."""
    graph = root
    for label in labels:
        children = graph.tree_children()
        if label not in children:
            where = repr(graph.label) if graph.label else "this graph"
            raise UsageError(
                f"No graph labelled {label!r} is inside {where}: {suggestion(label, children)}"
            )
        graph = children[label]
    return graph


def visible_at(root: Graph, path: str) -> tuple[Graph, str]:
    """The graph a dotted path leads to and the name in it; hidden tags cannot be reached."""
    *labels, name = path.split(".")
    graph = graph_at(root, labels)
    if labels and graph.wiring.is_hidden(name):
        raise UsageError(f"{path!r} is internal to the graph {graph.label!r}.")
    return graph, name


def dotted(root: Graph) -> Iterator[tuple[str, Graph]]:
    """Every graph of the tree with the prefix of its names, parents first, in a stable order."""
    yield "", root
    for label, child in root.tree_children().items():
        for prefix, graph in dotted(child):
            yield f"{label}.{prefix}", graph


def timed_nodes(
    graph: Graph, kind: type[Graph]
) -> Iterator[tuple[str, nn.Module, Node, tuple[str, ...]]]:
    """Yield each node with a module: its name in a profile, module, node, and the nodes around it.

    The nodes around it are given nearest first. Nodes of a labelled graph are named 'label.node'
    and come after the node that is the graph.
    """
    for node in graph.wiring.nodes:
        module = graph.module_of(node)
        if module is None:
            continue
        yield node.name, module, node, ()
        if isinstance(module, kind) and module.label is not None:
            for name, part, inner, wholes in timed_nodes(module, kind):
                around = (*(f"{module.label}.{whole}" for whole in wholes), node.name)
                yield f"{module.label}.{name}", part, inner, around
