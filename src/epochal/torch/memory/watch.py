"""Records what memory is used for while a model trains: one ``allocator`` record per GPU.

It is looked at right after the optimizer's step, when gradients and the optimizer's state are all
there; nothing waits for the GPU. The activations are those of the highest peak so far.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from epochal.errors import UsageError
from epochal.run.current import given_or_current
from epochal.torch.guarded import guarded_hook
from epochal.torch.memory.segments import devices_of, memory_segments
from epochal.torch.names import named_parameters
from epochal.torch.step_count import StepCount
from epochal.torch.watching import Recorder


class Allocated(Recorder, Protocol):
    """A run, as far as watching memory needs it."""

    def log_allocator(self, stats: Any, *, step: Any = 0, gpu: Any = None) -> None:
        """Append memory by segment."""


class MemoryWatch:
    """What :func:`watch_memory` gives back; ``remove`` takes its hook out again."""

    def __init__(self, model: nn.Module, run: Allocated, *, every: int) -> None:
        self._model = model
        self._run = run
        self._every = every
        self._count = StepCount(run)
        self._held: list[tuple[int, Any]] = []
        self._ids = {id(parameter) for _, parameter in named_parameters(model)}
        # Every optimizer of the model.
        self._optimizers: list[weakref.ref[torch.optim.Optimizer]] = []
        self._handle: Any = register_optimizer_step_post_hook(self._after_step)
        run.on_finish(self.remove)

    def remove(self) -> None:
        """Take the hook out."""
        self._handle.remove()
        self._count.end()
        self._settle()

    @guarded_hook("watch_memory")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._owns(optimizer):
            return
        alive = [one for one in (known() for known in self._optimizers) if one is not None]
        if optimizer not in alive:
            alive.append(optimizer)
        self._optimizers = [weakref.ref(one) for one in alive]
        if not self._count.begins_with(optimizer):
            return
        self._settle()
        step, is_guess = self._count.step, self._count.is_guess
        if step % self._every == 0 or (is_guess and not self._held):
            found = [
                (step, memory_segments(self._model, alive, device=device))
                for device in devices_of(self._model)
            ]
            if is_guess:
                self._held += found
            else:
                self._log(found)

    def _settle(self) -> None:
        """Record what was seen while the number of its step was a guess, if that step is due."""
        if not self._count.is_guess:
            held, self._held = self._held, []
            shift = self._count.shift
            self._log([(step + shift, found) for step, found in held])

    def _log(self, seen: list[tuple[int, Any]]) -> None:
        for step, found in seen:
            if step % self._every == 0:
                self._run.log_allocator(found, step=step)

    def _owns(self, optimizer: torch.optim.Optimizer) -> bool:
        groups = optimizer.param_groups
        return any(id(parameter) in self._ids for group in groups for parameter in group["params"])


def watch_memory(
    model: nn.Module, run: Allocated | None = None, *, every: int = 1000
) -> MemoryWatch:
    """Record memory by segment every ``every`` optimizer steps, from the first on.

    ``run`` is the current run when not given. The watch ends with the run, or with ``remove()``.
    """
    if every < 1:
        raise UsageError(f"every={every} must be 1 or more steps.")
    return MemoryWatch(model, given_or_current(run, "watch_memory()"), every=every)
