"""Parameters that are kept as they are: of a whole module, or one."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from epochal.errors import ValueTypeError


def freeze(target: nn.Module | Tensor) -> None:
    """Stop training a parameter, or all parameters of a module such as ``model.encoder``.

    Their gradients are dropped as well: with one left, an optimizer would still move them once.
    Running statistics, as of batch normalisation, are not parameters and go on.
    """
    for param in _parameters(target):
        param.requires_grad_(False)
        param.grad = None


def unfreeze(target: nn.Module | Tensor) -> None:
    """Train these parameters again; those of whole numbers are left out."""
    for param in _parameters(target):
        if param.is_floating_point() or param.is_complex():
            param.requires_grad_(True)


def is_frozen(target: nn.Module | Tensor) -> bool:
    """Tell whether all of these parameters are frozen; False where there are none."""
    params = list(_parameters(target))
    return bool(params) and not any(param.requires_grad for param in params)


def _parameters(target: nn.Module | Tensor) -> Iterable[Tensor]:
    if isinstance(target, Tensor):
        return [target]
    if not isinstance(target, nn.Module):
        raise ValueTypeError(
            f"target must be a module or a parameter, got {type(target).__name__}."
        )
    return target.parameters()
