"""Whether torch is tracing a module into an exported program."""

from __future__ import annotations

import torch


def is_exporting() -> bool:
    """Tell whether side effects of a forward must be left out."""
    # Not is_exporting(): torch 2.11 takes it for true inside torch.compile as well.
    flag = getattr(torch.compiler, "_is_exporting_flag", None)
    if flag is not None:
        return bool(flag)
    return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
