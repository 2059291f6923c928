"""A run in one row: all that a list, a filter or a comparison asks, kept by the index."""

from __future__ import annotations

from typing import Any

import msgspec

from epochal.record import Axis, Position
from epochal.series.reduce import Summary
from epochal.store.answers import Labels, Metric, RunInfo, Status

# Which process wrote a run: what ``journal.process.liveness`` asks for.
PROCESS_FIELDS = ("host", "boot_id", "pid_namespace", "pid", "pid_start")


class Row(msgspec.Struct, array_like=True, kw_only=True):
    """What is known of a run while its files stay as they are; see ``RunInfo`` for the fields.

    ``finish`` and ``process`` are what its status is derived from. ``summaries`` fills up with
    those that were asked for; it is the only field that changes.
    """

    id: str
    name: str
    project: str
    created: float
    updated: float | None
    attempts: int
    step: int | None
    epoch: int | None
    total_steps: int | None
    num_epochs: int | None
    records: int
    damaged: int
    tags: tuple[str, ...]
    notes: str | None
    labels: Labels
    config: dict[str, Any]
    problem: str | None
    is_unreadable: bool
    finish: dict[str, Any] | None
    process: dict[str, Any] | None
    end: dict[str, Position]
    metrics: list[Metric]
    summaries: dict[str, list[Any]] = {}

    def info(self, *, folder: str, status: Status) -> RunInfo:
        """The row as it is handed out."""
        return RunInfo(
            id=self.id,
            name=self.name,
            project=self.project,
            folder=folder,
            status=status,
            created=self.created,
            updated=self.updated,
            attempts=self.attempts,
            step=self.step,
            epoch=self.epoch,
            total_steps=self.total_steps,
            num_epochs=self.num_epochs,
            records=self.records,
            damaged=self.damaged,
            tags=self.tags,
            notes=self.notes,
            hidden=self.labels.hidden,
            config=self.config,
            problem=self.problem,
        )

    def summary(self, name: str, axis: Axis, rank: int) -> Summary | None:
        """A summary that was asked for before."""
        values = self.summaries.get(_key(name, axis, rank))
        return None if values is None else Summary(*values)

    def keep(self, name: str, axis: Axis, rank: int, summary: Summary) -> None:
        """Keep a summary for the next time."""
        self.summaries[_key(name, axis, rank)] = [
            getattr(summary, field) for field in Summary.__dataclass_fields__
        ]


def _key(name: str, axis: Axis, rank: int) -> str:
    return f"{axis}/{rank}/{name}"
