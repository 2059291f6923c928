"""The time in which DistributedDataParallel exchanges buffers, before a forward pass.

It sends BatchNorm's statistics from rank 0 to the others as its pass begins, so that a fast rank
waits for a slow one there. Inside a phase of the run that time is the phase ``sync``, not
``forward``. The hooks on a model stay out of its copies and files.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from epochal.run.phases import Phase
from epochal.torch.guarded import ModuleHook, guarded_hook


class PhasedRun(Protocol):
    """A run, as far as its phases are needed here."""

    def phase(self, name: str) -> Phase:
        """The phase of a name."""


class BufferSync:
    """Times from the beginning of a wrapper's pass to that of the model inside it.

    Whoever watches the model without its wrapper is served too: the first pass tells which wrapper
    it is.
    """

    def __init__(self, model: nn.Module, run: PhasedRun) -> None:
        self._run = run
        self._phase: Phase | None = None
        self._is_open = False
        self._handles: list[Any] = []
        inner = model.module if isinstance(model, DistributedDataParallel) else model
        self._inner = weakref.ref(inner)
        self._wrapper: weakref.ref[DistributedDataParallel] | None = None
        is_distributed = dist.is_available() and dist.is_initialized()
        if not is_distributed or next(inner.buffers(), None) is None:
            return
        self._handles.append(inner.register_forward_pre_hook(ModuleHook(inner, self._end)))
        if isinstance(model, DistributedDataParallel):
            self._follow(model)

    def remove(self) -> None:
        """Take the hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _follow(self, wrapper: DistributedDataParallel) -> None:
        self._wrapper = weakref.ref(wrapper)
        self._handles.append(wrapper.register_forward_pre_hook(ModuleHook(wrapper, self._begin)))

    @guarded_hook("watch")
    def _begin(self) -> None:
        if self._is_open:  # the model inside is compiled, and runs no hook
            self._leave()
            self.remove()
            return
        wrapper = self._wrapper() if self._wrapper is not None else None
        if wrapper is None or not wrapper.will_sync_module_buffers():  # type: ignore[no-untyped-call]
            return
        if self._phase is None:
            self._phase = self._run.phase("sync")
        if self._phase.is_inside_another():
            self._phase.__enter__()
            self._is_open = True

    @guarded_hook("watch")
    def _end(self) -> None:
        if self._is_open:
            self._leave()
        elif self._wrapper is None:
            active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
            if isinstance(active, DistributedDataParallel) and active.module is self._inner():
                self._follow(active)

    def _leave(self) -> None:
        self._is_open = False
        if self._phase is not None:
            self._phase.__exit__(None, None, None)
