"""The fault boundary: a fault in one member never reaches another member, the loop or another user.

Members are rules, companion tasks, sinks, telemetry sources, importers, observers, callbacks,
console lines, the runs of a list and requests. A ``Guard`` calls a member. It counts any
``Exception``, reports it once per member with its traceback, and returns a default instead.
``KeyboardInterrupt`` and ``SystemExit`` pass.

A member that hangs is a fault too. If the process allows it, an alarm (``alarm.py``) interrupts a
call that exceeds its budget. ``bounded`` makes a call in a thread, where no alarm can interrupt.

This file has the only broad handlers of the package. Elsewhere a handler names what it expects,
or cleans up and raises again.
"""

from __future__ import annotations

import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from sys import getrecursionlimit, setrecursionlimit
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from epochal.base.alarm import TICK_S, Alarm, BudgetExceeded, Call, over_budget
from epochal.base.plugins import package_of
from epochal.errors import EpochalError, InternalError
from epochal.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
D = TypeVar("D")
M = TypeVar("M")
S = TypeVar("S")
P = ParamSpec("P")

# After so many faults a member that is disabled by faults is not called any more.
DISABLE_AFTER = 3
# So many more frames gets a call near the limit of recursion: at times it has to import modules.
_ROOM_FRAMES = 500
# What the boundary catches, for ``Run.log``, which cannot afford a call of a guard.
ANY_FAULT = Exception
# What the outside world does is no fault of ours: a person is told in a sentence of its own.
EXPECTED: tuple[type[Exception], ...] = (EpochalError, OSError)


class Fault(msgspec.Struct):
    """What one member raised first, and how often it has raised since.

    ``package`` is the one that the member comes from; None for a member of Epochal itself.
    """

    member: str
    error: str
    traceback: str
    package: str | None = None
    count: int = 1

    def fields(self) -> dict[str, Any]:
        """The fields of its ``internal-error`` event."""
        return {
            "member": self.member,
            "reason": self.error,
            "traceback": self.traceback,
            "version": __version__,
            **({} if self.package is None else {"package": self.package}),
        }

    def as_error(self) -> InternalError:
        """The fault as an error with a sentence."""
        return InternalError(f"{self.member} failed: {self.error}.", package=self.package)


class Outcome(msgspec.Struct, Generic[T]):
    """What a call returned, or what it raised."""

    value: T | None = None
    error: Exception | None = None


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
        self.alarm = Alarm(tick_s=tick_s)
        self._lock = threading.Lock()
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
        under_way = None if budget_s is None else self.alarm.begin(budget_s)
        try:
            return Outcome(call(*args))
        except Exception as error:
            self.alarm.end(under_way)
            if _is_of_another(error, under_way):
                raise
            if not isinstance(error, expected):
                self.note(member, error)
            return Outcome(error=error)
        finally:
            self.alarm.end(under_way)

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
        under_way = self.alarm.begin(budget_s)
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
            self.alarm.end(under_way)

    def select(
        self, members: Sequence[M], selects: Callable[[M], bool], name_of: Callable[[M], str]
    ) -> list[M]:
        """The members that a condition selects; one where it raises is a fault and left out.

        All at once first: for lists of thousands, of which hardly any raises.
        """
        try:
            return [member for member in members if selects(member)]
        except Exception as error:
            if _is_of_another(error, None):
                raise
        return [one for one in members if self.run(name_of(one), selects, one, default=False)]

    def explained(self, what: str, call: Callable[..., T], *args: Any) -> T:
        """What a call returns; an error that nobody foresaw becomes one with a sentence.

        For what a person has asked for: a command fails with it, and nothing else does.
        """
        outcome = self.outcome(what, call, *args, expected=EXPECTED)
        if outcome.error is None:
            return outcome.value  # type: ignore[return-value]
        if isinstance(outcome.error, EXPECTED):
            raise outcome.error
        fault = Fault(what, describe(outcome.error), "", _package_of(what))
        raise fault.as_error() from outcome.error

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

    def wait_for(
        self, member: str, call: Callable[..., object], *args: Any, budget_s: float
    ) -> str | None:
        """Call the program's own code in a thread, and wait until its budget is used up.

        Returns None, or the stack of a call that is still running then. That is not ended: it may
        be saving something. An interruption that it raises, such as ``sys.exit()``, is raised here.
        """
        raised: list[BaseException] = []
        thread = threading.Thread(
            target=_keep, args=(raised, call, args), name=f"epochal-{member}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending (Python 3.12.0)
            _keep(raised, call, args)
        else:
            thread.join(budget_s)
        if thread.is_alive():
            return _stack_of(thread)
        if raised and not isinstance(raised[0], Exception):
            raise raised[0]
        if raised:
            self.note(member, raised[0])
        return None

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
            fault = Fault(member, describe(error), trace, _package_of(member))
            self.faults[member] = fault
        self._tell(fault)
        return fault

    def adopt(self, fault: Fault) -> None:
        """Count a fault that a guard of another process noted."""
        with self._lock:
            known = self.faults.setdefault(fault.member, fault)
            if known is not fault:
                known.count += fault.count
                return
        self._tell(fault)

    def _tell(self, fault: Fault) -> None:
        if self.report is not None:
            with suppress(Exception):  # a fault in reporting a fault ends here
                self.report(fault)

    def note_hang(self, member: str, thread: threading.Thread, *, budget_s: float) -> Fault:
        """Count it as a fault that a member's thread has not come back."""
        return self.note(member, BudgetExceeded(over_budget(budget_s)), where=_stack_of(thread))

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


def guarded(
    member: str,
    guard_of: Callable[[Any], Guard],
    *,
    default: D | None = None,
    expected: tuple[type[Exception], ...] = (),
    rests: bool = True,
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T | D | None]]:
    """Decorate a method that the code of others calls: hooks, callbacks of frameworks.

    What it raises is a fault of its member, except what is ``expected``. ``guard_of`` gets the
    object and returns its guard. The method ``rests`` after three faults: it is not called.
    """

    def decorate(
        method: Callable[Concatenate[S, P], T],
    ) -> Callable[Concatenate[S, P], T | D | None]:
        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T | D | None:
            guard = guard_of(self)
            if rests and guard.is_disabled(member):
                return default
            try:
                return method(self, *args, **kwargs)
            except Exception as error:
                if _is_of_another(error, None) or isinstance(error, expected):
                    raise
                guard.note(member, error)
                return default

        call.__guarded__ = member  # type: ignore[attr-defined]
        return call

    return decorate


def called_by_program(
    member: str, guard_of: Callable[[Any], Guard], *, default: Any = None
) -> Callable[[Callable[Concatenate[S, P], T]], Callable[Concatenate[S, P], T]]:
    """Decorate a method that programs call with values of their own, in whatever state they are.

    Near the limit of recursion the call gets more frames. What it raises on purpose is raised; any
    other error is a fault of the member, and the call returns the ``default``.
    """

    def decorate(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
        def guarded(self: S, args: Any, kwargs: Any) -> Any:
            try:
                return method(self, *args, **kwargs)
            except EpochalError:
                raise
            except Exception as error:
                is_wrong_signature = getattr(error.__traceback__, "tb_next", None) is None
                if is_wrong_signature or _is_of_another(error, None):
                    raise
                guard_of(self).note(member, error)
                return default

        @functools.wraps(method)
        def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                # Half of the limit, because calls of C count towards it in Python 3.10 and 3.11.
                sys._getframe(getrecursionlimit() // 2)
            except ValueError:  # the stack is not as deep
                return guarded(self, args, kwargs)
            return call_with_room(guarded, self, args, kwargs)

        # A graph of torch.compile leaves such a call to Python.
        call._torchdynamo_disable = True  # type: ignore[attr-defined]
        return call

    return decorate


def call_with_room(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call with more frames than are left, or raise if the limit could not be set back here."""
    _call(_call_nothing)
    setrecursionlimit(getrecursionlimit() + _ROOM_FRAMES)
    try:
        return call(*args, **kwargs)
    finally:
        setrecursionlimit(getrecursionlimit() - _ROOM_FRAMES)


def _call(call: Callable[[], None]) -> None:
    call()


def _call_nothing() -> None:
    pass


def settle(future: Future[T], call: Callable[[], T]) -> None:
    """Hand what a call returns or raises to whoever waits for the future, from any thread."""
    try:
        future.set_result(call())
    except StopIteration as error:  # asyncio refuses it, and whoever waits would wait for ever
        future.set_exception(RuntimeError(repr(error)))
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


def _package_of(member: str) -> str | None:
    """Like ``package_of``; whatever other packages' files look like, a fault can be noted."""
    return attempt(package_of, member)[0]


def _is_of_another(error: Exception, call: Call | None) -> bool:
    """Whether an alarm meant a call further out."""
    return isinstance(error, BudgetExceeded) and error.call is not None and error.call is not call


class _AbandonedThread(BaseException):
    """Ends a thread that nobody waits for any more."""


def _fill(outcome: Outcome[T], call: Callable[..., T], args: Sequence[Any]) -> None:
    try:
        outcome.value = call(*args)
    except Exception as error:  # noqa: BLE001 (the boundary, of a thread)
        outcome.error = error
    except BaseException as error:  # noqa: BLE001 (left behind, or a member that means to exit)
        outcome.error = RuntimeError(describe(error))


def _keep(raised: list[BaseException], call: Callable[..., object], args: Sequence[Any]) -> None:
    try:
        call(*args)
    except BaseException as error:  # noqa: BLE001 (noted or raised where the thread is waited for)
        raised.append(error)


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
            ctypes.c_ulong(thread.ident), ctypes.py_object(_AbandonedThread)
        )
