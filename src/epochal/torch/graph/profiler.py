"""Times the parts of a module, forward and backward, through hooks.

Forward, each part is marked before and after. Backward, the moment when the gradient arrives at a
part's output is marked. Autograd works through the parts one after the other, so a part's backward
lasts until the next mark. That needs no change to any tensor, in-place modules included. On a GPU
marks are events in its stream, read when the GPU has passed them: a step never waits. A forward
that runs again inside the backward (activation checkpointing) counts as backward. A part that has
parts of its own (a labelled graph) lasts backward as long as they do together.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from epochal.torch.graph.clocks import Clock, clock_for, tensors_in
from epochal.torch.guarded import guarded_hook

_MOST_PASSES = 32
_AWAITED_PASSES = 4


@dataclass(slots=True, eq=False)
class Pass:
    """The marks of one call of the whole module, and of the backward that belongs to it.

    `around` has, for each part inside another part, the parts around it.
    """

    clock: Clock
    begun: Any
    ended: Any = None
    starts: dict[str, tuple[Any, set[Any]]] = field(default_factory=dict)
    calls: list[tuple[str, Any, Any]] = field(default_factory=list)
    arrivals: list[tuple[str, Any]] = field(default_factory=list)
    backward: list[tuple[str, Any, Any]] = field(default_factory=list)
    around: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    awaits_backward: bool = False
    overhead_ns: int = 0
    taken: bool = False

    def is_read(self) -> bool:
        """Whether every mark's moment has come."""
        last = [self.ended, *(end for _, _, end in self.backward[-1:])]
        return self.ended is not None and all(self.clock.reached(mark) for mark in last)


class Profiler:
    """Hooks on a module and on its parts, by name, while it is installed.

    `around` has, for each part inside another part, the parts around it.
    """

    def __init__(
        self,
        root: nn.Module,
        parts: Mapping[str, nn.Module],
        *,
        around: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._root = root
        self._around = dict(around or {})
        self._wholes = {whole for wholes in self._around.values() for whole in wholes}
        first = {id(module): name for name, module in reversed(list(parts.items()))}
        # A shared module is timed under its first name: its hooks cannot tell who calls.
        self._parts = {name: one for name, one in parts.items() if first[id(one)] == name}
        self._handles: list[RemovableHandle] = []
        self._current: Pass | None = None
        self.passes: deque[Pass] = deque(maxlen=_MOST_PASSES)

    @property
    def is_installed(self) -> bool:
        """Whether there are hooks."""
        return bool(self._handles)

    def install(self) -> None:
        """Put the hooks on, unless they are."""
        if self._handles:
            return
        self._handles = [self._root.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for name, module in self._parts.items():
            self._handles += [
                module.register_forward_pre_hook(partial(self._before, name)),
                module.register_forward_hook(partial(self._after, name)),
            ]
        # Last, because the whole may be its own only part.
        self._handles.append(self._root.register_forward_hook(self._end, always_call=True))

    def remove(self) -> None:
        """Take every hook off again; what was measured stays."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._current = [], None

    def take(self, *, wait: bool = False) -> list[Pass]:
        """The passes that are over and not taken yet; `wait` includes those still running."""
        newest = list(self.passes)[-_AWAITED_PASSES:]
        taken = []
        for one in self.passes:
            awaited = one.awaits_backward and not one.backward and one in newest
            if one.taken or one is self._current or one.ended is None:
                continue
            if wait or (not awaited and one.is_read()):
                one.taken = True
                taken.append(one)
        return taken

    def __getstate__(self) -> dict[str, Any]:
        # Events belong to their process; a copy starts without measurements.
        return {**self.__dict__, "passes": deque(maxlen=_MOST_PASSES), "_current": None}

    @guarded_hook("profile")
    def _begin(self, module: nn.Module, inputs: Any, named: Any) -> None:
        if self._current is not None:
            return
        entered = time.perf_counter_ns()
        clock = clock_for([*tensors_in(inputs), *tensors_in(named), *self._root.parameters()])
        self._current = Pass(clock, clock.mark(), around=self._around)
        self.passes.append(self._current)
        self._current.overhead_ns += time.perf_counter_ns() - entered

    @guarded_hook("profile")
    def _end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        current = self._current
        if current is None:
            return
        self._current = None
        if output is None and current in self.passes:  # it raised
            self.passes.remove(current)
            return
        current.ended = current.clock.mark()

    @guarded_hook("profile")
    def _before(self, name: str, module: nn.Module, inputs: Any) -> None:
        current = self._current
        if current is None:
            return
        entered = time.perf_counter_ns()
        # Now, because a part that works in place makes its input's history its own.
        known = {tensor.grad_fn for tensor in tensors_in(inputs)}
        current.starts[name] = (current.clock.mark(), known)
        current.overhead_ns += time.perf_counter_ns() - entered

    @guarded_hook("profile")
    def _after(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        current = self._current
        if current is None or name not in current.starts:
            return
        entered = time.perf_counter_ns()
        start, known = current.starts.pop(name)
        current.calls.append((name, start, current.clock.mark()))
        for tensor in tensors_in(output) if name not in self._wholes else ():
            function = tensor.grad_fn
            # A part that hands its input on (an identity) has no backward of its own.
            if function is not None and function not in known:
                function.register_prehook(partial(_arrive, current, name))
                current.awaits_backward = True
        current.overhead_ns += time.perf_counter_ns() - entered


@guarded_hook("profile")
def _arrive(one: Pass, name: str, gradients: Any) -> None:
    entered = time.perf_counter_ns()
    if not one.arrivals:
        # At the end of this backward, when everything it launched is in the caller's stream.
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(partial(_close_backward, one))
    one.arrivals.append((name, one.clock.mark()))
    one.overhead_ns += time.perf_counter_ns() - entered


@guarded_hook("profile")
def _close_backward(one: Pass) -> None:
    ends = [*(mark for _, mark in one.arrivals[1:]), one.clock.mark()]
    for (name, start), end in zip(one.arrivals, ends, strict=True):
        one.backward += [(part, start, end) for part in (name, *one.around.get(name, ()))]
    one.arrivals = []
