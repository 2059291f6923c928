"""A graph while it is being written: nodes in the order of the verbs, and what is wrong so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from epochal.torch.graph.names import name_fault, suggestion
from epochal.torch.graph.node import Kind, Node, Source, Wiring

Initial = Callable[[Any], Any]


@dataclass(slots=True)
class Use:
    """A name that a node reads, and what it reads where nothing was carried yet."""

    name: str
    initial: Initial | None = None


@dataclass(slots=True)
class DraftNode:
    """One node as written."""

    id: str
    kind: Kind
    module: nn.Module | None
    streams: list[int]
    uses: list[Use] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Draft:
    """All nodes, names and faults so far."""

    nodes: list[DraftNode] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    tags: dict[str, int] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    internal: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, title: str, kind: Kind, module: nn.Module | None, streams: list[int]) -> int:
        """Append a node named after its title and a counter."""
        stem = title.lower()
        self._counts[stem] = self._counts.get(stem, 0) + 1
        self.nodes.append(DraftNode(f"{stem}_{self._counts[stem]}", kind, module, streams))
        return len(self.nodes) - 1

    def add_input(self, name: str) -> int:
        """Append an input of the graph."""
        self.inputs.append(name)
        self.nodes.append(DraftNode(name, "input", None, []))
        return len(self.nodes) - 1

    def claim(self, name: str, *, what: str) -> bool:
        """Say whether a name is free and well formed; if not, note the fault."""
        fault = name_fault(name, what=what)
        if fault is None and (name in self.tags or name in self.groups or name in self.inputs):
            fault = f"{what} {name!r} is taken"
        if fault is not None:
            self.faults.append(fault)
        return fault is None

    def wired(self, output: int) -> tuple[Wiring, dict[int, nn.Module], dict[int, Initial]]:
        """Resolve every name; the modules by node, and what states begin with.

        Names that lead nowhere are noted as faults.
        """
        for tag in sorted(self.internal - set(self.tags)):
            self.faults.append(
                f"internal({tag!r}) names no tag: {suggestion(tag, self.tags)}".rstrip(".")
            )
        owners = {node.id: index for index, node in enumerate(self.nodes)}
        for tag, place in self.tags.items():
            if owners.get(tag, place) != place:
                self.faults.append(f"tag {tag!r} is the id of another node")
        sources, states, initials = self._resolved()
        levels = _levels(sources)
        order = sorted(range(len(sources)), key=lambda index: (levels[index], index))
        frees = _last_uses(order, sources, keep={output, *states.values()})
        nodes = tuple(
            self._node(index, sources[index], levels[index], frees.get(index, ()), states)
            for index in order
        )
        wiring = Wiring(
            nodes=nodes,
            inputs=tuple(self.inputs),
            output=output,
            tags=dict(self.tags),
            groups=dict(self.groups),
            internal=frozenset(self.internal),
        )
        modules = {i: node.module for i, node in enumerate(self.nodes) if node.module is not None}
        return wiring, modules, initials

    def _resolved(self) -> tuple[list[list[Source]], dict[int, int], dict[int, Initial]]:
        places = {**{name: self._place(name) for name in self.inputs}, **self.tags}
        sources = [[Source(stream) for stream in node.streams] for node in self.nodes]
        states: dict[int, int] = {}
        initials: dict[int, Initial] = {}
        state_nodes: dict[str, int] = {}
        for index, node in enumerate(self.nodes):
            for use in self._expanded(node.uses):
                place = places.get(use.name)
                if place is None:
                    self.faults.append(
                        f"using({use.name!r}) at {node.id} names nothing in this graph: "
                        + suggestion(use.name, places).rstrip(".")
                    )
                elif place < index:
                    sources[index].append(Source(place, "reference", use.name))
                else:
                    state = state_nodes.get(use.name)
                    if state is None:
                        state = state_nodes[use.name] = len(sources)
                        sources.append([Source(node.streams[0])])
                        states[state] = place
                    if use.initial is not None:
                        initials[state] = use.initial
                    sources[index].append(Source(state, "state", use.name))
        return sources, states, initials

    def _expanded(self, uses: list[Use]) -> list[Use]:
        return [
            Use(name, use.initial)
            for use in uses
            for name in self.groups.get(use.name, (use.name,))
        ]

    def _place(self, name: str) -> int:
        return next(i for i, node in enumerate(self.nodes) if node.id == name)

    def _node(
        self,
        index: int,
        sources: list[Source],
        level: int,
        frees: tuple[int, ...],
        states: dict[int, int],
    ) -> Node:
        if index in states:
            carries = states[index]
            names = self.nodes[carries].tags
            used = next((tag for tag in names if tag in self.tags), self.nodes[carries].id)
            return Node(
                index, f"state_{used}", "state", level, tuple(sources), carries=carries, frees=frees
            )
        node = self.nodes[index]
        return Node(index, node.id, node.kind, level, tuple(sources), tuple(node.tags), frees=frees)


def _levels(sources: list[list[Source]]) -> list[int]:
    """The longest way from an input to each node; a carried value is there from the start."""
    levels: dict[int, int] = {}

    # A node reads only what was written before it, or a state, whose own source was.
    pending = list(range(len(sources)))
    while pending:
        later = []
        for index in pending:
            if all(source.node in levels for source in sources[index]):
                levels[index] = 1 + max((levels[s.node] for s in sources[index]), default=-1)
            else:
                later.append(index)
        assert len(later) < len(pending), "a cycle"
        pending = later
    return [levels[index] for index in range(len(sources))]


def _last_uses(
    order: list[int], sources: list[list[Source]], *, keep: set[int]
) -> dict[int, tuple[int, ...]]:
    last: dict[int, int] = {}
    for index in order:
        for source in sources[index]:
            last[source.node] = index
    frees: dict[int, list[int]] = {}
    for value, user in last.items():
        if value not in keep:
            frees.setdefault(user, []).append(value)
    return {user: tuple(values) for user, values in frees.items()}
