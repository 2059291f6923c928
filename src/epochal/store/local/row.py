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
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import FormatError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.facts import SeriesKey, unix_time
from epochal.journal.layout import LOOP, TELEMETRY
from epochal.journal.line import decode
from epochal.journal.metrics import set_number
from epochal.journal.process import PROCESS_FIELDS, read_header
from epochal.journal.reader import is_newer, records_from_end
from epochal.journal.regular_file import regular_only
from epochal.journal.row import Labels
from epochal.journal.segments.columns import seconds
from epochal.journal.state import RunState, all_summaries
from epochal.records import ROLE_GUESSES, Axis, Record, axis_of, stored_numbers_of, whole_number
from epochal.series.summary import Summary, set_summary
from epochal.store.local.findings import found_in, num_unwatched
from epochal.store.local.folder import FolderSource
from epochal.store.local.run_files import fork_of
from epochal.store.projects import BEST_ROLES
from epochal.store.row import RowBasis, RowDetails, RunRow, StoredRow

# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200
# How much of the end of a journal is read.
_END_BYTES = 16 * 1024
_OPTION = b'"option"'
_OPTION_BYTES = 8 * 1024 * 1024
# The last records are looked through for values, this many of them: summaries may be behind those.
_MAX_RECORDS = 12
_AXES: tuple[Axis, ...] = ("step", "epoch", "time")
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
    source: FolderSource,
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
    losses = _losses(details, state)
    last_loss = losses["loss"].last if "loss" in losses else None
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
            "nonfinite": last_loss is not None and not math.isfinite(last_loss),
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
            lowest={role: one.min for role, one in losses.items() if one.min is not None},
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


def _losses(details: RowDetails, state: RunState) -> dict[str, Summary]:
    """The summaries of losses by role, which lists show, also where points do not ascend."""
    found: dict[str, Summary] = {}
    for metric in details.metrics:
        if metric.role in BEST_ROLES and metric.role not in found and metric.ranks:
            name, axis, rank = metric.name, metric.axis, metric.ranks[0]
            known = details.summary(name, axis, rank)
            if known is None:
                with contextlib.suppress(OSError, FormatError):  # the run's problem says so
                    known = state.series(SeriesKey(name, axis), rank).summary
                    details.keep(name, axis, rank, known)
            if known is not None:
                found[metric.role] = known
    return found


def _row(
    names: Mapping[str, Any],
    source: FolderSource,
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
    basis.written = source.listing.journal_written_s
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


def partial_row(source: FolderSource, *, own_id: str) -> StoredRow | None:
    """The row as far as identity, options and newest records say it, without reading points.

    None where the journal must be read: the run has no run.json, or some parts are sealed, or the
    newest one is damaged or empty.
    """
    run_json, listing = source.run_json, source.listing
    created, parts = unix_time(run_json.get("created")), listing.journal
    if source.converted is not None and not source.converted.is_current:
        updated = source.converted.changed  # nothing else is known before it is converted
        fields = {"id": own_id, "created": created or updated, "updated": updated}
        names = names_of(run_json.get, source.labels, source.place)
        return _row(names, source, {**fields, "is_partial": True}, RowBasis())
    if created is None or listing.sealed or not source.is_plain:
        return None
    attempts = max((name.attempt for name in parts), default=0)
    newest = {name.writer: name for name in sorted(parts) if name.attempt == attempts}
    header = read_header(parts[newest[LOOP]].path) if LOOP in newest else {}
    if not header or is_newer(header):
        return None
    last = records_from_end(parts[newest[LOOP]].path, most_bytes=_END_BYTES)
    try:
        records = list(islice(last, _MAX_RECORDS))
    except OSError:  # sealed meanwhile
        return None
    values = _last_values(records)
    loss, times = values.get("loss"), [t for r in records if math.isfinite(t := seconds(r))]
    return _row(
        names_of(run_json.get, source.labels, source.place),
        source,
        {
            "id": own_id,
            "created": created,
            "updated": max(times, default=None),
            "attempts": attempts,
            "step": _reached(records, "step"),
            "epoch": _reached(records, "epoch"),
            "nonfinite": loss is not None and not math.isfinite(loss),
            "fork": fork_of(run_json),
            "is_partial": True,
        },
        RowBasis(
            has_companion=any(writer.startswith(TELEMETRY) for writer in newest), latest=values
        ),
        header=header,
        finish=records[0] if records and records[0]["log"] == "finish" else None,
        config=_options(parts[name].path for name in sorted(parts) if name.writer == LOOP),
    )


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


def _reached(records: list[Record], axis: Axis) -> int | None:
    """The highest step or epoch of the records on this axis."""
    found = (whole_number(record.get(axis)) for record in records if axis_of(record) == axis)
    return max((at for at in found if at is not None), default=None)


def _last_values(records: list[Record]) -> dict[str, float | None]:
    """The values of the newest record that has any of a role, as far as a name alone tells it."""
    values: dict[str, Any] = {}
    for one in records[::-1]:
        if one["log"] == "summary" and isinstance(one.get("name"), str):
            values[one["name"]] = one.get("value")
    for record in records:
        if axis_of(record) not in ("step", "epoch"):
            continue
        try:
            numbers = dict(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            continue
        for name in numbers.keys() & values.keys():
            said = set_number(values, name)
            numbers[name] = numbers[name] if said is None else said
        found = sorted((_GUESSES[name], name) for name in numbers if name in _GUESSES)
        if found:
            # The first guess of a role goes before the others, as in the whole row.
            return {role: numbers[name] for (_, role), name in reversed(found)}
    return {}


def known_summary(
    stored: StoredRow, details: RowDetails, name: str, rank: int, axis: Axis | None
) -> Summary | None:
    """A summary that is known without reading points; None for any other.

    A number that the program set replaces the last value that was logged.
    """
    axes = _AXES if axis is None else (axis,)
    found = next((s for on in axes if (s := details.summary(name, on, rank)) is not None), None)
    values = stored.row.summary
    value = set_number(values, name) if rank == 0 and values else None
    if value is None:
        return found
    if found is not None:
        return msgspec.structs.replace(found, last=value, last_step=None)
    has_series = any(metric.name == name for metric in details.metrics)
    return set_summary(value) if axis in (None, "none") and not has_series else None
