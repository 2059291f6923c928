"""A picture from a computation that torch traced: an exported program, or torch.fx."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from epochal.torch.draw.leaves import is_leaf, leaf_of
from epochal.torch.draw.picture import Picture
from epochal.torch.draw.trail import Trail

# Of a tensor in a symbolic trace, where nothing says what a call gives.
_FACTS = frozenset({"getattr", "size", "dim", "numel", "is_floating_point", "data_ptr"})


def from_export(
    root: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any], *, depth: int | None
) -> Picture:
    """Follow an exported program; which part a call belongs to is in its nodes."""
    # What it cannot export torch also prints, before it says so by raising.
    with contextlib.redirect_stderr(io.StringIO()):
        program = torch.export.export(root, args, dict(named), strict=False)
    inputs = set(program.graph_signature.user_inputs)
    return _followed(root, program.graph, inputs, depth=depth, note="from torch.export")


def from_fx(root: nn.Module, *, depth: int | None) -> Picture:
    """Follow a symbolic trace, which needs no inputs."""

    class Tracer(fx.Tracer):
        """Stops at the parts that are drawn as one."""

        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return is_leaf(module, path, depth=depth)

    graph = Tracer().trace(root)
    return _followed(root, graph, None, depth=depth, note="from torch.fx")


def _followed(
    root: nn.Module, graph: fx.Graph, inputs: set[Any] | None, *, depth: int | None, note: str
) -> Picture:
    trail = Trail(root)
    makers: dict[fx.Node, str] = {}
    running: tuple[str, str] | None = None  # the part whose calls come just now, and its key
    for node in graph.nodes:
        reads = [makers[source] for source in node.all_input_nodes if source in makers]
        if node.op == "placeholder":
            if inputs is None or node.name in inputs:
                makers[node] = trail.input(str(node.target))
        elif node.op == "output":
            trail.output(reads)
        elif node.op != "get_attr":
            path = _path(root, node, depth)
            if path is None:
                running = None
                maker = trail.function(_name(node), reads) if _is_drawn(node) else None
                if maker is not None:
                    makers[node] = maker
            elif running is not None and running[0] == path and node.op != "call_module":
                trail.read(running[1], reads)
                makers[node] = running[1]
            else:
                makers[node] = trail.module(path, reads)
                running = (path, makers[node])
    return trail.picture(note=note)


def _path(root: nn.Module, node: fx.Node, depth: int | None) -> str | None:
    """The part in which a call happens; None for one outside of all parts."""
    if node.op == "call_module":
        return str(node.target)
    stack = node.meta.get("nn_module_stack") or {}
    for path, _ in reversed(list(stack.values())):
        clean = str(path).split("@")[0]
        return leaf_of(root, clean, depth=depth) if clean else None
    return None


def _is_drawn(node: fx.Node) -> bool:
    """Whether a call gives tensors: sizes and assertions are not part of a picture."""
    if "val" in node.meta:
        return isinstance(node.meta["val"], (Tensor, list, tuple))
    return _name(node) not in _FACTS


def _name(node: fx.Node) -> str:
    if isinstance(node.target, str):
        return node.target
    return str(getattr(node.target, "__name__", node.target)).split(".")[0]
