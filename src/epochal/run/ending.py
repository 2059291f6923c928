"""The end of a run: callbacks in their order, the last record, and how long all of it may take.

:class:`Ending` is an exit stack. Each step happens once, and the last record is written whatever a
callback raises. ``Callbacks`` are those of one hook: a fault in one does not reach the loop or the
next one.

:class:`ExitHooks` calls it when the process ends before the program calls ``finish``, as far as the
process can see its end. One set of hooks serves all runs. Hooks are chained, never replaced:
whatever was installed before still runs, and the process still dies the way it would have. SIGKILL,
``os._exit`` and a power cut cannot be seen from here; readers notice that the process is gone. A
Python signal handler runs only between bytecodes: a signal during a C call is recorded when that
call returns.
"""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol

from epochal.base.guard import Guard
from epochal.base.torch_hooks import torch_hooks
from epochal.run.writing import RunWriter
from epochal.settings.toml_file import shown_path

FINISH_WAIT_S = 5.0
# Somebody who stops a training wants it to stop; the companion goes on by itself.
_IMPATIENT = frozenset({"interrupted", "terminated"})
# Also then the disk gets so long for what was recorded last.
_LEAST_SYNC_S = 0.5
PROCESS_ENDED = "the process ended"
_SIGNALS = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]


class Deadline:
    """A moment ``wait_s`` from now; at once for a run that somebody stopped."""

    def __init__(self, wait_s: float = FINISH_WAIT_S, *, status: str = "finished") -> None:
        self._moment_s = time.monotonic() + (0.0 if status in _IMPATIENT else wait_s)

    def left_s(self) -> float:
        """Seconds until then, 0 when it has passed."""
        return max(0.0, self._moment_s - time.monotonic())

    def sleep(self, pause_s: float) -> None:
        """Sleep, not beyond the deadline; an interruption ends all further waits as well."""
        try:
            time.sleep(min(pause_s, self.left_s()))
        except KeyboardInterrupt:
            self._moment_s = time.monotonic()
            raise


def explain_out_of_memory(run: Any, error: BaseException) -> None:
    """Write what memory was used for, if there was too little of it; once for each error."""
    if "torch" in sys.modules and run.state != "finished":
        torch_hooks().explain_out_of_memory(run, error)


class EndingWriter(RunWriter, Protocol):
    """A run as its end sees it."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while the end begins."""

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process started the run; False in a forked child."""

    def sync_within(self, limit_s: float) -> bool:
        """Wait so many seconds for the disk; False if it has not answered by then."""

    def write_fault_counts(self) -> None:
        """Record how often members failed, where once is not all."""

    def write_last_record(self, outcome: Mapping[str, str]) -> None:
        """Write the ``finish`` record and close."""

    def write_last_record_again(self, outcome: Mapping[str, str]) -> None:
        """Write another ``finish`` record, which is valid instead of the one that is there."""


class Ending:
    """How one run ends.

    ``on_end`` is called first, then ``on_finish``, which has the program's own callbacks, then the
    last record is written. ``on_close`` is called when the journal is closed, and ``after_finish``
    with the status after that. What ``after_finish`` waits for ends at ``deadline``, which all of
    its callbacks share. ``explain`` is called with an error that ends the run. ``checkpoint`` is
    the path of the newest checkpoint. ``is_ended_by_exit`` is set when the exit of Python has ended
    the run: objects that are destroyed after that may still log, and say how the run ended.

    Callbacks of the program share ``wait_s`` as well, but at least 5 s, and also if somebody
    stopped the run: what they save is worth it.
    """

    def __init__(self, recorder: EndingWriter) -> None:
        self._recorder = recorder
        guard = recorder.guard
        self.on_end = Callbacks("on_end", guard)
        self.on_finish = Callbacks("on_finish", guard)
        self.on_close = Callbacks("on_close", guard)
        self.after_finish = Callbacks("after_finish", guard)
        self.explain: Callable[[BaseException], object] | None = None
        self.checkpoint: str | None = None
        self.is_ended_by_exit = False
        self.wait_s = FINISH_WAIT_S
        self.deadline = Deadline()
        self._is_running = False
        self._is_disk_late = False
        self._outcome: dict[str, str] = {}

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process started the run; exit hooks leave the others alone."""
        return self._recorder.is_of_this_process

    def finish(self, status: str, reason: str | None = None) -> None:
        """Write the last record and close, then :meth:`settle`; a second call does nothing.

        After an interruption a second call completes what was left undone.
        """
        if self.is_ended_by_exit and self._outcome.get("reason") == PROCESS_ENDED:
            self._outcome = _outcome(status, reason)
            self._recorder.write_last_record_again(self._outcome)
            return
        with ExitStack() as stack:
            stack.callback(self.settle)
            self._end(status, reason)

    def leave(self, error: BaseException | None) -> None:
        """End a ``with`` block of the run: finished, or what the error makes of it."""
        if error is None:
            self.finish("finished")
        elif isinstance(error, SystemExit):
            failed = error.code not in (None, 0)
            status = "failed" if failed else "finished"
            self.finish(status, f"exit code {error.code}" if failed else None)
        else:
            end_with_error([self], error)

    def on_exit(self, status: str, *, reason: str, details: str | None = None) -> None:
        """The process is ending: write what is known of it and the last record, and close."""
        recorder = self._recorder
        if not recorder.finished and details is not None:
            with recorder.guard.member("exit hook"):
                recorder.event("exception", reason=reason, traceback=details)
        if self._is_running:  # a signal came in the middle of finish(): there may be no more time
            self._write_last_record()
        self._end(status, reason)

    def on_exception(self, error: BaseException) -> None:
        """An error ends the run: have it explained where that can be done."""
        if self.explain is not None:
            self._recorder.guard.run("out-of-memory report", self.explain, error)

    def on_signal(self, reason: str) -> None:
        """A signal came that the program handles itself."""
        if not self._recorder.finished:
            with self._recorder.guard.member("exit hook"):
                self._recorder.event("signal", reason=reason)

    def settle(self) -> None:
        """Do what follows the last record: print the last line, wait for what is forwarded."""
        if self._recorder.finished:
            self.after_finish.drain(self._outcome["status"])

    def report_interruption(self, status: str) -> None:
        """Print where the run was interrupted, its newest checkpoint, and how to continue it.

        After Ctrl-C the lines are printed when the process ends, below Python's traceback.
        """
        if status not in _IMPATIENT:
            return
        recorder = self._recorder
        by = "" if status == "interrupted" else f" by {self._outcome.get('reason', 'a signal')}"
        at = f" at step {recorder.step}" if recorder.step >= 0 else ""
        text = f"epochal: run {recorder.name!r} was interrupted{by}{at}. "
        if self.checkpoint is None:
            text += (
                "No checkpoint is recorded: unless your script saves its own, it starts from "
                "the beginning again."
            )
        else:
            text += f"Its newest checkpoint is {shown_path(Path(self.checkpoint))}.\n"
            text += self._how_to_continue()
        if status == "interrupted" and not hasattr(sys, "ps1"):
            EXIT_HOOKS.print_last(lambda: recorder.console.line(text))
        else:
            recorder.console.line(text)

    def _how_to_continue(self) -> str:
        recorder = self._recorder
        project, name = str(recorder.identity["project"]), recorder.name
        if hasattr(sys, "ps1"):  # a notebook or a Python prompt
            return f"Continue it with epochal.init({project!r}, {name!r}, resume='must')."
        run = shown_path(recorder.folder.path)
        return f"Continue it with: epochal resume {shlex.quote(run)}"

    def _end(self, status: str, reason: str | None) -> None:
        """Run the exit stack up to the last record: each step once, whatever another raises."""
        recorder = self._recorder
        with recorder.lock:
            if self._is_running:
                return  # called by a callback, or by another thread
            self._is_running = True
            if not self._outcome:
                self._outcome = _outcome(status, reason)
                self.deadline = Deadline(self.wait_s, status=status)
        left_s = Deadline(max(self.wait_s, FINISH_WAIT_S)).left_s
        try:
            with ExitStack() as stack:  # last in, first out
                stack.callback(self.on_close.drain)
                stack.callback(self._sync)
                stack.callback(self._write_last_record)
                stack.callback(self._sync)
                stack.callback(recorder.write_fault_counts)
                stack.callback(recorder.flush_values)  # those that callbacks logged
                stack.callback(self.on_finish.drain_within, left_s, self._report_running)
                stack.callback(self.on_end.drain)
                stack.callback(recorder.flush_values)
        finally:
            self._is_running = False

    def _report_running(self, callback: str, stack: str) -> None:
        recorder = self._recorder
        recorder.event("callback-running", callback=callback, traceback=stack)
        recorder.console.notice(
            f"the on_finish callback {callback!r} of run {recorder.name!r} is still running, and"
            " finish() no longer waits for it. It is stopped when the process ends;"
            " init(finish_wait_s=60) would give it a minute."
        )

    def _sync(self) -> None:
        if not self._is_disk_late:
            limit_s = max(self.deadline.left_s(), _LEAST_SYNC_S)
            self._is_disk_late = not self._recorder.sync_within(limit_s)

    def _write_last_record(self) -> None:
        self._recorder.write_last_record(self._outcome)


def _outcome(status: str, reason: str | None) -> dict[str, str]:
    return {"status": status, **({} if reason is None else {"reason": reason})}


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


# -- the end of the process ------------------------------------------------------------------------


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
