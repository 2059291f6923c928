"""Whether torch is tracing a module into an exported program."""

from __future__ import annotations

import torch


def is_exporting() -> bool:
    """Tell whether side effects of a forward must be left out."""
    # torch before 2.7 cannot tell an export from a compilation.
    ask = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(ask())
