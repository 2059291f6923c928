"""A picture of a model: its nodes and edges, read from a graph or from any module."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from torch import fx, nn

from epochal.atomic_file import new_text_file
from epochal.errors import UsageError
from epochal.format import format_count
from epochal.torch.graph.builder import Kind, Merge, kind_of, title_of
from epochal.torch.graph.graph import Graph, counts
from epochal.torch.graph.profile import Profile, is_part, parts_of
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
        from epochal.torch.graph.svg import draw_svg

        text = draw_svg(self)
        if path is not None:
            with new_text_file(path) as out:
                out.write(text)
        return text

    def timed(self, profile: Profile) -> Picture:
        """Return the same picture with every node's time, by its key."""
        nodes = tuple(replace(node, time_ms=profile.nodes.get(node.key)) for node in self.nodes)
        return replace(self, nodes=nodes, profile=profile)


def picture_of_graph(graph: Graph) -> Picture:
    """Draw every node of a graph, its input and its output."""
    # A space is in no tag, so a node may be tagged 'input' or 'output'.
    keys = [f"{n.id} " if n.kind == "input" else n.name for n in graph.wiring.nodes]
    nodes = []
    for key, node in zip(keys, graph.wiring.nodes, strict=True):
        module = graph.module_of(node)
        title = node.id if module is None else getattr(module, "label", None) or title_of(module)
        if isinstance(module, Merge):
            title = {"add": "+", "mean": "mean"}[module.op.value]
        parameters = 0 if module is None else counts(module)[0]
        nodes.append(PictureNode(key, node.kind, title, tuple(node.tags), parameters))
    edges = [
        PictureEdge(keys[source], key)
        for key, node in zip(keys, graph.wiring.nodes, strict=True)
        for source in node.sources
    ]
    nodes.append(PictureNode("output ", "output", "output"))
    edges.append(PictureEdge(keys[graph.wiring.output], "output "))
    title = f"{graph.label or 'graph'} [{graph.structural_hash()[:8]}]"
    total = format_count(counts(graph)[0])
    return Picture(f"{title} · {total} parameters", tuple(nodes), tuple(dict.fromkeys(edges)))


def picture_of(module: nn.Module, *, depth: int | None = None) -> Picture:
    """Draw a module: a Graph as it was built, any other module as torch.fx reads it.

    Of a module that torch.fx cannot read the parts are drawn without their order, and the
    picture's `note` says why. `depth` draws modules that deep in the tree as one; without it that
    happens only when there would be more than 160 nodes.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    plain = unwrapped(module)
    if isinstance(plain, Graph):
        return plain.picture()
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
