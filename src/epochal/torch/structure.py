"""What a model is built of: a hash of its structure, and the names of its parameters."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from epochal.torch.checks import check_module

T = TypeVar("T")


def structural_hash(model: nn.Module) -> str:
    """Return 64 hex digits that differ when the architecture does.

    They follow from the tree of modules: their names, their types' names, and the names and shapes
    of parameters and buffers. The same on every machine and in every version of Python; training,
    dtype and device do not change it. A model that has a `structural_hash()` of its own is asked.

    Args:
        model: The model.
    """
    check_module(model)
    if own := _own_hash(model):
        return own
    rows = [
        [
            name,
            type(module).__name__,
            _shapes(module._parameters),
            _shapes(module._buffers),
            _own_hash(module) if name else "",
        ]
        for name, module in unwrapped(model).named_modules(remove_duplicate=False)
    ]
    text = json.dumps(rows, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _own_hash(module: nn.Module) -> str:
    own = getattr(module, "structural_hash", None)
    return str(own()) if callable(own) else ""


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside what torch.compile, DataParallel or DDP put around it."""
    while True:
        compiled = getattr(model, "_orig_mod", None)
        if isinstance(compiled, nn.Module):
            model = compiled
        elif isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


def tensors_in(value: Any) -> list[Tensor]:
    """Return the tensors in a value, looking into lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []


def _shapes(tensors: Mapping[str, Tensor | None]) -> list[list[Any]]:
    return [
        [name, None if is_lazy(tensor) else list(tensor.shape)]
        for name, tensor in sorted(tensors.items())
        if tensor is not None
    ]


# -- names of parameters --------------------------------------------------------------------------


# What wrappers put into names: DDP and DataParallel, torch.compile, FSDP, activation checkpointing.
_WRAPPER_PARTS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# A graph keeps its modules in an attribute of this name; its own names leave it out.
_GRAPH_PARTS = frozenset({"nodes"})
_SEPARATORS = re.compile(r"[./]")
_WRAPPER_CLASSES = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


def plain_name(name: str, *, is_wrapped: bool = False) -> str:
    """A name without what wrappers added; ``is_wrapped`` drops a leading ``module.`` as well."""
    parts = [part for part in name.split(".") if part not in _WRAPPER_PARTS]
    if is_wrapped and parts[:1] == ["module"]:
        parts = parts[1:]
    return ".".join(parts)


def spelling(name: str) -> str:
    """One spelling for a tensor's name, wherever it comes from.

    ``encoder/weight`` (a graph's own name), ``nodes.encoder.weight`` (``named_parameters()`` of the
    same graph) and ``_orig_mod.nodes.encoder.weight`` (compiled) all give ``encoder.weight``.
    """
    parts = [part for part in _SEPARATORS.split(name) if part and part not in _GRAPH_PARTS]
    return plain_name(".".join(parts)) or name


def name_finder(
    names: Iterable[str], also: Mapping[str, str] | None = None
) -> Callable[[str], str | None]:
    """A function that finds which of these names another name stands for; None for no one.

    The same text comes first, then further names of the same thing (``also``), then the same
    spelling, where only one of the names has it.
    """
    by_text = dict(also or {}) | {name: name for name in names}
    by_spelling: dict[str, str | None] = {}
    for text, name in by_text.items():
        known = by_spelling.setdefault(spelling(text), name)
        if known != name:
            by_spelling[spelling(text)] = None
    return lambda text: by_text[text] if text in by_text else by_spelling.get(spelling(text))


def named_parameters(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter once, under its plain name."""
    return _plainly_named(model, model.named_parameters())


def named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, under its plain name."""
    return _plainly_named(model, model.named_modules())


def _plainly_named(model: nn.Module, named: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    inner = getattr(model, "_orig_mod", model)
    is_wrapped = type(inner).__name__ in _WRAPPER_CLASSES
    for name, one in named:
        yield plain_name(name, is_wrapped=is_wrapped), one
