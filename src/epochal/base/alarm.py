"""The alarm that ends a call which outlasts its budget.

It works in the main thread of a process that says so with ``interrupting``: SIGALRM ticks, and a
tick raises ``BudgetExceeded`` inside the call. Budgets count ticks during which the same call was
under way, so that a process that was stopped or starved blames nobody.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec

# How often the alarm looks; a call is interrupted at most so much after its budget.
TICK_S = 0.25

_may_interrupt = False
_NOT_SEEN = object()


class BudgetExceeded(Exception):  # noqa: N818 (it is a fault of a member, not an error of ours)
    """A member took longer than it may; ``call`` is the one that an alarm ended."""

    def __init__(self, sentence: str, call: Call | None = None) -> None:
        super().__init__(sentence)
        self.call = call


class Call(msgspec.Struct, eq=False):
    """A call with a budget, under way; ``member`` is the one that a loop is at, which has it all.

    ``seen`` is the member that the alarm found at its last tick, ``ticks`` how often in a row.
    """

    budget_s: float
    member: Any = None
    seen: Any = _NOT_SEEN
    ticks: int = 0


class Alarm:
    """Knows the calls under way in one thread, and interrupts them while it is armed."""

    def __init__(self, *, tick_s: float = TICK_S) -> None:
        self.tick_s = tick_s
        self._calls: list[Call] = []  # the innermost last
        self._is_armed = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Interrupt calls that outlast their budget, where this process says that it may be."""
        if self._is_armed or not may_interrupt():
            yield
            return
        handler = signal.signal(signal.SIGALRM, self._tick)
        began_s = time.monotonic()
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, self.tick_s, self.tick_s)
        self._is_armed = True
        try:
            yield
        finally:
            self._is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if left_s:  # somebody else's alarm goes on
                passed_s = time.monotonic() - began_s
                signal.setitimer(signal.ITIMER_REAL, max(left_s - passed_s, 1e-3), every_s)

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        over: Call | None = None
        for call in self._calls:
            if call.member is not call.seen:
                call.seen, call.ticks = call.member, 0
                continue
            call.ticks += 1
            if call.ticks * self.tick_s >= call.budget_s:
                over = call
        if over is not None:
            over.ticks = 0  # what swallows the exception is given as long again
            raise BudgetExceeded(over_budget(over.budget_s), over)

    def begin(self, budget_s: float) -> Call:
        """Count a call from now on; calls may nest."""
        call = Call(budget_s)
        self._calls.append(call)
        return call

    def end(self, call: Call | None) -> None:
        """Stop counting a call and those inside it; a second time does nothing."""
        if call is not None and call in self._calls:
            del self._calls[self._calls.index(call) :]


@contextmanager
def interrupting() -> Iterator[None]:
    """Let guards interrupt hanging calls of this process's main thread by SIGALRM.

    For processes that are ours alone: the companion and the command line.
    """
    global _may_interrupt
    before, _may_interrupt = _may_interrupt, True
    try:
        yield
    finally:
        _may_interrupt = before


def may_interrupt() -> bool:
    """Whether an alarm can end a call that is made here: in this process and this thread."""
    return _may_interrupt and threading.current_thread() is threading.main_thread()


def over_budget(budget_s: float) -> str:
    """The sentence about a call that did not return in time."""
    return f"did not return within its budget of {budget_s:g} s"
