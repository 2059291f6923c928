"""Hooks that run inside a training: a fault in one is recorded, and the training continues."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from epochal.base.guard import guarded
from epochal.run.current import guard_of

Hook = TypeVar("Hook", bound=Callable[..., Any])


def guarded_hook(member: str) -> Callable[[Hook], Hook]:
    """Decorate a method that torch calls in a forward pass, a backward pass or a step.

    Its object has the run as ``_run``; the fault of one without is that of the current run. The
    hook rests after three faults. It does nothing while ``torch.compile`` traces a model, and
    nothing inside ``paused_hooks``.
    """
    guard = guarded(member, lambda owner: guard_of(getattr(owner, "_run", None)))

    def decorate(method: Hook) -> Hook:
        call = guard(method)

        @functools.wraps(call)
        def hook(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or _PAUSES:
                return None
            return call(*args, **kwargs)

        return hook  # type: ignore[return-value]

    return decorate


# One item for each ``paused_hooks`` that is open. Not a context variable: autograd calls hooks from
# threads of its own.
_PAUSES: list[None] = []


@contextmanager
def paused_hooks() -> Iterator[None]:
    """Have the hooks of Epochal do nothing: what runs meanwhile is no part of the training."""
    _PAUSES.append(None)
    try:
        yield
    finally:
        _PAUSES.pop()


def is_capturing() -> bool:
    """Return True while a CUDA graph is captured: nothing may be read then."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


class ModuleHook:
    """A hook on one module; copies of it keep it without effect, and files without Epochal."""

    def __init__(self, module: nn.Module, call: Callable[..., object]) -> None:
        self._module = weakref.ref(module)
        self._call = call

    def __call__(self, module: nn.Module, *given: Any) -> None:
        """Call with the module and what torch gives, unless a copy runs or it is traced."""
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return
        if module is self._module():
            self._call(module, *given)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleHook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A function of the standard library that takes anything and does nothing.
        return getattr, (nullcontext(), "__exit__")


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
