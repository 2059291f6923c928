"""Parameter names as the author of a model wrote them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

# What wrappers put into names: DDP and DataParallel, torch.compile, FSDP, activation checkpointing.
_WRAPPER_PARTS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_WRAPPER_CLASSES = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


def plain_name(name: str, *, is_wrapped: bool = False) -> str:
    """A name without what wrappers added; ``is_wrapped`` drops a leading ``module.`` as well."""
    parts = [part for part in name.split(".") if part not in _WRAPPER_PARTS]
    if is_wrapped and parts[:1] == ["module"]:
        parts = parts[1:]
    return ".".join(parts)


def named_parameters(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter once, under its plain name."""
    inner = getattr(model, "_orig_mod", model)
    is_wrapped = type(inner).__name__ in _WRAPPER_CLASSES
    for name, parameter in model.named_parameters():
        yield plain_name(name, is_wrapped=is_wrapped), parameter
