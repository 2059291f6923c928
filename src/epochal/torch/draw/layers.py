"""Which layer of a drawing each node of a picture is in."""

from __future__ import annotations

from epochal.torch.draw.layout import Edge
from epochal.torch.draw.picture import Picture


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
