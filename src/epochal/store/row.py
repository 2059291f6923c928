"""Rows of runs: what their folders say, their status at a moment, and rows as MessagePack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from epochal.errors import FormatError
from epochal.health.ending import BAD_ENDINGS, BadEnding, ending_finding, ending_severity
from epochal.health.finding import Finding
from epochal.journal.diagnosis import with_finding
from epochal.journal.facts import PartFacts, unix_time
from epochal.journal.fold import RunMetrics
from epochal.journal.layout import LOOP
from epochal.journal.metrics import set_number
from epochal.journal.process import read_header
from epochal.journal.reader import records_from_end
from epochal.journal.row import UNREADABLE, FindingCounts, RunRow, Status
from epochal.journal.summaries import summarise
from epochal.records import Record
from epochal.series.summary import Summary, set_summary
from epochal.store.folder import FolderSource
from epochal.store.status import derive_status

_NOTHING = FindingCounts(0, 0, 0, 0)
# How much of the end of a journal is read.
_END_BYTES = 16 * 1024


def completed(row: RunRow, source: FolderSource, problems: Sequence[str]) -> RunRow:
    """A row with what only the reader of a folder knows: where it lies, and what people set."""
    labels = source.labels
    is_in_place = row.source is not None and row.source.get("in_place")
    return msgspec.structs.replace(
        row,
        folder=source.place if source.converted is None else str(source.path),
        created=changed_at(source.path) if row.created is None else row.created,
        name=labels.name or row.name,
        tags=row.tags if labels.tags is None else labels.tags,
        notes=row.notes if labels.notes is None else labels.notes,
        hidden=labels.hidden,
        labels=labels,
        tracker=row.source.get("format") if row.source is not None and is_in_place else None,
        problem=" ".join(problems) or None,
        is_unreadable=bool(problems) and (source.is_newer or not row.records),
        written=source.listing.journal_written_s,
    )


def identity_row(source: FolderSource) -> RunRow:
    """The row of a run that nobody has summarised: who it is, and how it stands."""
    run_json, parts = source.run_json, source.listing.journal
    attempts = max((name.attempt for name in parts), default=0)
    newest = {name.writer: name for name in sorted(parts) if name.attempt == attempts}
    facts = {writer: PartFacts(name, header={}) for writer, name in newest.items()}
    if LOOP in newest:
        path = Path(parts[newest[LOOP]].path)
        last = None
        with contextlib.suppress(OSError, FormatError):  # sealed meanwhile
            last = next(iter(records_from_end(path, most_bytes=_END_BYTES)), None)
        facts[LOOP].header = read_header(path)
        facts[LOOP].finish = last if last is not None and last["log"] == "finish" else None
        facts[LOOP].updated = None if last is None else unix_time(last.get("t"))
    row = summarise(RunMetrics(writers=[*facts.values()]), run_json, place=source.place)
    converted = source.converted
    changes: dict[str, float | None] = {}
    if converted is not None and not converted.is_current:
        changes["updated"] = converted.changed  # nothing else is known before it is converted
    if converted is not None and row.created is None:
        changes["created"] = changes.get("updated", row.updated)
    row = msgspec.structs.replace(row, **changes, counts=None, is_ended=False, is_summarised=False)
    problems = source.identity_problems() if converted is None else ()
    return msgspec.structs.replace(completed(row, source, problems), is_unreadable=source.is_newer)


def faulty_row(path: Path, problem: str) -> RunRow:
    """The row of a run that could not be read at all, known by its path."""
    return RunRow(
        id=path.name,
        name=path.name,
        project=path.parent.name,
        folder=str(path),
        created=changed_at(path),
        problem=problem,
        is_unreadable=True,
    )


def changed_at(path: Path) -> float:
    """When a file or folder was changed last, in Unix seconds; 0 where that cannot be read."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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


def status_of(row: RunRow, *, now: float, grew: float | None = None) -> Status:
    """The status of a run at ``now``; ``grew`` is when a reader last saw it grow."""
    if row.is_unreadable:
        return UNREADABLE
    return derive_status(
        finish=row.ending,
        process=row.process,
        updated=row.updated,
        now=now,
        vanished=row.vanished,
        source=row.source,
        written=row.written,
        grew=grew,
        has_companion=row.has_companion,
    )


def with_status(row: RunRow, status: Status, *, run_id: str | None = None) -> RunRow:
    """The row at a moment: with its status, and with the findings that belong to it."""
    found, diagnosis = row.counts, row.diagnosis
    how = next((how for how in BAD_ENDINGS if how == status.state), None)
    if how is not None and "pid" in (row.process or {}):
        severity = ending_severity(how)
        more = (severity == "error", severity == "warning") * 2
        found = FindingCounts(*map(sum, zip(found or _NOTHING, more, strict=True)))
        diagnosis = with_finding(diagnosis, _ending(row, how, status.reason))
    return msgspec.structs.replace(
        row,
        id=row.id if run_id is None else run_id,
        status=status,
        diagnosis=diagnosis,
        is_partly_watched=is_partly_watched(row, status),
        **(dict.fromkeys(FindingCounts._fields) if found is None else found._asdict()),
    )


def _ending(row: RunRow, how: BadEnding, reason: str | None) -> Record:
    """How a run ended, as far as its row knows; its own records have the advice."""
    finding = ending_finding(
        how,
        run=row.name,
        attempt=row.attempts,
        step=row.step,
        epoch=row.epoch,
        t=row.updated or 0.0,
        reason=reason,
    )
    return replace(finding, advice="").record()


def is_partly_watched(row: RunRow, status: Status) -> bool:
    """Whether more may be found than was recorded: a companion did not see an attempt's end."""
    return row.counts is not None and bool(row.unwatched) and status.state != "running"


def with_set_value(
    row: RunRow, name: str, rank: int, found: Summary | None, *, is_series: bool
) -> Summary | None:
    """A summary with the number that the program set in place of the last value, if it set one.

    ``is_series``: there is a series of this name, so a number alone is none of it.
    """
    value = set_number(row.summary, name) if rank == 0 and row.summary else None
    if value is None:
        return found
    if found is not None:
        return msgspec.structs.replace(found, last=value, last_step=None)
    return None if is_series else set_summary(value)


class TrashedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was deleted and can be restored; times in Unix seconds.

    ``folder`` is where it lies, ``origin`` where it was. ``id`` is the one that it recorded.
    """

    id: str
    name: str
    project: str
    folder: str
    origin: str
    deleted: float


class RunPage(msgspec.Struct, frozen=True):
    """One window of a list of runs; ``total`` counts all that the query selects.

    ``unsummarised`` counts runs of the store of which only identity and status are known.
    """

    runs: list[RunRow]
    total: int
    offset: int = 0
    unsummarised: int = 0


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
