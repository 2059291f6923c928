"""The open runs of this process, and which of them ``epochal.log`` and ``epochal.finish`` mean.

Several runs may be open at once; each handle logs to its own. The current run is the one that was
opened last among those still open: when it finishes, the one opened before it is current again.
All threads see the same current run: a context variable would be empty in threads that a training
starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TypeVar

from epochal.base.guard import Fault, Guard
from epochal.errors import UsageError
from epochal.records.values import Metrics
from epochal.run.accepted import ValuePolicy
from epochal.run.console.messages import error
from epochal.run.run import Run, recorder_of
from epochal.settings import read_variable
from epochal.settings.launch import announce_run, withdraw_run

T = TypeVar("T")


class OpenRuns:
    """The runs of this process that have not finished, in the order in which they were opened."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._last: Run | None = None
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs))

    @property
    def current(self) -> Run | None:
        """The open run that was opened last; None when none is open."""
        runs = self._runs
        return runs[-1] if runs else None

    @property
    def newest(self) -> Run | None:
        """The current run or, when none is open, the one that finished last."""
        return self.current or self._last

    def add(self, run: Run, *, is_current: bool = True) -> None:
        """Add a run until it closes; one that is not to be current is so while no other is open."""
        with self._lock:
            self._runs.insert(len(self._runs) if is_current else 0, run)
            self._has_changed()
        recorder_of(run).ending.on_close.add(lambda: self.remove(run))

    def remove(self, run: Run) -> None:
        """A run has finished: the one opened before it is current again."""
        with self._lock:
            if run in self._runs:
                self._runs.remove(run)
                self._last = run
                self._has_changed()

    def clear(self) -> list[Run]:
        """Forget all runs, and give back those that are open."""
        with self._lock:
            runs, self._runs, self._last = self._runs, [], None
            self._has_changed()
        return runs

    def _has_changed(self) -> None:
        current = self.current
        # Processes that multiprocessing starts from here log to the current run.
        if current is None:
            withdraw_run(pid=os.getpid())
        elif (of := recorder_of(current)).is_recorded and of.is_of_this_process and of.rank >= 0:
            announce_run(pid=os.getpid(), folder=str(current.dir), attempt=of.attempt)
        consoles = [recorder_of(run).console for run in self._runs]
        for run, console in zip(self._runs, consoles, strict=True):
            # A console that two runs share cannot say whose line it prints.
            is_one_of_several = len(consoles) > 1 and consoles.count(console) == 1
            console.label = run.name if is_one_of_several else ""


OPEN_RUNS = OpenRuns()


def current_run() -> Run:
    """The current run: the one opened last that is still open. Raises when there was none.

    When all have finished it is the one that finished last, which refuses to log.
    """
    run = OPEN_RUNS.newest
    if run is None:
        raise UsageError("there is no current run: call epochal.init() first.")
    return run


def given_or_current(run: T | None, caller: str) -> T | Run:
    """The run that ``caller`` was given, the current one for None; anything else is refused."""
    if run is None:
        return current_run()
    if not callable(getattr(run, "on_finish", None)):
        raise UsageError(
            f"{caller}: run= is what epochal.init() returned, not a {type(run).__name__}."
            " Without it the current run is taken."
        )
    return run


def log(metrics: Metrics, step: int | None = None) -> None:
    """Append metrics to the current run at a step, by default the last one + 1.

    Args:
        metrics: The values by name.
        step: The step; by default the last one + 1.
    """
    current_run().log(metrics, step)


def finish(status: str = "finished") -> None:
    """Finish the current run; does nothing when there is none.

    Args:
        status: ``finished``, or another status such as ``failed``.
    """
    run = OPEN_RUNS.newest
    if run is not None:
        run.finish(status)


def current_values() -> ValuePolicy:
    """How values are read outside a run's own calls: as the current run does, if there is one."""
    run = OPEN_RUNS.newest
    if run is not None and run.state != "finished":
        return recorder_of(run).values
    _VALUES.strict = read_variable("strict")
    return _VALUES


def guard_of(run: object = None) -> Guard:
    """The guard of a run; by default of the current one, or of a process without an open run."""
    known = run if isinstance(run, Run) else OPEN_RUNS.current
    return _GUARD if known is None else recorder_of(known).guard


def _print_fault(fault: Fault) -> None:
    error("epochal: internal error in %s: %s. Training goes on.", fault.member, fault.error)


# What is recorded while there is no run, such as the values of a graph.
_VALUES = ValuePolicy(lambda sentence, *_, **__: error("epochal: %s", sentence))
_GUARD = Guard(_print_fault)
