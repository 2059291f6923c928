"""Keeps what logs out of the graphs that ``torch.compile`` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def exclude_from_compile(*functions: Callable[..., Any]) -> bool:
    """Have torch.compile run these functions, and all they call, as plain Python.

    ``torch.compiler.disable`` would do the same with a wrapper around every call; the mark on the
    code costs nothing when nothing is compiled. False for a torch without such marks: there the
    functions still work, but a graph that calls them is broken in several places instead of one.
    """
    for function in functions:
        # The mark below is of frames that begin; this one keeps a caller's graph from taking the
        # function into itself, which warns of clocks it cannot trace.
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
    try:
        from torch._C._dynamo import eval_frame

        skip = eval_frame._FrameAction.SKIP
        strategy = eval_frame._FrameExecStrategy(skip, skip)
        mark = eval_frame.set_code_exec_strategy
    except (ImportError, AttributeError):
        return False
    for function in functions:
        mark(function.__code__, strategy)
    return True
