"""A run in one row, from the index to the page, and rows as MessagePack.

``RunRow`` is what lists, filters, comparisons, commands and the page read of a run. The index also
stores what a row is derived from at each moment (``RowBasis``), and the summaries of all series
(``RowDetails``), which few lists need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from epochal.health.ending import ending_severity
from epochal.health.finding import Finding, Severity
from epochal.journal.metrics import Metric
from epochal.journal.row import NO_LABELS, Fork, Labels, Status
from epochal.records import Axis, Position, Record
from epochal.series.summary import Summary
from epochal.store.status import UNREADABLE, derive_status


class FindingCounts(NamedTuple):
    """How many findings a run has, over or not, and how many of them still hold."""

    errors: int
    warnings: int
    open_errors: int
    open_warnings: int

    def and_one(self, severity: Severity | None) -> FindingCounts:
        """With one more that holds."""
        is_error, is_warning = severity == "error", severity == "warning"
        return FindingCounts(
            self.errors + is_error,
            self.warnings + is_warning,
            self.open_errors + is_error,
            self.open_warnings + is_warning,
        )


NOTHING = FindingCounts(0, 0, 0, 0)


def latest_findings(told: Iterable[tuple[int, Record]], *, attempts: int) -> list[Finding]:
    """Each finding as it was told last; ``told`` are records in order, with their attempts.

    What an attempt before the newest had is over: the run was taken up again after it.
    """
    by_id: dict[str, Finding] = {}
    for attempt, record in told:
        finding = Finding.from_record(record)
        if finding is not None:
            is_past = attempt < attempts and finding.state == "open"
            by_id[finding.id] = replace(finding, state="closed") if is_past else finding
    return list(by_id.values())


def count(findings: Iterable[Finding]) -> FindingCounts:
    """How many errors and warnings there are, and how many of them hold: the one count for all."""
    listed = list(findings)
    every = [finding.severity for finding in listed]
    held = [finding.severity for finding in listed if finding.state == "open"]
    return FindingCounts(
        every.count("error"), every.count("warning"), held.count("error"), held.count("warning")
    )


class MetricSummary(msgspec.Struct, frozen=True):
    """The summary of a series; ``*_x`` are steps, epochs or times, depending on its axis."""

    count: int
    nonfinite: int
    last: float | None
    last_nonfinite: Literal["nan", "inf", "-inf"] | None = None
    last_x: float | None = None
    min: float | None = None
    min_x: float | None = None
    max: float | None = None
    max_x: float | None = None
    mean: float | None = None
    best: float | None = None
    best_x: float | None = None


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run in one row of a list; times in Unix seconds.

    ``name``, ``tags`` and ``notes`` come from the labels where people set them. ``step`` and
    ``epoch`` are the highest of rank 0 in the newest attempt. ``damaged`` counts lines that cannot
    be read. ``problem`` is a sentence about a run that cannot be read, or not completely.
    ``tracker`` names the tool whose files the run was converted from; null for our own.
    ``errors`` and ``warnings`` count all findings and a bad ending, ``open_errors`` and
    ``open_warnings`` those that are still active; all are null where no rule has run.
    ``is_partly_watched``: a companion did not see the end of an attempt, and no rule has read the
    rest yet. ``nonfinite``: the last loss is nan or infinite. ``is_partial``: only identity and the
    newest records were read so far; counts of records and findings are not known, and a summary has
    its last value alone. ``summary`` is what the program set with ``run.summary``; ``group``,
    ``job_type`` and ``owner`` are as ``init`` was given them. ``fork`` says which run it was forked
    from.

    The other fields are filled for a list that asks for them. ``config`` is empty unless it
    was requested. ``summaries`` has the requested metrics that exist, by the requested name
    (``role:loss`` stays ``role:loss``). ``ends_at`` is when a running run is expected to end; null
    while that cannot be known. ``host`` and ``phase`` say where a live run runs and what its
    training is doing. ``unfinished`` says how far a run is that has not finished (``running, 5 % of
    its steps``).
    """

    id: str
    name: str
    project: str
    folder: str
    status: Status = UNREADABLE
    created: float | None = None
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
    hidden: bool = False
    config: Mapping[str, Any] = {}
    problem: str | None = None
    tracker: str | None = None
    errors: int | None = None
    warnings: int | None = None
    open_errors: int | None = None
    open_warnings: int | None = None
    nonfinite: bool = False
    is_partly_watched: bool = False
    is_partial: bool = False
    summary: Mapping[str, Any] = {}
    group: str | None = None
    job_type: str | None = None
    owner: str | None = None
    fork: Fork | None = None
    summaries: Mapping[str, MetricSummary] = {}
    ends_at: float | None = None
    host: str | None = None
    phase: str | None = None
    unfinished: str | None = None

    @property
    def steps_done(self) -> int | None:
        """How many steps are done, counted from step 0; at most ``total_steps``."""
        if self.step is None:
            return None
        done = self.step + 1
        return done if self.total_steps is None else min(done, self.total_steps)

    def length(self, axis: Axis) -> int | None:
        """How many steps or epochs the run has: as planned, or as recorded if those are more."""
        step = None if self.step is None else self.step + 1
        known = {"step": (self.total_steps, step), "epoch": (self.num_epochs, self.epoch)}
        return max((one for one in known.get(axis, ()) if one), default=None)


class RowBasis(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """What status and counts of a row are derived from at each moment.

    ``finish`` is the last record of the newest attempt, ``process`` identifies the process that
    wrote it. ``vanished`` is what its companion recorded of a process that was gone, ``written``
    when the journal was written, by the clock of its disk. ``source`` is where another tracker's
    run was converted or copied from. ``found`` is what was recorded as found; ``diagnosed`` the
    same with what rules found later in the ``unwatched`` records, once they have read them. Neither
    counts how the run ended: that is known with its status. ``is_ended``: every writer of the
    newest attempt has written its last record. ``latest`` has the last value of rank 0 by role,
    ``lowest`` the lowest losses.
    """

    labels: Labels = NO_LABELS
    is_unreadable: bool = False
    finish: dict[str, Any] | None = None
    process: dict[str, Any] | None = None
    vanished: str | None = None
    source: dict[str, Any] | None = None
    found: FindingCounts | None = None
    diagnosed: FindingCounts | None = None
    unwatched: int = 0
    written: float | None = None
    has_companion: bool = False
    is_ended: bool = False
    latest: dict[str, float | None] = {}
    lowest: dict[str, float] = {}

    def status(self, updated: float | None, *, now: float, grew: float | None = None) -> Status:
        """The status at ``now``; ``grew`` is when a reader last saw the run grow."""
        if self.is_unreadable:
            return UNREADABLE
        return derive_status(
            finish=self.finish,
            process=self.process,
            updated=updated,
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
        if self.diagnosed is not None and status.state != "running":
            found = self.diagnosed
        ending = ending_severity(status.state)
        if ending is None or "pid" not in (self.process or {}):
            return found
        return (found or NOTHING).and_one(ending)

    def is_partly_watched(self, status: Status) -> bool:
        """Whether more may be found than was recorded: a companion did not see an attempt's end."""
        is_known = self.found is None or self.diagnosed is not None
        return not is_known and bool(self.unwatched) and status.state != "running"


class RowDetails(msgspec.Struct, array_like=True, gc=False):
    """The series of a run, the summaries that are known, and the position of the last records.

    ``set_metrics`` are the numbers that the program set with ``run.summary`` beside its series.
    """

    metrics: list[Metric] = []
    summaries: dict[str, Summary] = {}
    end: dict[str, Position] = {}
    set_metrics: list[Metric] = []

    def summary(self, name: str, axis: Axis, rank: int) -> Summary | None:
        """A summary that is known."""
        return self.summaries.get(f"{axis}/{rank}/{name}")

    def keep(self, name: str, axis: Axis, rank: int, summary: Summary) -> None:
        """Keep a summary for the next time."""
        self.summaries[f"{axis}/{rank}/{name}"] = summary

    def tail(self, metric: Metric, num_points: int) -> Summary | None:
        """The summary of the last points of a metric, if it was kept."""
        return self.summaries.get(f"{metric.axis}@{num_points}/{metric.name}")

    def keep_tail(self, metric: Metric, num_points: int, summary: Summary) -> None:
        """Keep the summary of the last points of a metric."""
        self.summaries[f"{metric.axis}@{num_points}/{metric.name}"] = summary


class StoredRow(msgspec.Struct, array_like=True, gc=False):
    """A row as the index stores it; its id is the one that the run itself recorded."""

    row: RunRow
    basis: RowBasis

    def at(self, status: Status, *, run_id: str | None = None) -> RunRow:
        """The row at a moment: with its status, and the counts of findings that belong to it."""
        found = self.basis.found_by(status)
        return msgspec.structs.replace(
            self.row,
            id=self.row.id if run_id is None else run_id,
            status=status,
            errors=None if found is None else found.errors,
            warnings=None if found is None else found.warnings,
            open_errors=None if found is None else found.open_errors,
            open_warnings=None if found is None else found.open_warnings,
            is_partly_watched=self.basis.is_partly_watched(status),
        )


class ListedInfo(msgspec.Struct, frozen=True):
    """A run of a list for a reader on another machine; ``latest`` has last values by role."""

    info: RunRow
    labels: Labels
    latest: Mapping[str, float] = {}


class InfoPage(msgspec.Struct, frozen=True):
    """One window of a list of runs; ``total`` counts all that the query selects.

    ``pending`` counts runs of the store that were not read in full yet: what is said of them, and
    whether a query selects them, may change.
    """

    runs: list[ListedInfo]
    total: int
    offset: int = 0
    pending: int = 0


T = TypeVar("T")

_LARGE_INTEGER = 1
_encoder = msgspec.msgpack.Encoder()


def pack(value: Any) -> bytes:
    """Encode a struct; the decoders of :func:`packed_decoder` read it."""
    try:
        return _encoder.encode(value)
    except OverflowError:
        return _encoder.encode(_with_extensions(value))


def packed_decoder(kind: type[T]) -> msgspec.msgpack.Decoder[T]:
    """A decoder of what :func:`pack` wrote."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_integer)


def _with_extensions(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**64:
        digits = value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        return msgspec.msgpack.Ext(_LARGE_INTEGER, digits)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **_with_extensions(fields))
    if isinstance(value, Mapping):
        return {key: _with_extensions(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_with_extensions(item) for item in value]
    return value


def _integer(code: int, data: memoryview) -> int:
    if code != _LARGE_INTEGER:
        raise ValueError(f"extension type {code} is not known")
    return int.from_bytes(data, "big", signed=True)
