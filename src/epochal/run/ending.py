"""The end of a run: callbacks in their order, the last record, and how long all of it may take.

:class:`Ending` is an exit stack. Each step happens once, and the last record is written whatever a
callback raises. The exit hooks call it when the process ends before the program calls ``finish``.
``Callbacks`` are those of one hook: a fault in one does not reach the loop or the next one.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.guard import Guard
from epochal.run.exit_hooks import EXIT_HOOKS, PROCESS_ENDED, end_with_error
from epochal.settings.toml_file import shown_path
from epochal.torch_hooks import torch_hooks

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder

FINISH_WAIT_S = 5.0
# Somebody who stops a training wants it to stop; the companion goes on by itself.
_IMPATIENT = frozenset({"interrupted", "terminated"})
# Also then the disk gets so long for what was recorded last.
_LEAST_SYNC_S = 0.5


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

    def __init__(self, recorder: Recorder) -> None:
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
