"""The callbacks of one hook of a run. A fault in one does not reach the loop or the next one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any

from epochal.guard import Guard
from epochal.torch_hooks import torch_hooks

# A quick callback is called even if the ones before it have used up the time.
_LEAST_S = 0.1


class Callbacks:
    """Functions to be called, in the order in which they were added, through a run's guard."""

    def __init__(self, hook: str, guard: Guard) -> None:
        self._hook = hook
        self._guard = guard
        self._calls: list[Callable[..., object]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: Callable[..., object]) -> None:
        """Add one at the end."""
        self._calls.append(call)

    def clear(self) -> None:
        """Forget all of them."""
        self._calls.clear()

    def call_each(self, *args: Any) -> None:
        """Call each of them and keep them; skip those that are disabled after three faults."""
        for call in self._calls:
            member = self._member(call)
            if not self._guard.is_disabled(member):
                self._guard.run(member, call, *args)

    def drain(self, *args: Any) -> None:
        """Call each of them once and forget them.

        An interruption (Ctrl-C, ``sys.exit``) is raised after the others have been called.
        """
        self._drain(lambda call: self._guard.run(self._member(call), call, *args))

    def drain_within(
        self, left_s: Callable[[], float], still_running: Callable[[str, str], object]
    ) -> None:
        """Like :meth:`drain`, but each is called in a thread, which is left when no time is left.

        ``still_running`` gets the name and the stack of such a callback.
        """

        def wait_for(call: Callable[..., object]) -> None:
            there = torch_hooks().on_same_device(call) if "torch" in sys.modules else call
            there = partial(copy_context().run, there)
            budget_s = max(left_s(), _LEAST_S)
            stack = self._guard.wait_for(self._member(call), there, budget_s=budget_s)
            if stack is not None:
                still_running(_name_of(call), stack)

        self._drain(wait_for)

    def _drain(self, run: Callable[[Callable[..., object]], object]) -> None:
        while self._calls:
            with ExitStack() as stack:
                for call in reversed(self._calls):
                    stack.callback(run, call)
                self._calls.clear()

    def _member(self, call: Callable[..., object]) -> str:
        return f"{self._hook} callback {_name_of(call)}"


def _name_of(call: Callable[..., object]) -> str:
    return getattr(call, "__qualname__", None) or type(call).__qualname__
