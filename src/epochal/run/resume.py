"""Says in the record where a resumed attempt takes over from the older ones."""

from __future__ import annotations

from typing import Protocol

from epochal.journal.line import decode, encode, now
from epochal.journal.writer import JournalWriter
from epochal.records import axis_of


class Stepping(Protocol):
    """A run, as far as resuming needs it."""

    @property
    def attempt(self) -> int:
        """The attempt that is being written."""

    def write_directly(self) -> None:
        """From now on, append without coming here first."""


class ResumeMark:
    """Writes the ``resume`` record: at once when the step is known, else with the first step.

    Older attempts' records from that step on are hidden in views; nothing is erased.
    """

    def __init__(self, run: Stepping, writer: JournalWriter, step: int | None) -> None:
        self._run = run
        self._writer = writer
        if step is not None:
            self._write(step)
        self._written = step is not None

    def append(self, line: bytes, at: float) -> None:
        """Append a line, after the mark if it is the first line with a step."""
        if not self._written and (step := _step_of(line)) is not None:
            self._written = True
            self._write(step)
        if self._written:
            self._run.write_directly()
        self._writer.append(line, at)

    def _write(self, step: int) -> None:
        record = {"log": "resume", "t": now(), "attempt": self._run.attempt, "step": step}
        self._writer.append(encode(record), now())


def _step_of(line: bytes) -> int | None:
    """The step of a record on the step axis; events and telemetry only carry the last one."""
    record = decode(line)
    if record is None or axis_of(record) != "step":
        return None
    step = record.get("step")
    return step if isinstance(step, int) else None
