"""What a graph is made of: nodes, what they read, and how the whole is wired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

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

    def with_slots(self, slots: Mapping[int, str]) -> Wiring:
        """The same wiring, with the names under which the nodes' modules are kept."""
        nodes = tuple(replace(node, slot=slots.get(node.index)) for node in self.nodes)
        return replace(self, nodes=nodes)

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
