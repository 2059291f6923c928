"""What identifies a graph's structure: qualified parameter names, and a hash over all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

from epochal.torch.graph.node_modules import title_of

if TYPE_CHECKING:
    from epochal.torch.graph.graph import Graph

_T = TypeVar("_T", bound=Tensor)


def qualified(named: Mapping[str, Iterable[tuple[str, _T]]]) -> dict[str, _T]:
    """Tensors by 'node/name', each once: a shared one under the first name it has."""
    found: dict[str, _T] = {}
    seen: set[int] = set()
    for prefix, tensors in named.items():
        for name, tensor in tensors:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{prefix}/{name}"] = tensor
    return found


def structural_hash(graph: Graph) -> str:
    """SHA-256 of the nodes, their types, parameter and buffer shapes, edges, tags and inputs.

    Neither numbers, dtypes nor the label are part of it; the text that is hashed is the same in
    every process and Python version.
    """
    wiring = graph.wiring
    structure = {
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind,
                "index": node.index,
                "module": _module(graph.module_of(node), type(graph)),
                "sources": [[source.node, source.kind, source.name] for source in node.sources],
                "carries": node.carries,
            }
            for node in wiring.nodes
        ],
        "tags": sorted(wiring.tags.items()),
        "groups": sorted((name, list(members)) for name, members in wiring.groups.items()),
        "inputs": list(wiring.inputs),
        "output": wiring.output,
    }
    text = json.dumps(structure, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _module(module: nn.Module | None, kind: type[Graph]) -> Any:
    if module is None:
        return None
    if isinstance(module, kind):
        return {"graph": structural_hash(module)}
    nested = [inner for name, inner in module.named_modules() if name and isinstance(inner, kind)]
    return {
        "type": title_of(module),
        "detail": module.extra_repr() if type(module).__module__.startswith(__package__) else "",
        "parameters": _shapes(module.named_parameters()),
        "buffers": _shapes(module.named_buffers()),
        "graphs": [structural_hash(inner) for inner in nested],
    }


def _shapes(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[str, list[int]]]:
    return sorted((name, list(tensor.shape)) for name, tensor in tensors)
