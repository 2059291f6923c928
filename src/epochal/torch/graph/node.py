"""What a graph is made of: nodes, what they read, and how the whole is wired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from epochal.errors import UsageError

Kind = Literal[
    "input",
    "output",
    "module",
    "activation",
    "norm",
    "graph",
    "merge",
    "loop",
    "map",
    "switch",
    "gate",
    "state",
    "operation",
]
EdgeKind = Literal["flow", "reference", "state"]

_NORM_HOMES = {
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.instancenorm",
    "torch.nn.modules.normalization",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One thing that a node reads: another node, and by which kind of edge."""

    node: int
    kind: EdgeKind = "flow"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One place of a graph; `slot` is the name of its module in `graph.nodes`, None without one.

    `sources` are in the order in which the module is called with them. A node of the kind 'state'
    hands out what the node `carries` gave in the call before. `frees` are the nodes whose values
    nobody needs after this one.
    """

    index: int
    id: str
    kind: Kind
    level: int
    sources: tuple[Source, ...]
    tags: tuple[str, ...] = ()
    slot: str | None = None
    carries: int | None = None
    frees: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The first tag, else the id: the prefix of its parameters' names."""
        return self.tags[0] if self.tags else self.id


@dataclass(frozen=True, slots=True)
class Wiring:
    """A whole graph's structure: nodes in the order they run, by level and then as written."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    output: int
    tags: Mapping[str, int]
    groups: Mapping[str, tuple[str, ...]]
    internal: frozenset[str]

    def with_slots(self, with_module: Iterable[int]) -> Wiring:
        """Return the wiring with the names under which the modules of these nodes are kept.

        A tag that is the name of an attribute of every module gives way to the node's id.
        """
        taken = set(with_module)
        slots = {
            node.index: node.id
            if hasattr(nn.Module, node.name) or node.name == "training"
            else node.name
            for node in self.nodes
            if node.index in taken
        }
        return replace(
            self, nodes=tuple(replace(node, slot=slots.get(node.index)) for node in self.nodes)
        )

    def bound_inputs(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[int, Any]:
        """Return the inputs of a forward by node; ValueError unless each is given once."""
        names = self.inputs
        given = {**dict(zip(names, inputs, strict=False)), **named}
        if len(inputs) > len(names) or len(given) < len(inputs) + len(named):
            raise UsageError(f"This graph takes the inputs {', '.join(names)}, each once.")
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            what = f"missing: {', '.join(missing)}" if missing else f"unknown: {', '.join(unknown)}"
            raise UsageError(f"This graph takes the inputs {', '.join(names)}; {what}.")
        return {node.index: given[node.id] for node in self.nodes if node.kind == "input"}

    def node_of(self, index: int) -> Node:
        """The node with this index, which is not its place in the order."""
        return next(node for node in self.nodes if node.index == index)

    def expanded(self, names: list[str]) -> list[str]:
        """The same names with each group replaced by its members, each name once."""
        members = (member for name in names for member in self.groups.get(name, (name,)))
        return list(dict.fromkeys(members))

    def is_hidden(self, tag: str) -> bool:
        """Whether a graph around this one may not read the tag."""
        return tag.startswith("_") or tag in self.internal


def kind_of(module: nn.Module) -> Kind:
    """Which kind of node a plain module makes."""
    home, name = type(module).__module__, type(module).__name__
    if home == "torch.nn.modules.activation" and not isinstance(module, nn.MultiheadAttention):
        return "activation"
    if home in _NORM_HOMES or name.endswith("Norm"):
        return "norm"
    return "module"


def require_same_batch(node: Node, held: Any, stream: Any) -> None:
    """Raise ValueError when a carried value belongs to a batch of another size."""
    if held.dim() and stream.dim() and held.shape[0] != stream.shape[0]:
        raise UsageError(
            f"{node.id!r} was carried from a batch of {held.shape[0]} into one of "
            f"{stream.shape[0]}: call end_sequence() between sequences."
        )
