"""Records how a process ends in its open runs, as far as the process can see it.

One set of hooks serves all runs. Hooks are chained, never replaced: whatever was installed before
still runs, and the process still dies the way it would have. SIGKILL, ``os._exit`` and a power cut
cannot be seen from here; readers notice that the process is gone. A Python signal handler runs only
between bytecodes: a signal during a C call is recorded when that call returns.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import Any, Protocol

_SIGNALS = ("SIGTERM", "SIGHUP")


class HookedRun(Protocol):
    """What the hooks call of a run."""

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process opened the run; hooks do nothing in a forked child."""

    def on_exit(self, status: str, *, reason: str, details: str | None = None) -> None:
        """The process is ending: write the last records and close. Waits for nothing."""

    def settle(self) -> None:
        """Do what follows the last record, within the run's deadline."""

    def on_exception(self, error: BaseException) -> None:
        """An error nobody caught ends the process; record what can be known of it."""

    def on_signal(self, reason: str) -> None:
        """A signal came that somebody else handles; the process may go on."""


class ExitHooks:
    """The hooks of this process: there from the first open run to the last."""

    def __init__(self) -> None:
        self._runs: list[HookedRun] = []
        self._links: list[_ExceptionLink | _SignalLink] = []
        self._is_telling = False

    def add(self, run: HookedRun) -> None:
        """Call the hooks of a run from now on."""
        if not self._runs:
            atexit.register(self._at_exit)
        self._runs.append(run)
        # Also for a later run: the program may have replaced a hook since.
        if not isinstance(sys.excepthook, _ExceptionLink):
            self._links.append(_ExceptionLink(self._on_exception))
        if threading.current_thread() is threading.main_thread():  # the only one Python allows
            self._links += _signal_links(self._on_signal)

    def remove(self, run: HookedRun) -> None:
        """Remove a finished run; after the last one, restore what was hooked."""
        if run in self._runs:
            self._runs.remove(run)
        if self._runs:
            return
        atexit.unregister(self._at_exit)
        self._links = [link for link in reversed(self._links) if not link.remove()][::-1]

    def end_all(self, status: str, *, reason: str, details: str | None = None) -> None:
        """Finish every open run: first the last record of each, then what may take a while."""
        runs = self._own_runs()
        with ExitStack() as stack:  # last in, first out; whatever one of them raises
            for run in runs:
                stack.callback(run.settle)
            for run in runs:
                stack.callback(run.on_exit, status, reason=reason, details=details)

    def _own_runs(self) -> list[HookedRun]:
        return [run for run in self._runs if run.is_of_this_process]

    def _at_exit(self) -> None:
        error = _unhandled_error()
        if error is None:
            self.end_all("finished", reason="the process ended")
        else:
            self._on_exception(error)

    def _on_exception(self, error: BaseException) -> None:
        with ExitStack() as stack:
            status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            stack.callback(
                self.end_all, status, reason=describe_error(error), details=describe_trace(error)
            )
            for run in self._own_runs():
                stack.callback(run.on_exception, error)

    def _on_signal(self, number: int, *, is_handled: bool) -> None:
        name = signal.Signals(number).name
        if not is_handled:
            self.end_all("terminated", reason=name)
        elif not self._is_telling:  # a handler in between may lead to another link of ours
            self._is_telling = True
            try:
                for run in self._own_runs():
                    run.on_signal(f"{name} received")
            finally:
                self._is_telling = False


class _ExceptionLink:
    """Our place in the chain of ``sys.excepthook``."""

    def __init__(self, tell: Callable[[BaseException], None]) -> None:
        self._tell = tell
        self._previous = sys.excepthook
        sys.excepthook = self

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(SystemExit, KeyboardInterrupt):  # of a callback: the error is the cause
                self._tell(error)
        finally:
            self._previous(kind, error, trace)

    def remove(self) -> bool:
        """Remove it; False if somebody has chained onto it since."""
        if sys.excepthook is not self:
            return False
        sys.excepthook = self._previous
        return True


class _SignalLink:
    """Our place in the chain of one signal's handlers."""

    def __init__(self, number: int, previous: Any, tell: Callable[..., None]) -> None:
        self._number = number
        self._previous = previous
        self._tell = tell
        signal.signal(number, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if callable(self._previous):
            self._tell(number, is_handled=True)
            self._previous(number, frame)
            return
        try:
            self._tell(number, is_handled=False)
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def remove(self) -> bool:
        """Remove it; False in another thread, or if somebody has chained onto it since."""
        if threading.current_thread() is not threading.main_thread():
            return False
        on_top: object = signal.getsignal(self._number)
        if on_top is not self:
            return False
        signal.signal(self._number, self._previous)
        return True


def _signal_links(tell: Callable[..., None]) -> list[_ExceptionLink | _SignalLink]:
    links: list[_ExceptionLink | _SignalLink] = []
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        previous = None if number is None else signal.getsignal(number)
        # None: installed by C code, which cannot be chained. SIG_IGN (nohup) does not end us.
        if previous in (None, signal.SIG_IGN) or isinstance(previous, _SignalLink):
            continue
        assert number is not None
        links.append(_SignalLink(number, previous, tell))
    return links


def _unhandled_error() -> BaseException | None:
    """Return the error that ends this process; None if it ends in another way.

    A hook that was installed after ours may never call ours (``rich.traceback.install()``). Python
    keeps the error in ``sys.last_value`` before it calls any hook. Notebooks and test runners keep
    errors there that they caught: those have a caller below the first frame of their traceback.
    An interactive session goes on after its errors.
    """
    error = getattr(sys, "last_value", None)
    trace = getattr(error, "__traceback__", None)
    if trace is None or trace.tb_frame.f_back is not None or hasattr(sys, "ps1"):
        return None
    return error


EXIT_HOOKS = ExitHooks()


def describe_error(error: BaseException) -> str:
    """An exception in one line, as Python prints it last."""
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def describe_trace(error: BaseException) -> str:
    """An exception with its traceback, as Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
