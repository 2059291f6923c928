"""Parameter names as the author of a model wrote them, and the spellings of one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import nn

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
    inner = getattr(model, "_orig_mod", model)
    is_wrapped = type(inner).__name__ in _WRAPPER_CLASSES
    for name, parameter in model.named_parameters():
        yield plain_name(name, is_wrapped=is_wrapped), parameter
