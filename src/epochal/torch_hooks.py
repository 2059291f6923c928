"""The functions of ``epochal.torch`` that a run calls where torch is in use.

The packages below ``epochal.torch`` must not import it. ``epochal/__init__.py`` stands above all of
them and registers a function that loads the hooks. A program without torch never loads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from epochal.registered import Registered


class TorchHooks(NamedTuple):
    """The functions that ``epochal.torch`` provides."""

    open_reader: Callable[..., Any]  # (then, lost): reads tensors without waiting for the GPU
    open_clock: Callable[[], Any]  # times phases on the GPU; None while the process uses none
    exclude_from_compile: Callable[..., Any]  # (*functions): keeps them out of compiled graphs
    explain_out_of_memory: Callable[..., None]  # (run, error, model=, optimizer=)


torch_hooks: Registered[TorchHooks] = Registered()
"""Returns the hooks. Call this only where torch is in use."""
