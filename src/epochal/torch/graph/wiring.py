"""What a graph is made of: its nodes, their wiring, and the modules that merge and call."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import add
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

Kind = Literal["input", "output", "module", "activation", "norm", "graph", "merge", "operation"]

_MOST_LISTED = 12
_NORM_MODULES = {
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.instancenorm",
    "torch.nn.modules.normalization",
}


@dataclass(slots=True)
class Node:
    """One node of a graph; `sources` are the positions of the nodes that it reads.

    `slot` is the name of its module in `graph.nodes`, None for the input. After this node has run,
    nobody needs the values of the nodes in `frees`.
    """

    id: str
    kind: Kind
    sources: tuple[int, ...] = ()
    tags: list[str] = field(default_factory=list)
    slot: str | None = None
    frees: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The first tag, else the id: the prefix of its parameters' names."""
        return self.tags[0] if self.tags else self.id


@dataclass(frozen=True, slots=True)
class Wiring:
    """The structure of a graph: its nodes in the order they run; the first is the input."""

    nodes: tuple[Node, ...]
    output: int
    tags: dict[str, int]
    groups: dict[str, tuple[str, ...]]

    def expanded(self, names: Iterable[str]) -> list[str]:
        """Return the names with each group replaced by its members, each name once."""
        members = (member for name in names for member in self.groups.get(name, (name,)))
        return list(dict.fromkeys(members))


class Function(nn.Module):
    """Calls a function that has no parameters; drawn and counted under the function's name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.title = str(getattr(function, "__name__", type(function).__name__)).strip("<>")

    def forward(self, *inputs: Any) -> Any:
        """Return what the function returns."""
        return self.function(*inputs)


class MergeOp(enum.Enum):
    """How streams are merged: their sum, or their mean."""

    ADD = "add"
    MEAN = "mean"


class Merge(nn.Module):
    """Adds its inputs, or takes their mean; they must have one shape."""

    def __init__(self, op: MergeOp) -> None:
        super().__init__()
        self.op = op

    def forward(self, *streams: Tensor) -> Tensor:
        """Return the merged stream."""
        total = reduce(add, streams)
        return total / len(streams) if self.op is MergeOp.MEAN else total

    def extra_repr(self) -> str:
        """Return the operation, which is part of the structure."""
        return self.op.value


def title_of(module: nn.Module) -> str:
    """Return the name under which a module is drawn and counted."""
    return module.title if isinstance(module, Function) else type(module).__name__


def kind_of(module: nn.Module) -> Kind:
    """Return which kind of node a module makes."""
    home, name = type(module).__module__, type(module).__name__
    if isinstance(getattr(module, "wiring", None), Wiring):
        return "graph"
    if home == "torch.nn.modules.activation" and not isinstance(module, nn.MultiheadAttention):
        return "activation"
    if home in _NORM_MODULES or name.endswith("Norm"):
        return "norm"
    return "module"


def counts(module: nn.Module) -> tuple[int, int]:
    """Return how many numbers a module's parameters hold, and how many of them are frozen."""
    everything: list[Any] = list(module.parameters())
    parameters = [one for one in everything if not is_lazy(one)]
    frozen = sum(one.numel() for one in parameters if not one.requires_grad)
    return sum(one.numel() for one in parameters), frozen


def suggestion(name: str, known: Iterable[str]) -> str:
    """Name the nearest of the known names, or list them."""
    listed = list(known)
    near = get_close_matches(name, listed, n=3)
    if near:
        return f"did you mean {', '.join(map(repr, near))}?"
    if not listed:
        return "there is none yet."
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    return f"known are {', '.join(map(repr, listed[:_MOST_LISTED]))}{more}."
