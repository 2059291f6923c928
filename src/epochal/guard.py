"""The fault boundary: a fault in one member never reaches another member, the loop or another user.

A member is anything Epochal calls that could fail without the rest having to: a rule, a companion
task, a sink, a telemetry source, an importer, an observer or callback, a console line, one run in a
list, one request. A ``Guard`` calls it; any ``Exception`` is counted, reported once per member with
its traceback, and replaced by a default. ``KeyboardInterrupt`` and ``SystemExit`` pass.

A member that hangs is a fault too. In the main thread of a process that says so (``interrupting``)
an alarm raises ``BudgetExceeded`` inside a call that outlasts its budget; ``bounded`` leaves a call
that may hang where no alarm reaches to a thread. Budgets count ticks of the alarm during which the
same call was under way, so that a process that was stopped or starved blames nobody.

This file holds the only broad handlers of the package. Elsewhere a handler names what it expects,
or cleans up and raises again.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from epochal.errors import EpochalError, InternalError
from epochal.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
D = TypeVar("D")
M = TypeVar("M")

# After so many faults a member that is disabled by faults is not called any more.
DISABLE_AFTER = 3
# How often the alarm looks; a call is interrupted at most so much after its budget.
TICK_S = 0.25
# What the outside world does is no fault of ours: a person is told in a sentence of its own.
EXPECTED: tuple[type[Exception], ...] = (EpochalError, OSError)

_may_interrupt = False
_NOT_SEEN = object()


@dataclass(slots=True)
class Fault:
    """What one member raised first, and how often it has raised since."""

    member: str
    error: str
    traceback: str
    count: int = 1

    def fields(self) -> dict[str, Any]:
        """The fields of its ``internal-error`` event."""
        return {
            "member": self.member,
            "reason": self.error,
            "traceback": self.traceback,
            "version": __version__,
        }


class BudgetExceeded(Exception):  # noqa: N818 (it is a fault of a member, not an error of ours)
    """A member took longer than it may; ``call`` is the one that an alarm ended."""

    def __init__(self, sentence: str, call: Call | None = None) -> None:
        super().__init__(sentence)
        self.call = call


@dataclass(slots=True)
class Outcome(Generic[T]):
    """What a call returned, or what it raised."""

    value: T | None = None
    error: Exception | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call with a budget, under way; ``member`` is the one that a loop is at, which has it all.

    ``seen`` is the member that the alarm found at its last tick, ``ticks`` how often in a row.
    """

    budget_s: float
    member: Any = None
    seen: Any = _NOT_SEEN
    ticks: int = 0


class Guard:
    """Calls members and keeps their faults; one per process, run or server.

    ``report`` is told of each member's first fault, typically to write an ``internal-error`` event.
    A reporter that raises is ignored: there is nobody left to tell. Calls with a budget are made by
    one thread at a time; everything else may be called from any.
    """

    def __init__(
        self, report: Callable[[Fault], object] | None = None, *, tick_s: float = TICK_S
    ) -> None:
        self.report = report
        self.faults: dict[str, Fault] = {}
        self.tick_s = tick_s
        self._lock = threading.Lock()
        self._calls: list[Call] = []  # the innermost last
        self._is_armed = False
        self._stuck: dict[str, threading.Thread] = {}

    # -- calling ----------------------------------------------------------------------------------

    def run(
        self,
        member: str,
        call: Callable[..., T],
        *args: Any,
        default: D | None = None,
        budget_s: float | None = None,
    ) -> T | D | None:
        """What ``call(*args)`` returns; ``default``, and a counted fault, where it raises."""
        if budget_s is not None:
            outcome = self.outcome(member, call, *args, budget_s=budget_s)
            return default if outcome.error is not None else outcome.value
        try:
            return call(*args)
        except Exception as error:
            if _is_of_another(error, None):
                raise
            self.note(member, error)
            return default

    def outcome(
        self,
        member: str,
        call: Callable[..., T],
        *args: Any,
        budget_s: float | None = None,
        expected: tuple[type[Exception], ...] = (),
    ) -> Outcome[T]:
        """What ``call(*args)`` returns or raises; what is ``expected`` is not counted."""
        under_way = None if budget_s is None else self._begin(budget_s)
        try:
            return Outcome(call(*args))
        except Exception as error:
            self._end(under_way)
            if _is_of_another(error, under_way):
                raise
            if not isinstance(error, expected):
                self.note(member, error)
            return Outcome(error=error)
        finally:
            self._end(under_way)

    def each(
        self,
        members: Sequence[M],
        visit: Callable[[Iterator[M], Call], object],
        *,
        budget_s: float,
        on_fault: Callable[[M, Exception], object],
    ) -> None:
        """Visit many members, whatever some of them raise; for loops that are run very often.

        ``visit`` takes those that are left and sets ``Call.member`` to each before it calls it;
        ``on_fault`` notes a fault.
        """
        under_way = self._begin(budget_s)
        left = iter(members)
        try:
            while True:
                try:
                    visit(left, under_way)
                except Exception as error:
                    if under_way.member is None or _is_of_another(error, under_way):
                        raise
                    on_fault(under_way.member, error)
                else:
                    return
        finally:
            self._end(under_way)

    def explained(self, what: str, call: Callable[..., T], *args: Any) -> T:
        """What a call returns; an error that nobody foresaw becomes one with a sentence.

        For what a person has asked for: a command fails with it, and nothing else does.
        """
        outcome = self.outcome(what, call, *args, expected=EXPECTED)
        if outcome.error is None:
            return outcome.value  # type: ignore[return-value]
        if isinstance(outcome.error, EXPECTED):
            raise outcome.error
        raise InternalError(f"{what} failed: {describe(outcome.error)}.") from outcome.error

    def bounded(
        self,
        member: str,
        call: Callable[..., T],
        *args: Any,
        default: D | None = None,
        budget_s: float,
    ) -> T | D | None:
        """Like :meth:`run`, in a thread that is left behind when the budget is used up.

        While that thread goes on the member is left out, without another fault.
        """
        stuck = self._stuck.get(member)
        if stuck is not None and stuck.is_alive():
            return default
        outcome: Outcome[T] = Outcome()
        thread = threading.Thread(
            target=_fill, args=(outcome, call, args), name=f"epochal-{member}", daemon=True
        )
        if self.outcome(member, thread.start).error is not None:
            return default  # the system gives no more threads
        thread.join(budget_s)
        if thread.is_alive():
            self._stuck[member] = thread
            self.note_hang(member, thread, budget_s=budget_s)
            _end_thread(thread)
            return default
        if outcome.error is not None:
            self.note(member, outcome.error)
            return default
        return outcome.value

    def timed(self, member: str, call: Callable[..., T], *args: Any, budget_s: float) -> T | None:
        """Like :meth:`run`; a call that took longer than its budget also counts as a fault."""
        began_s = time.monotonic()
        result = self.run(member, call, *args)
        took_s = time.monotonic() - began_s
        if took_s > budget_s:
            self.note(member, BudgetExceeded(f"took {took_s:.1f} s; its budget is {budget_s:g} s"))
        return result

    def wrap(self, member: str, call: Callable[..., T]) -> Callable[..., T | None]:
        """A function that calls the member through this guard."""

        def guarded(*args: Any) -> T | None:
            return self.run(member, call, *args)

        return guarded

    @contextmanager
    def member(
        self, name: str, *, expected: tuple[type[Exception], ...] = ()
    ) -> Iterator[Outcome[None]]:
        """A ``with`` block whose ``Exception`` is a fault of this member."""
        outcome: Outcome[None] = Outcome()
        try:
            yield outcome
        except Exception as error:
            if _is_of_another(error, None):
                raise
            if not isinstance(error, expected):
                self.note(name, error)
            outcome.error = error

    # -- faults -----------------------------------------------------------------------------------

    def note(self, member: str, error: BaseException, *, where: str = "") -> Fault:
        """Count a fault of a member; the first one is reported.

        ``where`` is the stack of a call that did not end, in place of a traceback.
        """
        with self._lock:
            known = self.faults.get(member)
            if known is not None:
                known.count += 1
                return known
            trace = f"{where}{describe(error)}\n" if where else describe_traceback(error)
            fault = self.faults[member] = Fault(member, describe(error), trace)
        if self.report is not None:
            with suppress(Exception):  # a fault in reporting a fault ends here
                self.report(fault)
        return fault

    def note_hang(self, member: str, thread: threading.Thread, *, budget_s: float) -> Fault:
        """Count it as a fault that a member's thread has not come back."""
        return self.note(member, BudgetExceeded(_over(budget_s)), where=_stack_of(thread))

    def count(self, member: str) -> int:
        """How often a member has raised."""
        known = self.faults.get(member)
        return 0 if known is None else known.count

    @property
    def repeated(self) -> dict[str, int]:
        """How often members have raised that did more than once: what their events do not say."""
        return {one.member: one.count for one in list(self.faults.values()) if one.count > 1}

    @property
    def total(self) -> int:
        """How often any member has raised."""
        return sum(fault.count for fault in list(self.faults.values()))

    def is_disabled(self, member: str) -> bool:
        """Whether a member has used up its faults; its caller then leaves it out."""
        return self.count(member) >= DISABLE_AFTER

    @property
    def has_stuck(self) -> bool:
        """Whether a thread that was left behind still goes on."""
        return any(thread.is_alive() for thread in self._stuck.values())

    # -- the alarm --------------------------------------------------------------------------------

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
            raise BudgetExceeded(_over(over.budget_s), over)

    def _begin(self, budget_s: float) -> Call:
        call = Call(budget_s)
        self._calls.append(call)
        return call

    def _end(self, call: Call | None) -> None:
        if call is not None and call in self._calls:
            del self._calls[self._calls.index(call) :]


@contextmanager
def interrupting() -> Iterator[None]:
    """Let guards interrupt hanging calls of this process's main thread by SIGALRM.

    For processes that are ours alone: the companion and the command line. A system without such an
    alarm goes on without.
    """
    global _may_interrupt
    before, _may_interrupt = _may_interrupt, hasattr(signal, "setitimer")
    try:
        yield
    finally:
        _may_interrupt = before


def may_interrupt() -> bool:
    """Whether an alarm can end a call that is made here: in this process and this thread."""
    return _may_interrupt and threading.current_thread() is threading.main_thread()


def settle(future: Future[T], call: Callable[[], T]) -> None:
    """Hand what a call returns or raises to whoever waits for the future, from any thread."""
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 (raised again where the future is waited for)
        future.set_exception(error)


def attempt(
    call: Callable[..., T], *args: Any, **options: Any
) -> tuple[T | None, Exception | None]:
    """What a call returns, or what it raises: for values whose own methods may raise anything."""
    try:
        return call(*args, **options), None
    except Exception as error:  # noqa: BLE001 (the boundary)
        return None, error


def describe(error: BaseException) -> str:
    """An error in one line: its type and its words, even where its words cannot be had."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 (an error whose __str__ raises)
        words = "(no text)"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def describe_traceback(error: BaseException) -> str:
    """The traceback as text; of a recursion only its ends."""
    try:
        return "".join(
            traceback.format_exception(type(error), error, error.__traceback__, limit=-25)
        )
    except Exception:  # noqa: BLE001 (an error that cannot be formatted)
        return describe(error)


def _is_of_another(error: Exception, call: Call | None) -> bool:
    """Whether an alarm meant a call further out."""
    return isinstance(error, BudgetExceeded) and error.call is not None and error.call is not call


def _over(budget_s: float) -> str:
    return f"did not return within its budget of {budget_s:g} s"


class _LeftBehind(BaseException):
    """Ends a thread that nobody waits for any more."""


def _fill(outcome: Outcome[T], call: Callable[..., T], args: Sequence[Any]) -> None:
    try:
        outcome.value = call(*args)
    except Exception as error:  # noqa: BLE001 (the boundary, of a thread)
        outcome.error = error
    except BaseException as error:  # noqa: BLE001 (left behind, or a member that means to exit)
        outcome.error = RuntimeError(describe(error))


def _stack_of(thread: threading.Thread) -> str:
    """Where a thread is now, in the words of a traceback."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return ""
    lines = traceback.format_stack(frame)[-25:]
    return "".join(["Traceback (most recent call last):\n", *lines])


def _end_thread(thread: threading.Thread) -> None:
    """Ask a thread to end at its next step in Python: one that spins would take time for ever."""
    import ctypes

    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(_LeftBehind)
        )
