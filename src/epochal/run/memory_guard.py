"""Explains an out-of-memory error in the run while the memory is still in use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from epochal.guard import Guard
from epochal.torch_hooks import torch_hooks

if TYPE_CHECKING:
    from epochal.run.run import Run


@contextmanager
def memory_guard(run: Run, guard: Guard, model: Any, optimizer: Any) -> Iterator[None]:
    """Explain what is raised in a block if it is for want of memory, and raise it again."""
    try:
        yield
    except BaseException as error:
        explain = partial(explain_out_of_memory, run, error, model=model, optimizer=optimizer)
        guard.run("out-of-memory report", explain)
        raise


def explain_out_of_memory(
    run: Run, error: BaseException, *, model: Any = None, optimizer: Any = None
) -> None:
    """Write what memory was used for, if there was too little of it; once for each error."""
    if "torch" in sys.modules and not run.finished:
        torch_hooks().explain_out_of_memory(run, error, model=model, optimizer=optimizer)
