"""Finds leaks: which tensors grew in number between two moments, and who holds them.

A mark counts tensors and keeps none alive. Between two marks at the same place of two steps nothing
should grow: what does is kept by somebody, most often a list of losses with their graphs. Memory
that `malloc_trim` gives back was not leaked but fragmented.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from epochal.console.stream import printable
from epochal.errors import ValueTypeError
from epochal.format import format_bytes

_HOLDERS_LOOKED_AT = 3  # tensors of one kind; asking for referrers walks every object there is
_IGNORED = (types.FrameType, types.ModuleType)


class TensorKind(NamedTuple):
    """What tensors are counted by."""

    type: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    has_graph: bool


@dataclass(frozen=True, slots=True)
class TensorMark:
    """How many tensors of each kind were alive at one moment, and their ids."""

    counts: Mapping[TensorKind, int]
    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Growth:
    """Tensors of one kind that are more than before; ``bytes`` of all the new ones."""

    kind: TensorKind
    more: int
    bytes: int
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What grew since a mark, the most bytes first; its text is what ``print`` shows."""

    growth: tuple[Growth, ...]

    def __bool__(self) -> bool:
        return bool(self.growth)

    def __str__(self) -> str:
        if not self.growth:
            return "[Tensors since the mark]\n  none more than before"
        return "\n".join(["[Tensors since the mark]", *map(_line, self.growth)])


def mark_tensors() -> TensorMark:
    """Count the tensors that Python can reach, after collecting garbage; takes milliseconds."""
    tensors = _living()
    return TensorMark(
        Counter(_kind(tensor) for tensor in tensors), frozenset(id(tensor) for tensor in tensors)
    )


def leak_report(since: TensorMark, *, top: int = 10) -> LeakReport:
    """Compare what is alive now with a mark; the ``top`` kinds that grew, and what holds them."""
    if not isinstance(since, TensorMark):
        raise ValueTypeError(f"since must be what mark_tensors() gave, got {type(since).__name__}.")
    tensors = _living()
    counts = Counter(_kind(tensor) for tensor in tensors)
    grown = {kind: n - since.counts.get(kind, 0) for kind, n in counts.items()}
    found = []
    for kind, more in grown.items():
        if more > 0:
            fresh = [t for t in tensors if id(t) not in since.ids and _kind(t) == kind]
            size = more * fresh[0].numel() * fresh[0].element_size() if fresh else 0
            holders = _holders(fresh[:_HOLDERS_LOOKED_AT], ignoring=[tensors, fresh])
            found.append(Growth(kind, more, size, holders))
    found.sort(key=lambda one: (-one.bytes, -one.more))
    return LeakReport(tuple(found[:top]))


def _living() -> list[torch.Tensor]:
    gc.collect()
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    return [item for item in gc.get_objects() if issubclass(type(item), torch.Tensor)]


def _kind(tensor: torch.Tensor) -> TensorKind:
    return TensorKind(
        type(tensor).__name__,
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        str(tensor.device),
        tensor.grad_fn is not None,
    )


def _holders(tensors: list[torch.Tensor], *, ignoring: list[Any]) -> tuple[str, ...]:
    """What refers to these tensors: a container's own holder where it has a name there."""
    ids = {id(one) for one in (*ignoring, tensors)}
    found: dict[str, None] = {}
    for tensor in tensors:
        for holder in gc.get_referrers(tensor):
            if id(holder) not in ids and not isinstance(holder, _IGNORED):
                found[_described(holder, ids)] = None
    return tuple(found)


def _described(holder: Any, ids: set[int]) -> str:
    size = f" of {len(holder)}" if isinstance(holder, (list, tuple, dict, set)) else ""
    owners = (owner for owner in gc.get_referrers(holder) if id(owner) not in ids)
    known = next((name for name in (_named(owner, holder) for owner in owners) if name), "")
    return f"{type(holder).__name__}{known}{size}"


def _named(owner: Any, holder: Any) -> str | None:
    """The name that a module, function or object has for something; None when it has none."""
    # An object's attributes are not in a dict until somebody asks for it.
    values: Any = owner if isinstance(owner, dict) else getattr(owner, "__dict__", None)
    for name, value in list(values.items()) if isinstance(values, dict) else ():
        if value is holder and isinstance(name, str):
            return f" {printable(name)}"
    return None


def _line(growth: Growth) -> str:
    kind = growth.kind
    shape = "×".join(map(str, kind.shape)) or "0-d"
    graph = ", with its graph" if kind.has_graph else ""
    held = f"; held by {', '.join(growth.holders)}" if growth.holders else ""
    what = f"{kind.type} {shape} {kind.dtype} on {kind.device}{graph}"
    return f"  +{growth.more} ({format_bytes(growth.bytes)}): {what}{held}"


def live_tensor_count() -> int:
    """Return how many tensors Python code can still reach; takes milliseconds.

    Tensors that only the autograd graph holds are not counted.
    """
    # By type, not isinstance: asking a lazy proxy for its class may run code of its own.
    return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())


def rss_kb() -> int:
    """Return the resident memory of this process in KiB."""
    import psutil

    return int(psutil.Process().memory_info().rss) // 1024


def malloc_trim() -> bool:
    """Give the C library's free memory back to the system; True if some was.

    Only glibc can: elsewhere nothing happens and the answer is False.
    """
    if sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
