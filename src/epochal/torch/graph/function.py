"""A plain function as a module, so that it can be a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Function(nn.Module):
    """Calls a function that has no parameters; drawn and counted under the function's name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.title = str(getattr(function, "__name__", type(function).__name__)).strip("<>")

    def forward(self, *inputs: Any) -> Any:
        """Return what the function gives."""
        return self.function(*inputs)

    def extra_repr(self) -> str:
        """The function's name."""
        return self.title


def title_of(module: nn.Module) -> str:
    """The name under which a module is drawn and counted."""
    return module.title if isinstance(module, Function) else type(module).__name__
