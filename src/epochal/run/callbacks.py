"""The callbacks of one hook of a run. A fault in one does not reach the loop or the next one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from epochal.guard import Guard


class Callbacks:
    """Functions to be called, in the order in which they were added, through a run's guard."""

    def __init__(self, hook: str, guard: Guard) -> None:
        self._hook = hook
        self._guard = guard
        self._calls: list[Callable[..., object]] = []

    def __contains__(self, call: object) -> bool:
        return call in self._calls

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
        while self._calls:
            with ExitStack() as stack:
                for call in reversed(self._calls):
                    stack.callback(self._guard.run, self._member(call), call, *args)
                self._calls.clear()

    def _member(self, call: Callable[..., object]) -> str:
        name = getattr(call, "__qualname__", None) or type(call).__qualname__
        return f"{self._hook} callback {name}"
