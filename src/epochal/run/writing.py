"""What the parts of a run use of its recorder: who the run is, and five verbs to record with.

The recorder makes these parts (configuration, summary, alerts, samples, phases, the end) and holds
them. They know this protocol alone, so that imports go one way.
"""

from __future__ import annotations

from typing import Any, Protocol

from epochal.base.guard import Guard
from epochal.journal.layout import RunFolder
from epochal.records import Record
from epochal.records.redact import Redactor
from epochal.run.accepted import CallValues, ValuePolicy
from epochal.run.console.printer import Console


class RunWriter(Protocol):
    """A run as its parts see it; :class:`~epochal.run.recorder.Recorder` is the only one."""

    identity: dict[str, Any]
    folder: RunFolder
    rank: int
    attempt: int
    step: int
    console: Console
    guard: Guard
    redactor: Redactor
    values: ValuePolicy

    @property
    def name(self) -> str:
        """The run's name."""

    @property
    def finished(self) -> bool:
        """Whether the last record is written."""

    @property
    def is_recorded(self) -> bool:
        """Whether the run has a journal; False for one that was started switched off."""

    def check_open(self) -> None:
        """Raise when the run is finished."""

    def call(self, kind: str) -> CallValues:
        """What reads the values of one typed call; raises when the run is finished."""

    def write(self, record: Record | None) -> None:
        """Append one complete record, and print what belongs to its kind; None is no record."""

    def event(self, name: str, **fields: Any) -> None:
        """Append something that happened, at the last step; secrets in its fields are redacted."""

    def flush_values(self) -> None:
        """Wait for values that are still on an accelerator."""
