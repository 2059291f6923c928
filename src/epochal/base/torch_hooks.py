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


_loaders: list[Callable[[], Any]] = []


def register_torch_hooks(load: Callable[[], Any]) -> None:
    """Have ``torch_hooks`` return what ``load`` returns."""
    _loaders[:] = [load]


def torch_hooks() -> Any:
    """Return the module `epochal.torch.hooks`. Call this only where torch is in use."""
    return _loaders[0]()
