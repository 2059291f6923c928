"""A run in one row: all that a list, a filter or a comparison asks, kept by the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from epochal.health.ending import ending_severity
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import TELEMETRY
from epochal.journal.reader import JOURNAL_SHORTENED
from epochal.records import Axis, Position
from epochal.series.reduce import Summary
from epochal.store.answers import Labels, Metric, RunInfo, Status
from epochal.store.columns import whole_number
from epochal.store.entries import entries_of
from epochal.store.finding_counts import (
    NOTHING,
    FindingCounts,
    ends_nonfinite,
    found_in,
    num_unwatched,
)
from epochal.store.state import RunState
from epochal.store.status import derive_status

# Which process wrote a run: what ``journal.process.liveness`` asks for.
PROCESS_FIELDS = ("host", "boot_id", "pid_namespace", "pid", "pid_start")


class Row(msgspec.Struct, array_like=True, kw_only=True):
    """What is known of a run while its files stay as they are; see ``RunInfo`` for the fields.

    ``id`` is the one that the run itself says, which a copy of its folder says as well.

    ``finish``, ``process``, ``vanished`` (what its companion said of a process that was gone),
    ``written`` (when the journal was, by the clock of its disk), ``has_companion`` and ``source``
    (where another tracker's run lies, or was copied from) are what its status is derived from.
    ``found`` is what was recorded as found; ``worked_out`` the same with what was found later
    in the ``unwatched`` records, once they have been looked at. Neither counts how the run ended:
    that is known with its status. ``summaries`` fills up with those that were asked for; it and
    ``worked_out`` are the only fields that change.
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
    vanished: str | None
    source: dict[str, Any] | None
    end: dict[str, Position]
    metrics: list[Metric]
    found: FindingCounts | None
    nonfinite: bool
    unwatched: int
    written: float | None
    has_companion: bool
    worked_out: FindingCounts | None = None
    summaries: dict[str, list[Any]] = {}

    def info(self, run_id: str, *, folder: str, status: Status) -> RunInfo:
        """The row as it is handed out, under the id that its store knows the run by."""
        found = self.found_by(status)
        return RunInfo(
            is_partly_watched=self.is_partly_watched(status),
            id=run_id,
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
            tracker=self.tracker,
            errors=None if found is None else found.errors,
            warnings=None if found is None else found.warnings,
            open_errors=None if found is None else found.open_errors,
            open_warnings=None if found is None else found.open_warnings,
            nonfinite=self.nonfinite,
        )

    def status(self, *, now: float, grew: float | None) -> Status:
        """How the run stands at ``now``; ``grew`` is when a reader last saw it grow."""
        return derive_status(
            finish=self.finish,
            process=self.process,
            updated=self.updated,
            now=now,
            vanished=self.vanished,
            source=self.source,
            written=self.written,
            grew=grew,
            has_companion=self.has_companion,
        )

    def found_by(self, status: Status) -> FindingCounts | None:
        """How much was found, with how the run ended where it did not end well."""
        found = self.found
        if self.worked_out is not None and status.state != "running":
            found = self.worked_out
        ending = ending_severity(status.state)
        if ending is None or "pid" not in (self.process or {}):
            return found
        return (found or NOTHING).and_one(ending)

    def is_partly_watched(self, status: Status) -> bool:
        """Whether more may be found than was recorded: a companion did not see an attempt's end."""
        is_known = self.found is None or self.worked_out is not None
        return not is_known and bool(self.unwatched) and status.state != "running"

    @property
    def tracker(self) -> str | None:
        """Whose files the run is read from, where they are not ours."""
        source = self.source or {}
        return source.get("format") if source.get("in_place") else None

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


def make_row(
    brief: RunInfo,
    state: RunState,
    *,
    own_id: str,
    said: Mapping[str, Any],
    created: float,
    labels: Labels,
    problems: Sequence[str],
    is_newer: bool,
    end: dict[str, Position],
    written: float | None,
    rules: RuleSettings,
) -> Row:
    """The row of a run: ``said`` is its run.json, or nothing where that cannot be read.

    ``is_newer`` marks a run of a newer format, which is not read at all; ``written`` is when its
    journal was written last, by the clock of the disk.
    """
    told = said or state.header or {}
    totals, config = told.get("totals"), told.get("config")
    totals = totals if isinstance(totals, dict) else {}
    process, finish, source = state.header or said or None, state.finish, told.get("source")
    if "pid" in (process or {}):  # taken up again here, whoever began it
        source = None
    return Row(
        id=own_id,
        name=brief.name,
        project=brief.project,
        created=created,
        updated=state.updated,
        attempts=state.attempts,
        step=state.reached("step"),
        epoch=state.reached("epoch"),
        total_steps=whole_number(totals.get("steps")),
        num_epochs=state.num_epochs or whole_number(totals.get("epochs")),
        records=state.num_records,
        damaged=state.num_damaged,
        tags=brief.tags,
        notes=brief.notes if isinstance(brief.notes, str) else None,
        labels=labels,
        config={**(config if isinstance(config, dict) else {}), **state.config},
        problem=" ".join(_with_losses(state, problems)) or None,
        is_unreadable=is_newer or (not state.num_records and bool(problems)),
        finish=None if finish is None else _chosen(finish, ("status", "reason")),
        process=None if process is None else _chosen(process, PROCESS_FIELDS),
        vanished=_vanished(state) if finish is None else None,
        source=_chosen(source, ("format", "in_place")) if isinstance(source, dict) else None,
        end=end,
        metrics=state.metrics,
        found=found_in(state, rules),
        nonfinite=ends_nonfinite(state),
        unwatched=num_unwatched(state),
        written=written,
        has_companion=_has_companion(state),
    )


def faulty_row(path: Path, problem: str) -> Row:
    """The row of a run that could not be read at all, known by its path."""
    try:
        created = path.stat().st_mtime
    except OSError:
        created = 0.0
    return Row(
        id=path.name,
        name=path.name,
        project=path.parent.name,
        created=created,
        updated=None,
        attempts=0,
        step=None,
        epoch=None,
        total_steps=None,
        num_epochs=None,
        records=0,
        damaged=0,
        tags=(),
        notes=None,
        labels=Labels(),
        config={},
        problem=problem,
        is_unreadable=True,
        finish=None,
        process=None,
        vanished=None,
        source=None,
        end={},
        metrics=[],
        found=None,
        nonfinite=False,
        unwatched=0,
        written=None,
        has_companion=False,
    )


def _with_losses(state: RunState, problems: Sequence[str]) -> list[str]:
    """The problems, and what a companion saw go from the journal; each file's loss once."""
    events = entries_of(state, ("event",), name=JOURNAL_SHORTENED, rank=None)
    seen = {str(event.record.get("sentence")) for event in events}
    files = {sentence.partition(" ")[0] for sentence in seen}
    own = [p for p in problems if "became shorter" not in p or p.partition(" ")[0] not in files]
    return [*own, *sorted(seen)]


def _vanished(state: RunState) -> str | None:
    """What the companion of the newest attempt said when its process was gone."""
    events = entries_of(state, ("event",), name="vanished", rank=None)
    said = [e.record.get("sentence") for e in events if e.position.attempt == state.attempts]
    return said[-1] if said and isinstance(said[-1], str) else None


def _has_companion(state: RunState) -> bool:
    """Whether a companion watches the newest attempt, as far as the files say."""
    lost = entries_of(state, ("event",), name="companion-lost", rank=None)
    if any(event.position.attempt == state.attempts for event in lost):
        return False
    return any(
        part.name.attempt == state.attempts and part.name.writer.startswith(TELEMETRY)
        for part in state.parts
    )


def _chosen(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: record[field] for field in fields if field in record}
