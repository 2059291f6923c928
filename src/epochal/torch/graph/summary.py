"""A graph, its nodes and its parameters as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parameter import is_lazy

from epochal.format import format_count
from epochal.torch.graph.node_modules import title_of

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph


def tree_summary(graph: Graph) -> str:
    """A line for every graph of the tree: label, short hash, tags, parameters and frozen ones."""
    return "\n".join(_tree_lines(graph, depth=0))


def param_summary(graph: Graph) -> str:
    """A line for every node that has parameters, then the totals."""
    rows = [("node", "type", "parameters", "frozen")]
    for node in graph.wiring.nodes:
        module = graph.module_of(node)
        total, frozen = counts(module) if module is not None else (0, 0)
        if module is not None and total:
            rows.append((node.name, title_of(module), f"{total:,}", f"{frozen:,}"))
    total, frozen = counts(graph)
    rows.append(("total", "", f"{total:,}", f"{frozen:,}"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {all_of:>{widths[2]}}  {held:>{widths[3]}}"
        for name, kind, all_of, held in rows
    )


def counts(module: nn.Module) -> tuple[int, int]:
    """How many numbers a module's parameters hold, shared ones once, and how many are frozen."""
    everything: list[Any] = list(module.parameters())
    parameters = [one for one in everything if not is_lazy(one)]
    frozen = sum(one.numel() for one in parameters if not one.requires_grad)
    return sum(one.numel() for one in parameters), frozen


def _tree_lines(graph: Graph, *, depth: int) -> list[str]:
    total, frozen = counts(graph)
    held = f", {format_count(frozen)} frozen" if frozen else ""
    tags = [name for name in graph.tag_names() if not graph.wiring.is_hidden(name)]
    line = (
        f"{'  ' * depth}{graph.label or 'graph'} [{graph.short_hash()}] "
        f"{format_count(total)} parameters{held}"
    )
    lines = [line + (f"  #{' #'.join(tags)}" if tags else "")]
    for child in graph.tree_children().values():
        lines += _tree_lines(child, depth=depth + 1)
    return lines
