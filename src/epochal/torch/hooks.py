"""The hooks that a run calls where torch is in use.

Each part is imported when it is first called: a run that only logs needs none of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from epochal.base.torch_hooks import TorchHooks
from epochal.torch.guarded import exclude_from_compile

if TYPE_CHECKING:
    from epochal.run.run import Run
    from epochal.torch.scalars import CudaPhases, CudaReader


def _open_reader(
    then: Callable[[dict[str, Any]], None], lost: Callable[[int, str], None]
) -> CudaReader:
    from epochal.torch.scalars import CudaReader

    return CudaReader(then, lost)


def _open_clock() -> CudaPhases | None:
    from epochal.torch.scalars import open_clock

    return open_clock()


def _explain_out_of_memory(run: Run, error: BaseException) -> None:
    from epochal.torch.memory import explain

    explain(run, error)


def _on_same_device(call: Callable[..., object]) -> Callable[..., object]:
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return call
    device = torch.cuda.current_device()

    def call_there(*args: Any) -> object:
        torch.cuda.set_device(device)  # each thread has its own
        return call(*args)

    return call_there


HOOKS = TorchHooks(
    open_reader=_open_reader,
    open_clock=_open_clock,
    exclude_from_compile=exclude_from_compile,
    explain_out_of_memory=_explain_out_of_memory,
    on_same_device=_on_same_device,
)
