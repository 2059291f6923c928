"""The tensors of a model by name, and which names stand for one and the same tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.structure import structural_hash, unwrapped

NamedTensors: TypeAlias = Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]
Named: TypeAlias = nn.Module | NamedTensors
# "auto" is the model's own hash, None is none: nothing is stored, nothing is compared.
Hash: TypeAlias = str | Literal["auto"] | None

_HASH_DIGITS = 64


def named_tensors(named: Named, buffers: NamedTensors | None = None) -> dict[str, Tensor]:
    """Parameters and buffers by name, in the model's order; every name, also of shared tensors.

    Buffers that the model itself does not keep (`persistent=False`) are left out.
    """
    if isinstance(named, nn.Module):
        if buffers is not None:
            raise UsageError("buffers must be left out when a whole model is given.")
        return _checked(_of_model(unwrapped(named)))
    tensors = _pairs(named, name="named")
    for name, tensor in _pairs(buffers or (), name="buffers").items():
        if name in tensors:
            raise UsageError(f"{name!r} is both in named and in buffers.")
        tensors[name] = tensor
    return _checked(tensors)


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name of a tensor that has an earlier name: that earlier name."""
    first: dict[tuple[object, ...], str] = {}
    shared: dict[str, str] = {}
    for name, tensor in tensors.items():
        known = first.setdefault(_place(tensor), name)
        if known != name:
            shared[name] = known
    return shared


def further_names(named: Named, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Names of a graph's tensors in ``named_parameters()``: each with the graph's own name."""
    if not isinstance(named, nn.Module):
        return {}
    own = {id(tensor): name for name, tensor in tensors.items()}
    model = unwrapped(named)
    listed = (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    )
    return {name: own[id(tensor)] for name, tensor in listed if id(tensor) in own}


def qualified_names(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]] | None:
    """The names a graph gives: by tag, which outlive a change of the graph's insides."""
    params = getattr(model, "qualified_parameters", None)
    buffers = getattr(model, "qualified_buffers", None)
    if not (callable(params) and callable(buffers)):
        return None
    return dict(params()), dict(buffers())


def chosen_hash(named: Named, given: Hash) -> str | None:
    """The hash to store or compare: the model's own, the one given, or none."""
    if given is None:
        return None
    if given == "auto":
        return structural_hash(unwrapped(named)) if isinstance(named, nn.Module) else None
    if len(given) != _HASH_DIGITS or not set(given) <= set("0123456789abcdef"):
        raise UsageError(f"hash must be {_HASH_DIGITS} hex digits, 'auto' or None, got {given!r}.")
    return given


def _of_model(model: nn.Module) -> dict[str, Tensor]:
    passing = {
        id(module._buffers[name])
        for module in model.modules()
        for name in module._non_persistent_buffers_set
    }
    params, buffers = qualified_names(model) or (
        dict(model.named_parameters(remove_duplicate=False)),
        dict(model.named_buffers(remove_duplicate=False)),
    )
    return params | {name: kept for name, kept in buffers.items() if id(kept) not in passing}


def _pairs(named: Any, *, name: str) -> dict[str, Tensor]:
    pairs = named.items() if isinstance(named, Mapping) else named
    if isinstance(pairs, (str, bytes, Tensor)) or not isinstance(pairs, Iterable):
        raise ValueTypeError(
            f"{name} must be a model, a mapping or pairs of names and tensors, "
            f"got {type(named).__name__}; the file comes first."
        )
    tensors: dict[str, Tensor] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Tensor)):
            raise ValueTypeError(f"{name} must hold pairs of a name and a tensor, got {pair!r}.")
        if pair[0] in tensors:
            raise UsageError(f"{name} holds {pair[0]!r} twice.")
        tensors[str(pair[0])] = pair[1]
    return tensors


def _checked(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in tensors.items():
        if tensor.is_meta or is_lazy(tensor):
            raise UsageError(f"{name!r} has no values yet: a checkpoint cannot hold or fill it.")
        if hasattr(tensor, "full_tensor"):
            raise UsageError(f"{name!r} is sharded over processes: gather it first.")
        if tensor.layout != torch.strided:
            raise UsageError(f"{name!r} is {tensor.layout}: only dense tensors can be kept.")
    return tensors


def _place(tensor: Tensor) -> tuple[object, ...]:
    if tensor.numel() == 0:
        return (id(tensor),)
    strides = tensor.stride()
    return (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), strides)
