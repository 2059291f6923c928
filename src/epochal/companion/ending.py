"""How a companion sees that a run or its process has ended, and what it does about it.

The order is fixed: what people need first comes first, and each job leaves things whole wherever it
is stopped. What could not be done in time is named with the command that does it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from epochal.base.guard import Guard, describe
from epochal.companion.config import CompanionConfig
from epochal.journal.layout import RunFolder
from epochal.journal.process import liveness, process_identity
from epochal.journal.reader import last_epoch_in, last_step_in
from epochal.journal.segments.parts import has_finish
from epochal.records.format import format_bytes, format_reached
from epochal.telemetry.host import Cgroup

_PAUSE_S = 0.05
# Jobs do a little at a time; what takes long they leave to a process or a thread.
JOB_BUDGET_S = 30.0


class LastJob(Protocol):
    """Something to be done after a run has ended."""

    @property
    def command(self) -> str:
        """What a person types to have it done later."""

    def go_on(self) -> bool:
        """Do a part of the work, or check its state; False when it is done. Returns soon."""

    def stop(self) -> None:
        """Time is up."""

    def left(self) -> str | None:
        """The remaining work, in words; None when nothing remains."""


def do_what_is_left(
    jobs: Mapping[str, LastJob],
    *,
    deadline_s: float,
    guard: Guard | None = None,
    budget_s: float = JOB_BUDGET_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[dict[str, str]]:
    """Do the jobs in order until a moment of the clock; returns what is left of each.

    A job that fails or hangs is left there, and the next one is done.
    """
    guard = Guard() if guard is None else guard
    failed: dict[str, str] = {}
    with guard.alarm.armed():
        for name, job in jobs.items():
            while True:
                outcome = guard.outcome(f"job {name}", job.go_on, budget_s=budget_s)
                if outcome.error is not None:
                    failed[name] = f"{name} failed: {describe(outcome.error)}"
                if not outcome.value:
                    break
                if clock() >= deadline_s:
                    guard.run(f"job {name}", job.stop, budget_s=budget_s)
                    break
                sleep(_PAUSE_S)
        found = [_left(name, job, guard, failed.get(name)) for name, job in jobs.items()]
    return [left for left in found if left is not None]


def _left(name: str, job: LastJob, guard: Guard, failure: str | None) -> dict[str, str] | None:
    what = failure or guard.run(f"job {name}", job.left)
    if what is None:
        return None
    return {"what": what, "command": guard.run(f"job {name}", lambda: job.command) or ""}


def has_finished(folder: RunFolder, writer: str, attempt: int) -> bool:
    """Whether a writer has recorded the end of an attempt; reads only the end of its file."""
    parts = [part for part in folder.parts() if part[:2] == (writer, attempt)]
    if not parts:
        return any(part[:2] == (writer, attempt) for part in folder.sealed_parts())
    return has_finish(folder, parts[-1])


# -- a process that vanished -----------------------------------------------------------------------


@dataclass(slots=True)
class CrashEvidence:
    """Stores the facts that are needed after the end of the process, while it still runs."""

    config: CompanionConfig
    cgroup: Cgroup
    oom_kills_before: int | None

    @classmethod
    def beside(cls, config: CompanionConfig, *, cgroup: Cgroup | None = None) -> CrashEvidence:
        """Start to watch over a process."""
        group = Cgroup.of(config.parent) if cgroup is None else cgroup
        return cls(config, group, group.oom_kills())

    def collect(self, last_seen: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a ``vanished`` event; ``last_seen`` are the newest figures of its memory."""
        step, epoch = reached(self.config.folder, self.config.writer, self.config.attempt)
        oom_kills = self._oom_kills()
        facts: dict[str, Any] = {
            "pid": self.config.parent,
            "exit": "unknown",
            "last_step": step,
            "last_epoch": epoch,
            "oom_kills": oom_kills,
            **last_seen,
        }
        sentence = _sentence(format_reached(step, epoch), oom_kills=oom_kills, last_seen=last_seen)
        known = {name: value for name, value in facts.items() if value is not None}
        return {"sentence": sentence, **known}

    def _oom_kills(self) -> int | None:
        now = self.cgroup.oom_kills()
        if now is None or self.oom_kills_before is None:
            return None
        return max(0, now - self.oom_kills_before)


def reached(folder: RunFolder, writer: str, attempt: int) -> tuple[int | None, int | None]:
    """The last step a writer logged in an attempt, and the last epoch where it logged no step.

    As far as its unsealed parts tell.
    """
    step = _newest(last_step_in, folder, writer, attempt)
    return step, _newest(last_epoch_in, folder, writer, attempt) if step is None else None


def _newest(
    look: Callable[[Path], int | None], folder: RunFolder, writer: str, attempt: int
) -> int | None:
    parts = [part for part in folder.parts() if part[:2] == (writer, attempt)]
    for part in reversed(parts):
        try:
            found = look(folder.part_path(part))
        except OSError:
            continue
        if found is not None:
            return found
    return None


def _sentence(place: str, *, oom_kills: int | None, last_seen: Mapping[str, Any]) -> str:
    when = f"after {place}" if place else "before its first step"
    parts = [f"the training process vanished {when} without a word"]
    if oom_kills:
        times = "a process" if oom_kills == 1 else f"{oom_kills} processes"
        parts.append(f"the kernel has killed {times} of its group for want of memory since")
    rss = last_seen.get("rss")
    if isinstance(rss, (int, float)):
        parts.append(f"it held {format_bytes(rss)} when last seen")
    return "; ".join(parts) + "."


class ParentWatch:
    """One process by number and start time; ``descriptor`` can be polled for its end, or is None.

    Without ``started`` the process that has the number now is meant.
    """

    def __init__(self, pid: int, *, started: float | None = None) -> None:
        self.pid = pid
        self._identity = process_identity(pid)
        if started is not None:
            self._identity["pid_start"] = started
        self.descriptor = _descriptor(pid) if self.is_alive() else None
        # It may have ended, and its number been taken, between the look and the opening.
        if not self.is_alive():
            self.close()

    def is_alive(self) -> bool:
        """Whether it runs; a process that waits to be collected does not."""
        return self._identity["pid_start"] is not None and liveness(self._identity) == "alive"

    def close(self) -> None:
        """Give the descriptor back."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _descriptor(pid: int) -> int | None:
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an older kernel, or a sandbox that forbids it
            return os.pidfd_open(pid)
    return None


_CHUNK_BYTES = 4096


class Waker:
    """Waits on descriptors; a byte that arrives means "look now" and nothing else."""

    def __init__(self, parent: int | None, *, wake_fd: int | None = None) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_fd = _readable_stdin() if wake_fd is None else wake_fd
        self._parent = parent
        for descriptor in (self._wake_fd, parent):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)

    def wait(self, seconds: float) -> bool:
        """Sleep for at most so long; whether something rang."""
        if not self._selector.get_map():
            time.sleep(seconds)  # nothing to wait on, which not every system takes for an answer
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fd == self._wake_fd and not _drain(key.fd):
                self._selector.unregister(key.fd)  # the other end is closed: it would ring for ever
            elif key.fd == self._parent:
                self._selector.unregister(key.fd)
        return bool(ready)

    def close(self) -> None:
        """Let the descriptors go; they stay open."""
        self._selector.close()


def _drain(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, _CHUNK_BYTES))
    except OSError:
        return False


def _readable_stdin() -> int | None:
    """Standard input, if the system can wait on it and it is not a terminal."""
    if os.name == "nt" or sys.stdin is None or sys.stdin.isatty():
        return None
    try:
        descriptor = sys.stdin.fileno()
        with selectors.DefaultSelector() as probe:
            probe.register(descriptor, selectors.EVENT_READ)
    except (OSError, ValueError):  # closed, or a plain file, which cannot be waited on
        return None
    return descriptor
