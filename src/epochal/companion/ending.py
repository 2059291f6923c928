"""How a companion sees that a run has ended, and what it does about it.

The order is fixed: what people need first comes first, and each job leaves things whole wherever it
is stopped. What could not be done in time is named with the command that does it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from epochal.companion.sealing import WORTH_SEALING_BYTES, Sealing, part_bytes
from epochal.guard import Guard, describe
from epochal.journal.layout import RunFolder
from epochal.journal.line import decode

_END_BYTES = 16 * 1024
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


class SealingJob:
    """Seals every part of a run that is finished, and waits for those about to be."""

    def __init__(self, folder: RunFolder, attempt: int, sealing: Sealing) -> None:
        self._folder = folder
        self._attempt = attempt
        self._sealing = sealing

    @property
    def command(self) -> str:
        """The command that seals a run."""
        return f"epochal pack {self._folder.path}"

    def go_on(self) -> bool:
        """Seal what can be; other ranks may take a moment longer to end."""
        if not self._sealing.is_possible:
            return False
        return self._sealing.look() or bool(self._unsealed() - self._sealing.failures.keys())

    def stop(self) -> None:
        """End the process that seals."""
        self._sealing.stop()

    def left(self) -> str | None:
        """The parts that are not sealed."""
        unsealed = self._unsealed()
        if not unsealed:
            return None
        reasons = [why for stem, why in self._sealing.failures.items() if stem in unsealed]
        return f"not sealed: {', '.join(sorted(unsealed))}" + "".join(f"; {why}" for why in reasons)

    def _unsealed(self) -> set[str]:
        return {
            part.stem
            for part in self._folder.parts()
            if part.attempt == self._attempt
            and part_bytes(self._folder, part) >= WORTH_SEALING_BYTES
        }


def has_finished(folder: RunFolder, writer: str, attempt: int) -> bool:
    """Whether a writer has recorded the end of an attempt; reads only the end of its file."""
    parts = [part for part in folder.parts() if part[:2] == (writer, attempt)]
    if not parts:
        return any(part[:2] == (writer, attempt) for part in folder.sealed_parts())
    return any(
        record is not None and record["log"] == "finish"
        for line in _end_of(folder.part_path(parts[-1])).split(b"\n")[:-1]
        if b'"finish"' in line
        for record in [decode(line)]
    )


def _end_of(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _END_BYTES))
            return file.read(_END_BYTES)
    except FileNotFoundError:
        return b""
