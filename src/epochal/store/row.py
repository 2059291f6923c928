"""A run in one row: what lists, filters and comparisons need. The index stores it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from epochal.health.ending import ending_severity
from epochal.records import Axis, Position
from epochal.series.reduce import Summary
from epochal.store.answers import NO_LABELS, Fork, Labels, Metric, RunInfo, Status
from epochal.store.finding_counts import NOTHING, FindingCounts
from epochal.store.status import derive_status

# So many values are read and summarised in a fraction of a second.
_SMALL = 2_000_000
_TINY = 20_000


class RowDetails(msgspec.Struct, array_like=True, gc=False):
    """The series of a run, those of their summaries that were asked for, and its last records.

    ``set_metrics`` are the numbers that the program set with ``run.summary`` beside its series.
    """

    metrics: list[Metric] = []
    summaries: dict[str, Summary] = {}
    end: dict[str, Position] = {}
    set_metrics: list[Metric] = []


class Row(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """What is known of a run while its files stay as they are; see ``RunInfo`` for the fields.

    ``summary_set`` is what the program set with ``run.summary``, ``labels_set`` what people did.
    ``id`` is the one that the run itself says, which a copy of its folder says as well.

    Its status is derived from ``finish``, ``process``, ``vanished``, ``written``, ``has_companion``
    and ``source``. ``vanished`` is what its companion recorded of a process that was gone,
    ``written`` when the journal was written, by the clock of its disk. ``source`` is where another
    tracker's run lies, or was copied from. ``found`` is what was recorded as found; ``worked_out``
    the same with what was found later in the ``unwatched`` records, once they have been looked at.
    Neither counts how the run ended: that is known with its status. ``summaries`` fills up with
    those that were asked for; it and ``worked_out`` are the only fields that change. ``is_ended``:
    every writer of the newest attempt has written its last record. ``latest`` has the last value of
    rank 0 by role, as far as summaries are known. ``is_partial``: made of identity and newest
    records alone.
    """

    id: str
    name: str
    project: str
    created: float
    updated: float | None = None
    attempts: int = 0
    step: int | None = None
    epoch: int | None = None
    total_steps: int | None = None
    num_epochs: int | None = None
    records: int = 0
    damaged: int = 0
    tags: tuple[str, ...] = ()
    notes: str | None = None
    labels_set: Labels | None = None
    config: dict[str, Any] = {}
    problem: str | None = None
    is_unreadable: bool = False
    finish: dict[str, Any] | None = None
    process: dict[str, Any] | None = None
    vanished: str | None = None
    source: dict[str, Any] | None = None
    found: FindingCounts | None = None
    nonfinite: bool = False
    unwatched: int = 0
    written: float | None = None
    has_companion: bool = False
    worked_out: FindingCounts | None = None
    is_ended: bool = False
    latest: dict[str, float | None] = {}
    is_partial: bool = False
    summary_set: dict[str, Any] = {}
    group: str | None = None
    job_type: str | None = None
    owner: str | None = None
    fork: Fork | None = None
    packed: msgspec.Raw = msgspec.Raw(msgspec.msgpack.encode(RowDetails()))
    # The details while they are in use; the index stores them packed.
    unpacked: Any = None

    @property
    def details(self) -> RowDetails:
        """The series and their summaries; unpacked on first use, because few lists need them."""
        details = self.unpacked
        if details is None:
            details = self.unpacked = _DETAILS.decode(self.packed)
        assert type(details) is RowDetails
        return details

    def read_details(self) -> RowDetails:
        """The details for one use: what thousands of rows have unpacked takes much memory."""
        if self.unpacked is not None:
            return self.details
        return _DETAILS.decode(self.packed)

    @property
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return self.details.metrics

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        return self.labels_set or NO_LABELS

    @property
    def end(self) -> dict[str, Position]:
        """The position of the last record of each writer."""
        return self.details.end

    @property
    def summaries(self) -> dict[str, Summary]:
        """Summaries that were asked for, by axis, rank and name."""
        return self.details.summaries

    def with_details(
        self, metrics: list[Metric], end: dict[str, Position], set_metrics: Sequence[Metric] = ()
    ) -> Row:
        """The row itself, with its series and the positions of its last records."""
        self.unpacked = RowDetails(metrics, end=end, set_metrics=list(set_metrics))
        return self

    def pack(self) -> None:
        """Keep the details packed, as the index stores them, which takes less memory."""
        if self.unpacked is not None:
            self.packed = msgspec.Raw(msgspec.msgpack.encode(self.unpacked))
            self.unpacked = None

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
            is_partial=self.is_partial,
            summary=self.summary_set,
            group=self.group,
            job_type=self.job_type,
            owner=self.owner,
            fork=self.fork,
        )

    def status(self, *, now: float, grew: float | None) -> Status:
        """The status of the run at ``now``; ``grew`` is when a reader last saw it grow."""
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
        """The number of findings, including a bad end of the run."""
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
        """The tracker whose files the run is read from; None for our own."""
        source = self.source or {}
        return source.get("format") if source.get("in_place") else None

    def summary(self, name: str, axis: Axis, rank: int) -> Summary | None:
        """A summary that was asked for before."""
        return self.details.summaries.get(f"{axis}/{rank}/{name}")

    @property
    def is_small(self) -> bool:
        """Whether all series are read in a moment."""
        return self.records * len(self.metrics) <= _SMALL

    @property
    def is_tiny(self) -> bool:
        """Whether summaries of all series cost less than opening the files did."""
        return self.records * len(self.metrics) <= _TINY

    def keep(self, name: str, axis: Axis, rank: int, summary: Summary) -> None:
        """Keep a summary for the next time."""
        self.details.summaries[f"{axis}/{rank}/{name}"] = summary


_DETAILS = msgspec.msgpack.Decoder(RowDetails)
