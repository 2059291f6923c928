"""Lets a run say how its process ended, where the process can still see it.

Hooks are chained, never replaced: whatever was installed before still runs, and the process still
dies the way it would have. SIGKILL, ``os._exit`` and a power cut cannot be seen from here; readers
find those by the process being gone. A Python signal handler runs only between bytecodes: a process
stuck inside a C call is recorded when that call returns.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol


class Mortal(Protocol):
    """What a run offers to be told of the end of its process."""

    def died(self, status: str, *, reason: str, details: str | None = None) -> None:
        """The process is ending; write the last records."""

    def failing(self, error: BaseException) -> None:
        """An error nobody caught ends the process; say what can be known of it."""

    def warned(self, reason: str) -> None:
        """A signal came that somebody else handles; the process may go on."""


class DeathWatch:
    """Watches over one run; ``release`` puts back what can be put back."""

    def __init__(self, run: Mortal) -> None:
        self._run = run
        self._pid = os.getpid()
        self._previous_hook = sys.excepthook
        self._hook = self._on_exception
        self._previous_signals: dict[int, Any] = {}
        self._handlers: dict[int, Callable[[int, FrameType | None], None]] = {}
        sys.excepthook = self._hook
        atexit.register(self._on_exit)
        self._chain_signals()

    def release(self) -> None:
        """Take the hooks out again, unless somebody has chained onto them since."""
        if sys.excepthook == self._hook:
            sys.excepthook = self._previous_hook
        atexit.unregister(self._on_exit)
        if threading.current_thread() is not threading.main_thread():
            return
        for number, previous in self._previous_signals.items():
            if signal.getsignal(number) == self._handlers[number]:
                signal.signal(number, previous)

    def _chain_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # Python allows handlers from the main thread only
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            previous = signal.getsignal(number) if number is not None else signal.SIG_IGN
            # None: installed by C code, which cannot be chained. SIG_IGN (nohup) does not end us.
            if number is None or previous in (None, signal.SIG_IGN):
                continue
            self._previous_signals[number] = previous
            self._handlers[number] = self._on_signal
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        previous = self._previous_signals[number]
        if callable(previous):
            if os.getpid() == self._pid:
                self._run.warned(f"{name} received")
            previous(number, frame)
            return
        if os.getpid() == self._pid:
            self._run.died("terminated", reason=name)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _on_exception(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._pid:
            self._run.failing(error)
            details = describe_trace(error)
            status = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
            self._run.died(status, reason=describe_error(error), details=details)
        self._previous_hook(kind, error, trace)

    def _on_exit(self) -> None:
        if os.getpid() == self._pid:
            self._run.died("finished", reason="the process ended")


def describe_error(error: BaseException) -> str:
    """An exception in one line, as Python prints it last."""
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def describe_trace(error: BaseException) -> str:
    """An exception with its traceback, as Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
