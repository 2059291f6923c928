"""`preflight`: asks a model, a batch and a loss twelve exact questions before the training.

Every question is asked to a copy of the model, or to the model itself if no copy can be made. What
a question changes is put back, and at the end the model is compared with what it was.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from epochal.base.guard import attempt, describe
from epochal.errors import UsageError
from epochal.run.console.messages import msg
from epochal.run.current import OPEN_RUNS, given_or_current
from epochal.run.run import Run
from epochal.torch.checks import check_module, check_number
from epochal.torch.guarded import paused_hooks
from epochal.torch.preflight.answer import Answer, CannotTellError, Preflight, unknown
from epochal.torch.preflight.batch import Batch
from epochal.torch.preflight.program import Program
from epochal.torch.preflight.registry import QUESTIONS, Question
from epochal.torch.preflight.state import RandomState
from epochal.torch.preflight.subject import Subject, num_ranks
from epochal.torch.structure import unwrapped

# Classes that spread a model over processes, whose passes need all of them.
_SPREAD = {
    "DTensor": "its parameters are spread over processes",
    "FSDPModule": "FSDP spreads it over processes",
    "FullyShardedDataParallel": "FSDP spreads it over processes",
    "DeepSpeedEngine": "DeepSpeed runs it",
    "PipelineEngine": "DeepSpeed runs it",
    "Pipe": "it is a pipeline",
    "PipelineStage": "it is a pipeline",
}
# Errors that say something about the machine, not about the program.
_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)


def preflight(
    model: nn.Module,
    batch: Any,
    loss_fn: Callable[..., Any] | None = None,
    *,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    loader: Any = None,
    forward: Callable[[Any, Any], Any] | None = None,
    causal: bool | None = None,
    run: Run | None = None,
    seconds: float = 60.0,
) -> Preflight:
    """Ask twelve exact questions about a training before it begins, and print the answers.

    Each answer is *pass*, *fail* with names and numbers, or *cannot tell* with the reason. The
    model, its gradients and all random states are afterwards as they were. An open run records the
    answers.

    Args:
        model: The model. Of a compiled model and of DDP, the module inside is asked.
        batch: A batch as the training loop has it, on the device of the model.
        loss_fn: Called with the output and the batch; a loss of torch is called with the output
            and the labels. By default the model returns its loss, as in `model(**batch).loss`.
        optimizer: The optimizer of the training, or several.
        loader: The data loader of the training; up to 16 batches are read from it.
        forward: Called with the model and the batch, if the model is not called with the batch or
            its inputs.
        causal: Whether a position may see no later one. By default this is recognised.
        run: The run that records the answers, by default the current one if there is one.
        seconds: No question begins after so many seconds.

    Returns:
        The answers, which print as a table.
    """
    check_module(model)
    check_number(seconds, name="seconds", is_above=True)
    chosen = OPEN_RUNS.current if run is None else given_or_current(run, "preflight()")
    result, fault = ask_all(
        model,
        batch,
        Program(loss_fn, forward),
        optimizer=optimizer,
        loader=loader,
        causal=causal,
        seconds=seconds,
    )
    if fault is not None:
        raise UsageError(
            f"preflight: the model or its loss raised {describe(fault)} with this batch."
            " Pass forward=lambda model, batch: … if it is called in another way."
        ) from fault
    report(result, chosen)
    return result


def report(result: Preflight, run: Run | None) -> None:
    """Print the answers, and have a run record them."""
    if run is not None:
        run.event("preflight", **result.to_dict())
    if run is None or run.rank == 0:
        msg("%s", result)


def ask_all(
    model: nn.Module,
    batch: Any,
    program: Program,
    *,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    loader: Any = None,
    causal: bool | None = None,
    seconds: float = 60.0,
) -> tuple[Preflight, Exception | None]:
    """Ask every question; the error is what the model raised with the batch as it is."""
    began = time.monotonic()
    module = unwrapped(model)
    reason = _why_not(model, module)
    if reason is not None:
        answers = {one.name: unknown(reason) for one in QUESTIONS}
        return Preflight(answers, time.monotonic() - began), None
    with _undisturbed():
        subject = Subject(
            module,
            Batch(batch),
            program,
            optimizers=[] if optimizer is None else _listed(optimizer),
            loader=loader,
            causal=causal,
            seconds=seconds,
        )
        try:
            fault = subject.fault
            if fault is not None and not isinstance(fault, (*_OF_MEMORY, CannotTellError)):
                answers = {one.name: unknown(describe(fault)) for one in QUESTIONS}
            else:
                answers, fault = {one.name: _ask(one, subject) for one in QUESTIONS}, None
        finally:
            subject.state.restore()
            changed = subject.original_state.restore()
    return Preflight(answers, time.monotonic() - began, tuple(changed)), fault


def _ask(question: Question, subject: Subject) -> Answer:
    if subject.seconds_left <= 0:
        return unknown("the time limit was reached before this question")
    answer, error = attempt(question.ask, subject)
    subject.state.restore()
    if error is None and answer is not None:
        return answer
    if isinstance(error, CannotTellError):
        return unknown(str(error))
    return unknown(f"the question raised {describe(error)}" if error else "no answer")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Have what runs here leave no trace outside of the model: random numbers, hooks, graphs."""
    state = RandomState()
    set_stance = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    eager: Any = set_stance("force_eager") if set_stance is not None else nullcontext()
    try:
        with (
            warnings.catch_warnings(),
            paused_hooks(),
            eager,
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            # The training itself will warn.
            warnings.simplefilter("ignore")
            yield
    finally:
        state.restore()


def _listed(optimizer: Any) -> list[Any]:
    return list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]


def _why_not(model: nn.Module, module: nn.Module) -> str | None:
    """Why no question can be asked about a model; None if they can."""
    parts = [*model.modules(), *module.parameters()]
    for part in parts:
        for kind in type(part).__mro__:
            if kind.__name__ in _SPREAD:
                return f"{_SPREAD[kind.__name__]}: one process cannot ask it alone"
        if hasattr(part, "ds_id"):
            return f"{_SPREAD['DeepSpeedEngine']}: one process cannot ask it alone"
        if isinstance(part, nn.SyncBatchNorm) and num_ranks() > 1:
            return "SyncBatchNorm waits for other processes"
    if any(one.is_meta for one in module.parameters()) or any(map(is_lazy, module.parameters())):
        return "it has parameters without values: call it once before"
    return None
