"""What a model is built of, as one number: names, types and shapes, never values or dtypes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from epochal.errors import ValueTypeError


def structural_hash(model: nn.Module) -> str:
    """Return 64 hex digits that differ when the architecture does.

    They follow from the tree of modules: their names, their types' names, and the names and shapes
    of parameters and buffers. The same on every machine and in every version of Python; training,
    dtype and device do not change it. A model that has a `structural_hash()` of its own is asked.
    """
    if not isinstance(model, nn.Module):
        raise ValueTypeError(f"model must be a torch module, got {type(model).__name__}.")
    own = getattr(model, "structural_hash", None)
    if callable(own):
        return str(own())
    return module_tree_hash(model)


def module_tree_hash(model: nn.Module) -> str:
    """The hash of the tree below a module, whatever the module itself answers."""
    rows = [_row(name, module, nested=name != "") for name, module in _tree(unwrapped(model))]
    text = json.dumps(rows, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


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


def _tree(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(model.named_modules(remove_duplicate=False))


def _row(name: str, module: nn.Module, *, nested: bool) -> list[Any]:
    own = getattr(module, "structural_hash", None)
    inner = str(own()) if nested and callable(own) else ""
    return [
        name,
        type(module).__name__,
        _shapes(module._parameters),
        _shapes(module._buffers),
        inner,
    ]


def _shapes(tensors: Mapping[str, Tensor | None]) -> list[list[Any]]:
    return [
        [name, None if is_lazy(tensor) else list(tensor.shape)]
        for name, tensor in sorted(tensors.items())
        if tensor is not None
    ]
