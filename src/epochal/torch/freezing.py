"""Parameters that are kept as they are, chosen by path.

A path names a module or a parameter inside a model, with dots or slashes: ``encoder``,
``encoder.0.weight``, ``layers.*.norm``. The names of a ``LoadReport`` are such paths. A star stands
for any text without a dot. None means all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.checkpoint.named_tensors import qualified_names
from epochal.torch.names import spelling
from epochal.torch.structure import unwrapped


def freeze(target: nn.Module | Tensor, path: str | None = None) -> tuple[str, ...]:
    """Stop training these parameters; returns their names.

    Their gradients are dropped as well: with one left, an optimizer would still move them once.
    Running statistics, as of batch normalisation, are not parameters and go on.
    """
    chosen = dict(_chosen(target, path))
    for param in chosen.values():
        param.requires_grad_(False)
        param.grad = None
    return tuple(chosen)


def unfreeze(target: nn.Module | Tensor, path: str | None = None) -> tuple[str, ...]:
    """Train these parameters again; returns their names. Those of whole numbers are left out."""
    chosen = {
        name: param
        for name, param in _chosen(target, path)
        if param.is_floating_point() or param.is_complex()
    }
    for param in chosen.values():
        param.requires_grad_(True)
    return tuple(chosen)


def is_frozen(target: nn.Module | Tensor, path: str | None = None) -> bool:
    """Tell whether all of these parameters are frozen; False where there are none."""
    chosen = [param for _, param in _chosen(target, path)]
    return bool(chosen) and not any(param.requires_grad for param in chosen)


def _chosen(target: nn.Module | Tensor, path: str | None) -> Iterator[tuple[str, Tensor]]:
    if isinstance(target, Tensor):
        if path is not None:
            raise UsageError(f"path must be None for a single parameter, got {path!r}.")
        return iter([("", target)])
    if not isinstance(target, nn.Module):
        raise ValueTypeError(
            f"target must be a module or a parameter, got {type(target).__name__}."
        )
    named = dict(target.named_parameters(remove_duplicate=False))
    if path is None:
        return iter(named.items())
    pattern = _pattern(path)
    params, _ = qualified_names(unwrapped(target)) or ({}, {})
    own = {id(param): name for name, param in params.items()}
    found = {
        name: param
        for name, param in named.items()
        if any(pattern.match(text) for text in _spellings(name, own.get(id(param), name)))
    }
    if not found:
        raise UsageError(f"path {path!r} matches no parameter{_suggestion(target, path)}.")
    return iter(found.items())


def _spellings(name: str, own_name: str) -> set[str]:
    """What a parameter is called: by torch, by a load's report, and without what wrappers add."""
    return {name, spelling(name), own_name.replace("/", "."), spelling(own_name)}


def _pattern(path: str) -> re.Pattern[str]:
    parts = (re.escape(part) for part in path.replace("/", ".").strip(".").split("*"))
    return re.compile(rf"{'[^.]*'.join(parts)}(\.|$)")


def _suggestion(model: torch.nn.Module, path: str) -> str:
    names = [name for name, _ in model.named_modules()] + [n for n, _ in model.named_parameters()]
    near = difflib.get_close_matches(path, names, n=3)
    return f"; did you mean {' or '.join(repr(name) for name in near)}" if near else ""
