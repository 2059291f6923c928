"""Has an out-of-memory error explained in the run before it goes on."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from epochal.torch_hooks import torch_hooks


def explain_out_of_memory(
    run: Any, error: BaseException, *, model: Any = None, optimizer: Any = None
) -> None:
    """Write what memory was used for, if an error is one of too little memory; once for each."""
    if "torch" in sys.modules and not run.finished:
        torch_hooks().explain_out_of_memory(run, error, model=model, optimizer=optimizer)


class MemoryGuard:
    """What ``run.memory_guard`` gives: a ``with`` block whose memory errors are explained."""

    def __init__(self, run: Any, model: Any, optimizer: Any) -> None:
        self._run = run
        self._model = model
        self._optimizer = optimizer

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            explain_out_of_memory(self._run, error, model=self._model, optimizer=self._optimizer)
