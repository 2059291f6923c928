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
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochal.run.ending import Ending

PROCESS_ENDED = "the process ended"
_SIGNALS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]


class ExitHooks:
    """The hooks of this process: there from the first open run to the last."""

    def __init__(self) -> None:
        self._runs: list[Ending] = []
        self._links: list[_ExceptionLink | _SignalLink] = []
        self._is_registered = False
        self._last_words: list[Callable[[], object]] = []

    def add(self, run: Ending) -> None:
        """Call the hooks of a run until it closes."""
        run.on_close.add(lambda: self._remove(run))
        if not self._is_registered:
            atexit.register(self._at_exit)
            self._is_registered = True
        self._runs.append(run)
        # Also for a later run: the program may have replaced a hook since.
        if not isinstance(sys.excepthook, _ExceptionLink):
            self._links.append(_ExceptionLink(self._on_exception))
        if threading.current_thread() is not threading.main_thread():
            return  # Python allows signal handlers in the main thread only
        for number in _SIGNALS:
            previous = signal.getsignal(number)
            # None: installed by C code, which cannot be chained. SIG_IGN (nohup) does not end us.
            if previous not in (None, signal.SIG_IGN) and not isinstance(previous, _SignalLink):
                self._links.append(_SignalLink(number, previous, self._on_signal))

    def _remove(self, run: Ending) -> None:
        """Remove a finished run; after the last one, restore what was hooked."""
        if run in self._runs:
            self._runs.remove(run)
        if self._runs:
            return
        self._links = [link for link in reversed(self._links) if not link.remove()][::-1]

    def _own_runs(self) -> list[Ending]:
        return [run for run in self._runs if run.is_of_this_process]

    def print_last(self, print_words: Callable[[], object]) -> None:
        """Print something when the process ends, below a traceback that Python prints."""
        self._last_words.append(print_words)

    def _at_exit(self) -> None:
        error, runs = _unhandled_error(), self._own_runs()
        try:
            if error is None:
                end_runs(runs, "finished", PROCESS_ENDED)
            else:
                self._on_exception(error)
            for run in runs:
                run.is_ended_by_exit = True
        finally:
            for print_words in self._last_words:
                print_words()
            _keep_exit_code(error)

    def _on_exception(self, error: BaseException) -> None:
        end_with_error(self._own_runs(), error)

    def _on_signal(self, number: int, *, is_handled: bool) -> None:
        name = signal.Signals(number).name
        if not is_handled:
            end_runs(self._own_runs(), "terminated", name)
        else:
            for run in self._own_runs():
                run.on_signal(f"{name} received")


def end_runs(
    runs: Sequence[Ending], status: str, reason: str, error: BaseException | None = None
) -> None:
    """Explain the error, write the last record of each run, then do what may take a while."""
    details = None if error is None else "".join(traceback.format_exception(error))
    with ExitStack() as stack:  # last in, first out; whatever one of them raises
        for run in runs:
            stack.callback(run.settle)
        for run in runs:
            stack.callback(run.on_exit, status, reason=reason, details=details)
        if error is not None:
            for run in runs:
                stack.callback(run.on_exception, error)


def end_with_error(runs: Sequence[Ending], error: BaseException) -> None:
    """End runs as an error that nobody caught ends them."""
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    end_runs(runs, status, "".join(traceback.format_exception_only(error)).strip(), error)


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
            _keep_exit_code(error)

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


def _keep_exit_code(error: BaseException | None) -> None:
    """Have Python end by SIGINT after Ctrl-C, which shells report as 130.

    CPython remembers an unhandled KeyboardInterrupt only until a hook runs ``exec``, which every
    import of a dataclass does. Without this the process would end with the exit code 1.
    """
    if isinstance(error, KeyboardInterrupt):
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


EXIT_HOOKS = ExitHooks()
