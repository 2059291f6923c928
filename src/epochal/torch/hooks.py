"""The hooks that a run calls where torch is in use.

Each part is imported when it is first called: a run that only logs needs none of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from epochal.torch.guarded import exclude_from_compile as exclude_from_compile

if TYPE_CHECKING:
    from epochal.run.run import Run
    from epochal.torch.scalars import CudaPhases, CudaReader


def open_reader(
    then: Callable[[dict[str, Any]], None], lost: Callable[[int, str], None]
) -> CudaReader:
    """Return what reads tensors without waiting for the GPU."""
    from epochal.torch.scalars import CudaReader

    return CudaReader(then, lost)


def open_clock() -> CudaPhases | None:
    """Return the clock that times phases on the GPU; None while the process uses none."""
    from epochal.torch.scalars import open_clock

    return open_clock()


def explain_out_of_memory(run: Run, error: BaseException) -> None:
    """Write what memory was used for, if an error is of memory."""
    from epochal.torch.memory import explain

    explain(run, error)


def start_facts(run: Run) -> None:
    """Record what the training does by itself, without calls of the program."""
    from epochal.torch.facts.training import TrainingFacts

    TrainingFacts.start(run)


def on_same_device(call: Callable[..., object]) -> Callable[..., object]:
    """Have a function use this thread's GPU where it is called."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return call
    device = torch.cuda.current_device()

    def call_there(*args: Any) -> object:
        torch.cuda.set_device(device)  # each thread has its own
        return call(*args)

    return call_there
