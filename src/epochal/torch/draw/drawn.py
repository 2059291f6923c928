"""A picture of any module, by whichever way torch allows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from epochal.errors import UsageError
from epochal.torch.draw.leaves import leaves_of
from epochal.torch.draw.picture import Picture
from epochal.torch.draw.traced import from_export, from_fx
from epochal.torch.draw.trail import Trail
from epochal.torch.draw.watched import from_forward
from epochal.torch.graph.graph import Graph
from epochal.torch.structure import unwrapped

_MOST_NODES = 240
# What torch raises for a module it cannot trace; everything of its own derives from these.
_UNTRACEABLE = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)

Way = Callable[..., Picture]


def picture_of(
    module: nn.Module, example_inputs: Any = None, *, depth: int | None = None
) -> Picture:
    """Draw a module; `example_inputs` are its arguments: a tensor, a tuple, or a dict of names.

    A Graph is drawn as it was built. Any other module by torch.export (which needs inputs), by
    torch.fx, or by watching one forward (which needs inputs too), whichever works first; the
    picture's `note` says which, and when nothing works the parts are drawn without their order.
    `depth` draws modules that deep in the tree as one; without it that happens only when there
    would be more than 240 nodes.
    """
    if not isinstance(module, nn.Module):
        raise UsageError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
    plain = unwrapped(module)
    if isinstance(plain, Graph):
        return plain.picture()
    args, named = _arguments(example_inputs)
    ways: list[Way] = [] if example_inputs is None else [_exported(plain, args, named)]
    ways.append(lambda depth: from_fx(plain, depth=depth))
    if example_inputs is not None:
        ways.append(lambda depth: from_forward(plain, args, named, depth=depth))
    reasons = []
    for way in ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _small_enough(plain, way, depth)
        except _UNTRACEABLE as error:
            lines = str(error).strip().splitlines() or [""]
            reasons.append(f"{type(error).__name__}: {lines[0]}"[:120])
    return replace(_parts(plain, depth), note=f"parts only; {reasons[-1]}")


def _exported(module: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> Way:
    return lambda depth: from_export(module, args, named, depth=depth)


def _small_enough(module: nn.Module, way: Way, depth: int | None) -> Picture:
    picture = way(depth)
    if depth is not None:
        return picture
    deepest = max((path.count(".") + 1 for path in leaves_of(module)), default=1)
    for level in range(deepest - 1, 0, -1):
        if len(picture.nodes) <= _MOST_NODES:
            break
        picture = way(level)
    return picture


def _parts(module: nn.Module, depth: int | None) -> Picture:
    trail = Trail(module)
    for path in leaves_of(module, depth=depth):
        trail.module(path, [])
    return trail.picture(note="parts only")


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if example_inputs is None:
        return (), {}
    if isinstance(example_inputs, Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    return tuple(example_inputs), {}
