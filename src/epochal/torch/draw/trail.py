"""A picture that grows while somebody follows a computation from call to call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from torch import nn

from epochal.format import format_count
from epochal.torch.draw.picture import Picture, PictureEdge, PictureNode, without_unknown
from epochal.torch.graph.node import Kind, kind_of
from epochal.torch.graph.summary import counts

# What moves numbers about without computing any is not drawn: its reader reads its source.
_MOVES = frozenset(
    "alias chunk clone contiguous detach expand expand_as flatten getitem item lift_fresh_copy "
    "narrow permute reshape select slice split split_with_sizes squeeze swapaxes t to transpose "
    "type_as unbind unflatten unsafe_chunk unsafe_split unsqueeze view view_as "
    "_to_copy _unsafe_view get float half "
    "bfloat16 double cpu cuda size dim numel _assert_tensor_metadata".split()
)
_ACTIVATIONS = frozenset(
    "relu gelu silu sigmoid tanh softmax log_softmax leaky_relu elu softplus mish hardswish".split()
)

_TITLES = {
    "add": "+",
    "iadd": "+",
    "mul": "×",
    "imul": "×",
    "scaled_dot_product_attention": "attention",
}


class Trail:
    """Names who made each value; the keys it hands out stand for the values of that node."""

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._nodes: dict[str, PictureNode] = {}
        self._edges: list[PictureEdge] = []
        self._outputs: list[str] = []

    def input(self, name: str) -> str:
        """A value that comes from outside."""
        return self._add(PictureNode(f"{name} ", "input", name))

    def module(self, path: str, reads: Iterable[str]) -> str:
        """A call of a part of the module."""
        # A scripted module has no get_submodule, and keeps the name of its class.
        module = reduce(getattr, path.split("."), self._root) if path else self._root
        kind = kind_of(module)
        title = str(getattr(module, "original_name", type(module).__name__))
        key = self._add(PictureNode(path, kind, title, (path,), counts(module)[0]))
        self.read(key, reads)
        return key

    def read(self, key: str, reads: Iterable[str]) -> None:
        """More that a node reads."""
        self._edges += [PictureEdge(source, key) for source in reads if source != key]

    def function(self, name: str, reads: Sequence[str]) -> str | None:
        """A function outside of all parts; None for one that depends on nothing drawn."""
        sources = list(dict.fromkeys(reads))
        if not sources:
            return None
        stem = name.rstrip("_").removeprefix("__").lstrip("_") or name
        if len(sources) == 1 and (stem in _MOVES or name in _MOVES):
            return sources[0]
        kind: Kind = "activation" if stem in _ACTIVATIONS else "operation"
        title = _TITLES.get(stem, stem)
        if len(sources) > 1 and title in ("+", "×"):
            kind = "merge"
        key = self._add(PictureNode(f"{stem} ", kind, title))
        self.read(key, sources)
        return key

    def output(self, reads: Iterable[str]) -> None:
        """What the module returns."""
        self._outputs += list(reads)

    def picture(self, *, note: str) -> Picture:
        """Everything that leads to the output, or all of it where nothing does."""
        nodes = dict(self._nodes)
        edges = list(self._edges)
        if self._outputs:
            nodes["output "] = PictureNode("output ", "output", "output")
            edges += [PictureEdge(source, "output ") for source in self._outputs]
            useful = _ancestors("output ", edges)
            nodes = {key: node for key, node in nodes.items() if key in useful}
        shown = tuple(_with_short_path(node) for node in nodes.values())
        title = f"{type(self._root).__name__} · {format_count(counts(self._root)[0])} parameters"
        return Picture(title, shown, without_unknown(shown, edges), note=note)

    def _add(self, node: PictureNode) -> str:
        key, number = node.key, 1
        while key in self._nodes:
            number += 1
            key = f"{node.key.rstrip()} ({number})"
        self._nodes[key] = replace(node, key=key)
        return key


def _ancestors(key: str, edges: Iterable[PictureEdge]) -> set[str]:
    sources: dict[str, list[str]] = {}
    for edge in edges:
        sources.setdefault(edge.target, []).append(edge.source)
    found, waiting = {key}, [key]
    while waiting:
        for source in sources.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _with_short_path(node: PictureNode) -> PictureNode:
    """The end of a long path is what tells parts apart."""
    if not node.tags or len(node.tags[0]) <= 24:
        return node
    return replace(node, tags=(f"…{node.tags[0][-23:]}",))
