"""What a run calls where torch is in use.

``epochal.torch`` registers itself here, because the packages below it must not import it. It is
loaded at the first call of :func:`torch_hooks`, so that a program without torch never loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class TorchHooks(NamedTuple):
    """The functions that ``epochal.torch`` registers."""

    open_reader: Callable[..., Any]  # (then, lost): reads tensors without waiting for the GPU
    open_clock: Callable[[], Any]  # times phases on the GPU; None while the process uses none
    exclude_from_compile: Callable[..., Any]  # (*functions): keeps them out of compiled graphs
    explain_out_of_memory: Callable[..., None]  # (run, error, model=, optimizer=)


_registered: list[TorchHooks] = []


def register_torch(hooks: TorchHooks) -> None:
    """Have runs call these functions."""
    _registered[:] = [hooks]


def torch_hooks() -> TorchHooks:
    """The registered functions. Call this only where torch is in use."""
    if not _registered:
        import_module("epochal.torch.hooks")
    return _registered[0]
