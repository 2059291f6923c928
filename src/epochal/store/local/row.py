"""Makes the row of a run from its files: who it is, how far it came, what was found.

A first list of thousands of runs shows partial rows: identity, configuration and the newest
records. The full row follows. A partial row has no counts of records and findings, and of all
metrics only those of the last records.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from epochal.errors import FormatError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import LOOP, TELEMETRY
from epochal.journal.line import decode
from epochal.journal.process import PROCESS_FIELDS
from epochal.journal.reader import is_newer
from epochal.journal.regular_file import open_regular, regular_only
from epochal.records import ROLE_GUESSES, Record, axis_of, stored_numbers_of, whole_number
from epochal.segments.columns import SeriesKey, seconds
from epochal.store.answers import Labels
from epochal.store.local.findings import ends_nonfinite, found_in, num_unwatched
from epochal.store.local.folder import FolderSource
from epochal.store.local.part import unix_time
from epochal.store.local.run_files import fork_of
from epochal.store.local.source import RunSource
from epochal.store.local.state import RunState
from epochal.store.local.summaries import all_summaries
from epochal.store.metrics import set_number
from epochal.store.projects import BEST_ROLES
from epochal.store.row import RowBasis, RowDetails, RunRow, StoredRow

# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200
# How much of each end of a journal is read at first, and at most if its records are longer.
_END_BYTES = 4096
_OPTION = b'"option"'
_OPTION_BYTES = 8 * 1024 * 1024
_MAX_END_BYTES = 1 << 24
# The last records are looked through for values, this many of them.
_MAX_RECORDS = 3
# By name, which guess it is for which role.
_GUESSES = {
    name: (place, role) for role, names in ROLE_GUESSES.items() for place, name in enumerate(names)
}

# Gives a field of run.json, or of the journal's header where run.json is missing.
FieldOf = Callable[[str], Any]


def names_of(field: FieldOf, labels: Labels, path: str) -> dict[str, Any]:
    """What a run is called; people's labels win over what the run itself recorded."""
    return {
        "name": labels.name or _text(field("name")) or os.path.basename(path),
        "project": _text(field("project")) or os.path.basename(os.path.dirname(path)),
        "tags": _texts(field("tags")) if labels.tags is None else labels.tags,
        "notes": _text(field("notes")) if labels.notes is None else labels.notes,
        **{name: _text(field(name)) for name in ("group", "job_type", "owner")},
    }


def recorded_id(field: FieldOf) -> str | None:
    """The id that a run recorded; None where it has none that can be used."""
    recorded = _text(field("id")) or ""
    return recorded if 0 < len(recorded) <= _MAX_ID else None


def _text(value: Any) -> str | None:
    """A text, or a number as people write it in a name; None for anything else."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if value is None or not isinstance(value, (list, tuple)):
        return ()
    return tuple(text for item in value if (text := _text(item)) is not None)


def make_row(
    names: Mapping[str, Any],
    state: RunState,
    source: RunSource,
    *,
    own_id: str,
    created: float,
    rules: RuleSettings,
) -> tuple[StoredRow, RowDetails]:
    """The row of a run and its summaries, from its parts and from what its folder says of it."""
    problems, finish = source.problems, state.finish
    details = RowDetails(list(state.metrics), {}, state.end(), list(state.set_metrics))
    for (key, rank), summary in all_summaries(state).items():
        details.keep(key.name, key.axis, rank, summary)
    _read_losses(details, state)
    stored = _row(
        names,
        source,
        {
            "id": own_id,
            "created": created,
            "updated": state.updated,
            "attempts": state.attempts,
            "step": state.reached("step"),
            "epoch": state.reached("epoch"),
            "records": state.num_records,
            "damaged": state.num_damaged,
            "summary": state.summary,
            "problem": " ".join(problems) or None,
            "nonfinite": ends_nonfinite(state),
            "fork": fork_of(source.run_json),
        },
        RowBasis(
            is_unreadable=source.is_newer or (not state.num_records and bool(problems)),
            vanished=_vanished(state) if finish is None else None,
            found=found_in(state, rules),
            unwatched=num_unwatched(state),
            has_companion=_has_companion(state),
            is_ended=finish is not None and _have_all_finished(state),
            latest=_latest(details, state),
            lowest=_lowest(details),
        ),
        header=state.header,
        finish=finish,
        config=state.config,
        num_epochs=state.num_epochs,
    )
    return stored, details


def _latest(details: RowDetails, state: RunState) -> dict[str, float | None]:
    """The last values of rank 0 by role, of those that are known without reading points."""
    found: dict[str, float | None] = {}
    for metric in details.metrics:
        known = details.summary(metric.name, metric.axis, 0)
        if metric.role is not None and metric.role not in found and known is not None:
            said = set_number(state.summary, metric.name)
            found[metric.role] = known.last if said is None else said
    return found


def _read_losses(details: RowDetails, state: RunState) -> None:
    """Have the summaries of losses, which lists show, also where their points do not ascend."""
    for metric in details.metrics:
        if metric.role in BEST_ROLES and metric.ranks:
            name, axis, rank = metric.name, metric.axis, metric.ranks[0]
            if details.summary(name, axis, rank) is None:
                with contextlib.suppress(OSError, FormatError):  # the run's problem says so
                    found = state.series(SeriesKey(name, axis), rank).summary
                    details.keep(name, axis, rank, found)


def _lowest(details: RowDetails) -> dict[str, float]:
    """The lowest finite values of losses, by role."""
    found: dict[str, float] = {}
    for role in BEST_ROLES:
        metric = next((m for m in details.metrics if m.role == role and m.ranks), None)
        if metric is not None:
            known = details.summary(metric.name, metric.axis, metric.ranks[0])
            if known is not None and known.min is not None:
                found[role] = known.min
    return found


def _row(
    names: Mapping[str, Any],
    source: RunSource,
    fields: Mapping[str, Any],
    basis: RowBasis,
    *,
    header: Record | None = None,
    finish: Record | None = None,
    config: Mapping[str, Any] | None = None,
    num_epochs: int | None = None,
) -> StoredRow:
    """A row of these fields, and of what run.json, the labels and the last header say."""
    run_json, labels = source.run_json, source.labels
    told = run_json or header or {}
    totals, given = told.get("totals"), told.get("config")
    totals = totals if isinstance(totals, dict) else {}
    process, origin = header or run_json or None, told.get("source")
    if "pid" in (process or {}) or not isinstance(origin, dict):
        origin = None  # of our own, or continued here, whoever began it
    basis.labels = labels
    basis.finish = None if finish is None else chosen_fields(finish, ("status", "reason"))
    basis.process = None if process is None else chosen_fields(process, PROCESS_FIELDS)
    basis.source = None if origin is None else chosen_fields(origin, ("format", "in_place"))
    basis.written = source.journal_written_s
    is_in_place = origin is not None and origin.get("in_place")
    row = RunRow(
        **names,
        folder=str(source.path),
        total_steps=whole_number(totals.get("steps")),
        num_epochs=num_epochs or whole_number(totals.get("epochs")),
        hidden=labels.hidden,
        config={**(given if isinstance(given, dict) else {}), **(config or {})},
        tracker=origin.get("format") if origin is not None and is_in_place else None,
        **fields,
    )
    return StoredRow(row, basis)


def changed_at(path: Path) -> float:
    """When a file or folder was changed last, in Unix seconds; 0 where that cannot be read."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def faulty_row(path: Path, problem: str) -> StoredRow:
    """The row of a run that could not be read at all, known by its path."""
    row = RunRow(
        id=path.name,
        name=path.name,
        project=path.parent.name,
        folder=str(path),
        created=changed_at(path),
        problem=problem,
    )
    return StoredRow(row, RowBasis(is_unreadable=True))


def _vanished(state: RunState) -> str | None:
    """What the companion of the newest attempt said when its process was gone."""
    events = state.entries("event", name="vanished")
    said = [e.record.get("sentence") for e in events if e.position.attempt == state.attempts]
    return said[-1] if said and isinstance(said[-1], str) else None


def _has_companion(state: RunState) -> bool:
    """Whether a companion watches the newest attempt, as far as the files say."""
    lost = state.entries("event", name="companion-lost")
    if any(event.position.attempt == state.attempts for event in lost):
        return False
    return any(
        part.name.attempt == state.attempts and part.name.writer.startswith(TELEMETRY)
        for part in state.parts
    )


def _have_all_finished(state: RunState) -> bool:
    """Whether the last part of each writer of the newest attempt ends with ``finish``."""
    newest = (part for part in state.parts if part.name.attempt == state.attempts)
    last = {part.name.writer: part for part in newest}  # parts come in order
    return all(part.facts.finish is not None for part in last.values())


def chosen_fields(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Some of a record's fields, as far as it has them."""
    return {field: record[field] for field in fields if field in record}


class Ends(NamedTuple):
    """The first record of a journal part, and its last ones, newest first."""

    header: Record
    newest: list[Record]


def partial_row(source: FolderSource, *, own_id: str) -> StoredRow | None:
    """The row as far as identity, options and newest records say it, without reading points.

    None where the journal must be read: the run has no run.json, or some parts are sealed, or the
    newest one is damaged or empty.
    """
    run_json, labels, listing = source.run_json, source.labels, source.listing
    names = names_of(run_json.get, labels, source.place)
    if source.converted is not None and not source.converted.is_current:
        return unread_row(source, own_id=own_id, updated=source.converted.changed)
    created, parts = unix_time(run_json.get("created")), listing.journal
    if created is None or listing.sealed or not source.is_plain:
        return None
    attempts = max((name.attempt for name in parts), default=0)
    newest = {name.writer: name for name in sorted(parts) if name.attempt == attempts}
    main = newest.pop(LOOP, None)
    ends = None if main is None else read_ends(parts[main].path)
    if ends is None:
        return None
    records = ends.newest
    values, reached = _last_values(records), _reached(records)
    loss = values.get("loss")
    finish = records[0] if records and records[0]["log"] == "finish" else None
    times = [t for record in records if math.isfinite(t := seconds(record))]
    return _row(
        names,
        source,
        {
            "id": own_id,
            "created": created,
            "updated": max(times, default=None),
            "attempts": attempts,
            **reached,
            "nonfinite": loss is not None and not math.isfinite(loss),
            "fork": fork_of(run_json),
            "is_partial": True,
        },
        RowBasis(
            has_companion=any(writer.startswith(TELEMETRY) for writer in newest),
            is_ended=finish is not None
            and all(_ends_with_finish(parts[name].path) for name in newest.values()),
            latest=values,
        ),
        header=ends.header,
        finish=finish,
        config=_options(parts[name].path for name in sorted(parts) if name.writer == LOOP),
    )


def unread_row(source: RunSource, *, own_id: str, updated: float) -> StoredRow:
    """The row of a run of which nothing but its identity and labels was read."""
    created = unix_time(source.run_json.get("created")) or updated
    fields = {"id": own_id, "created": created, "updated": updated, "is_partial": True}
    names = names_of(source.run_json.get, source.labels, source.place)
    return _row(names, source, fields, RowBasis())


def _options(paths: Iterable[Path]) -> dict[str, Any]:
    """The options that were set later, from the first megabytes of each part."""
    found: dict[str, Any] = {}
    for path in paths:
        with open(path, "rb", buffering=0, opener=regular_only) as file:
            text = file.read(_OPTION_BYTES)
        at = text.find(_OPTION)
        while at >= 0:
            end = text.find(b"\n", at)
            record = decode(text[text.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(text)])
            if record is not None and record["log"] == "option" and "name" in record:
                found[str(record["name"])] = record.get("value")
            at = text.find(_OPTION, end) if end >= 0 else -1
    return found


def _ends_with_finish(path: Path) -> bool:
    ends = read_ends(path)
    return ends is not None and any(record["log"] == "finish" for record in ends.newest[:1])


def read_ends(path: Path) -> Ends | None:
    """Both ends of a journal part; None where they do not hold whole records.

    The newest records are missing if the last one is longer than anything that is read here.
    """
    try:
        file, size = open_regular(os.fspath(path))
    except OSError:
        return None
    try:
        header = _read_header(file)
        newest: list[Record] = []
        length = _END_BYTES
        while header is not None and not newest and length <= _MAX_END_BYTES:
            start = max(0, size - length)
            tail = os.pread(file, length, start)
            if b"\0" in tail:
                return None
            newest = _newest_records(tail, is_whole=start == 0)
            length = length * 16 if start else _MAX_END_BYTES + 1
    except OSError:
        return None
    finally:
        os.close(file)
    if header is None or is_newer(header) or (not newest and size <= _MAX_END_BYTES):
        return None
    return Ends(header, newest)


def _read_header(file: int) -> Record | None:
    """The first record of a part, which has the configuration of the run."""
    length = _END_BYTES
    while length <= _MAX_END_BYTES:
        head = os.pread(file, length, 0)
        first, newline, _ = head.partition(b"\n")
        if newline or len(head) < length:
            return decode(first) if newline else None
        length *= 16
    return None


def _newest_records(tail: bytes, *, is_whole: bool) -> list[Record]:
    """The last records of a part, newest first."""
    # The first line of a tail has lost its beginning.
    lowest, end = 0 if is_whole else tail.find(b"\n") + 1, tail.rfind(b"\n")
    newest: list[Record] = []
    num_counted = 0
    while end > lowest and num_counted < _MAX_RECORDS:
        begin = tail.rfind(b"\n", lowest, end) + 1 or lowest
        record = decode(tail[begin:end])
        end = begin - 1
        if record is None:
            num_counted += 1
            continue
        newest.append(record)
        num_counted += record["log"] != "summary"  # often many, behind the last values
    return newest


def _reached(records: list[Record]) -> dict[str, int | None]:
    """The highest step and epoch of the records on these axes."""
    found: dict[str, int | None] = {"step": None, "epoch": None}
    for record in records:
        axis = axis_of(record)
        at = whole_number(record.get(axis)) if axis in found else None
        if at is not None:
            before = found[axis]
            found[axis] = at if before is None else max(at, before)
    return found


def _last_values(records: list[Record]) -> dict[str, float | None]:
    """The values of the newest record that has any of a role, as far as a name alone tells it."""
    set_values = _set_values(records)
    for record in records:
        if axis_of(record) not in ("step", "epoch"):
            continue
        try:
            numbers = _plain_numbers(record) or dict(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            continue
        if set_values:
            numbers = {**numbers, **set_values}
        found = sorted((_GUESSES[name], name) for name in numbers if name in _GUESSES)
        if found:
            # The first guess of a role goes before the others, as in the whole row.
            return {role: numbers[name] for (_, role), name in reversed(found)}
    return {}


def _plain_numbers(record: Record) -> dict[str, float] | None:
    """The numbers of a record that has nothing else; None for any other."""
    numbers = record.get("m")
    if record["log"] != "metrics" or len(record) != 4 or type(numbers) is not dict:
        return None
    return numbers if "step" in record and set(map(type, numbers.values())) == {float} else None


def _set_values(records: list[Record]) -> dict[str, float]:
    """The numbers that the program set as its summary, as far as these records say."""
    values: dict[str, Any] = {}
    if not any(record["log"] == "summary" for record in records):
        return {}
    for record in records:  # newest first
        name = record.get("name")
        if record["log"] == "summary" and isinstance(name, str):
            values.setdefault(name, record.get("value"))
    return {name: value for name in values if (value := set_number(values, name)) is not None}
