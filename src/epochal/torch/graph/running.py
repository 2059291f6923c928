"""What a graph's forward checks: the inputs it was given, and what it carried here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.errors import UsageError
from epochal.torch.graph.node import Node, Wiring


def bound_inputs(
    wiring: Wiring, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[int, Any]:
    """The inputs by node; ValueError unless each is given once."""
    names = wiring.inputs
    given = {**dict(zip(names, inputs, strict=False)), **named}
    if len(inputs) > len(names) or len(given) < len(inputs) + len(named):
        raise UsageError(f"This graph takes the inputs {', '.join(names)}, each once.")
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if missing or unknown:
        what = f"missing: {', '.join(missing)}" if missing else f"unknown: {', '.join(unknown)}"
        raise UsageError(f"This graph takes the inputs {', '.join(names)}; {what}.")
    return {node.index: given[node.id] for node in wiring.nodes if node.kind == "input"}


def require_same_batch(node: Node, held: Any, stream: Any) -> None:
    """Raise ValueError when a carried value belongs to a batch of another size."""
    if held.dim() and stream.dim() and held.shape[0] != stream.shape[0]:
        raise UsageError(
            f"{node.id!r} was carried from a batch of {held.shape[0]} into one of "
            f"{stream.shape[0]}: call end_sequence() between sequences."
        )
