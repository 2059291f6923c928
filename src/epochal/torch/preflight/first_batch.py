"""Asks a watched model at its first training pass, with the batch that it gets."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from epochal.base.guard import attempt
from epochal.run.run import Run
from epochal.torch.guarded import ModuleHook, guarded_hook
from epochal.torch.preflight.preflight import ask_all, report
from epochal.torch.preflight.program import Program
from epochal.torch.structure import unwrapped


class FirstBatch:
    """Waits for the first pass in training mode, asks what needs no loss function, and ends."""

    def __init__(self, model: nn.Module, run: Run) -> None:
        self._run = run
        self._handle: Any = model.register_forward_pre_hook(
            ModuleHook(model, self._ask), with_kwargs=True
        )

    def remove(self) -> None:
        """Wait no longer."""
        self._handle.remove()

    @guarded_hook("preflight")
    def _ask(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not model.training or not torch.is_grad_enabled():
            return
        self.remove()
        result, _ = ask_all(model, _named(model, args, kwargs), Program())
        report(result, self._run)


def _named(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments of a pass by name, as the batch of a model that is called with names."""
    signature, _ = attempt(inspect.signature, unwrapped(model).forward)
    if signature is None or (len(args) == 1 and not kwargs):
        return args[0] if len(args) == 1 else args
    bound, _ = attempt(signature.bind, *args, **kwargs)
    if bound is None:
        return args
    kinds = {signature.parameters[name].kind for name in bound.arguments}
    if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
        return dict(bound.arguments)
    return kwargs if kwargs and not args else args
