"""The functions of ``epochal.torch`` that a run calls where torch is in use.

The packages below ``epochal.torch`` must not import it. ``epochal/__init__.py`` stands above all of
them and registers a function that loads the hooks. A program without torch never loads them.
``import epochal`` loads this file, so it imports nothing, not even ``typing``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class TorchHooks:
    """The functions that ``epochal.torch`` provides."""

    def __init__(
        self,
        *,
        open_reader: Callable[..., Any],  # (then, lost): reads tensors without waiting for the GPU
        open_clock: Callable[[], Any],  # times phases on the GPU; None while the process uses none
        exclude_from_compile: Callable[..., Any],  # (*functions): keeps them out of compiled graphs
        explain_out_of_memory: Callable[..., None],  # (run, error)
        on_same_device: Callable[..., Any],  # (call): sets this thread's GPU where it is called
    ) -> None:
        self.open_reader = open_reader
        self.open_clock = open_clock
        self.exclude_from_compile = exclude_from_compile
        self.explain_out_of_memory = explain_out_of_memory
        self.on_same_device = on_same_device


_loaders: list[Callable[[], TorchHooks]] = []


def register_torch_hooks(load: Callable[[], TorchHooks]) -> None:
    """Have ``torch_hooks`` return what ``load`` returns."""
    _loaders[:] = [load]


def torch_hooks() -> TorchHooks:
    """Load and return the hooks. Call this only where torch is in use."""
    return _loaders[0]()
