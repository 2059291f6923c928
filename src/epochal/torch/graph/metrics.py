"""The metrics of a tree of graphs: their names, where each is kept, and how tensors are reduced."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from epochal.errors import UsageError
from epochal.run.current import current_values
from epochal.torch.graph import tree
from epochal.torch.graph.names import listed_names, unknown_metric
from epochal.torch.graph.observe import Observation, Points

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph


class Reduce(enum.Enum):
    """How `collect_with` makes one number of an output; NORM is the L2 norm of all elements."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    NORM = "norm"

    @classmethod
    def named(cls, reduction: Reduce | str) -> Reduce:
        """The reduction of this name; raises ValueError for one that is not known."""
        try:
            return cls(reduction)
        except ValueError as error:
            names = ", ".join(repr(one.value) for one in cls)
            raise UsageError(
                f"reduction={reduction!r} is not known: use one of {names}."
            ) from error

    def apply(self, tensor: Tensor) -> Tensor:
        """Reduce all elements, where the tensor is, without waiting for the device."""
        values = tensor.detach()
        if not values.is_floating_point():
            values = values.to(torch.float32)
        if self is Reduce.NORM:
            norm: Tensor = torch.linalg.vector_norm(values)
            return norm
        if self is Reduce.MEAN:
            return values.mean()
        if self is Reduce.SUM:
            return values.sum()
        return values.amax() if self is Reduce.MAX else values.amin()


_T = TypeVar("_T")
Names = Sequence[str] | str


def over_tree(
    root: Graph, ask: Callable[[Observation], Mapping[str, _T]]
) -> Iterator[tuple[str, _T]]:
    """Ask every graph; its answers by dotted name, without what it keeps to itself."""
    for prefix, graph in tree.dotted(root):
        for name, value in ask(graph.observation).items():
            if not prefix or not graph.wiring.is_hidden(name):
                yield f"{prefix}{name}", value


def history(root: Graph, name: str) -> Points:
    """One metric's history; raises MetricNotFoundError for one never recorded."""
    graph, own = _located(root, name)
    known = graph.observation.names()
    return graph.observation.points(own) if own in known else Points()


def histories(root: Graph, names: Names) -> dict[str, Points]:
    """Several metrics' histories, groups expanded; all of the tree without names."""
    return {name: history(root, name) for name in _expanded(root, names) or _recorded(root)}


def flush_tree(root: Graph, names: Names) -> None:
    """Flush the named metrics where they are, or everything in the tree."""
    chosen = _expanded(root, names)
    wanted: dict[Graph, list[str]] = {}
    for graph, name in [_located(root, name) for name in chosen]:
        wanted.setdefault(graph, []).append(name)
    for _, graph in tree.dotted(root):
        if graph in wanted or not chosen:
            flush_own(graph, wanted.get(graph, []))


def flush_own(graph: Graph, names: Names) -> None:
    """Flush the named metrics of one graph, or all of them."""
    chosen = graph.wiring.expanded(listed_names(names))
    known = graph.observation.names()
    for name in chosen:
        if name not in known and name not in graph.wiring.tags:
            raise unknown_metric(name, known)
    recorded = [name for name in chosen if name in known]
    if recorded or not chosen:
        graph.observation.flush(recorded)


def collect(graph: Graph, tags: Names, reduction: Reduce | None, *, weight: float) -> None:
    """Record the last outputs of tagged nodes, reduced to one number each; the mean by default."""
    for tag in graph.wiring.expanded(listed_names(tags)):
        value = graph.tagged(tag)
        number = current_values().read(tag, _one_number, value, tag=tag, reduction=reduction)
        if number is not None:
            graph.observation.record(tag, number, weight=weight)


def _one_number(value: Any, *, tag: str, reduction: Reduce | None) -> Tensor:
    if value is None:
        raise UsageError(f"collect({tag!r}) needs a forward before it.")
    if not isinstance(value, Tensor):
        raise UsageError(
            f"{tag!r} is a {type(value).__name__}, not a tensor: tag a node that returns one, "
            f"or record what you need of it with record_scalar({tag!r}, …)."
        )
    chosen = reduction or (None if value.numel() == 1 else Reduce.MEAN)
    return value.detach() if chosen is None else chosen.apply(value)


def _located(root: Graph, name: str) -> tuple[Graph, str]:
    """Where a metric is: a name with a dot may be a metric of this graph, or a path."""
    if name in root.observation.names() or name in root.wiring.tags:
        return root, name
    if "." not in name:
        raise unknown_metric(name, _recorded(root))
    graph, own = tree.visible_at(root, name)
    if own not in graph.observation.names() and own not in graph.wiring.tags:
        raise unknown_metric(name, _recorded(root))
    return graph, own


def _expanded(root: Graph, names: Names) -> list[str]:
    """Names with their groups expanded, those of graphs inside included."""
    expanded: dict[str, None] = {}
    for name in listed_names(names):
        *labels, last = name.split(".")
        plain = name in root.observation.names() or not labels
        graph = root if plain else tree.graph_at(root, labels)
        members = graph.wiring.groups.get(last, (last,))
        prefix = name.removesuffix(last)
        expanded.update(dict.fromkeys(f"{prefix}{member}" for member in members))
    return list(expanded)


def _recorded(root: Graph) -> list[str]:
    return [name for name, _ in over_tree(root, lambda one: dict.fromkeys(one.names(), None))]
