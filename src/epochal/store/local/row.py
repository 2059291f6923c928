"""Makes the row of a run from its files: who it is, how far it came, what was found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import TELEMETRY
from epochal.journal.reader import JOURNAL_SHORTENED
from epochal.records import Record
from epochal.store.answers import NO_LABELS, Fork, Labels
from epochal.store.local.columns import whole_number
from epochal.store.local.entries import entries_of
from epochal.store.local.findings import ends_nonfinite, found_in, num_unwatched
from epochal.store.local.fork import PROCESS_FIELDS, fork_of
from epochal.store.local.small import SmallJournal
from epochal.store.local.source import RunSource
from epochal.store.local.state import RunState
from epochal.store.row import Row

# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200

# Gives a field of run.json, or of the journal's header where run.json is missing.
FieldOf = Callable[[str], Any]


class Names(NamedTuple):
    """What a run is called by itself and by people; see ``RunInfo``."""

    name: str
    project: str
    tags: tuple[str, ...]
    notes: str | None
    group: str | None
    job_type: str | None
    owner: str | None


def names_of(field: FieldOf, labels: Labels, path: str) -> Names:
    """A run's names; people's labels win over what the run itself recorded."""
    return Names(
        labels.name or _text(field("name")) or os.path.basename(path),
        _text(field("project")) or os.path.basename(os.path.dirname(path)),
        _texts(field("tags")) if labels.tags is None else labels.tags,
        _text(field("notes")) if labels.notes is None else labels.notes,
        _text(field("group")),
        _text(field("job_type")),
        _text(field("owner")),
    )


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
    names: Names,
    state: RunState,
    source: RunSource,
    *,
    own_id: str,
    created: float,
    labels: Labels,
    rules: RuleSettings,
) -> Row:
    """The row of a run, from its parts and from what its source says of it."""
    problems, finish = source.problems, state.finish
    return _row(
        names,
        source,
        header=state.header,
        finish=finish,
        config=state.config,
        num_epochs=state.num_epochs,
        id=own_id,
        created=created,
        labels=labels,
        updated=state.updated,
        attempts=state.attempts,
        step=state.reached("step"),
        epoch=state.reached("epoch"),
        records=state.num_records,
        damaged=state.num_damaged,
        summary_set=state.summary,
        problem=" ".join(_with_losses(state, problems)) or None,
        is_unreadable=source.is_newer or (not state.num_records and bool(problems)),
        vanished=_vanished(state) if finish is None else None,
        found=found_in(state, rules),
        fork=_fork(source.run_json or state.header or {}, state),
        nonfinite=ends_nonfinite(state),
        unwatched=num_unwatched(state),
        has_companion=_has_companion(state),
        is_ended=finish is not None and _have_all_finished(state),
    ).with_details(state.metrics, state.end())


def _fork(told: Mapping[str, Any], state: RunState) -> Fork | None:
    fork = fork_of(told)
    return None if fork is None else replace(fork, is_kept=state.has_kept_history)


def small_row(
    names: Names,
    small: SmallJournal,
    source: RunSource,
    *,
    own_id: str,
    created: float,
    labels: Labels,
) -> Row:
    """The same row for a small run that has ended, with all summaries."""
    facts = small.facts
    row = _row(
        names,
        source,
        header=facts.header,
        finish=facts.finish,
        config=facts.config,
        num_epochs=None,
        id=own_id,
        created=created,
        labels=labels,
        updated=facts.updated,
        attempts=facts.name.attempt,
        step=facts.reached.get("step"),
        epoch=None,
        records=facts.num_records,
        damaged=0,
        problem=None,
        is_unreadable=False,
        vanished=None,
        found=None,
        nonfinite=False,  # such a number is no part of a column
        unwatched=facts.num_records,
        has_companion=False,
        is_ended=True,
        latest={},
    ).with_details(list(small.metrics), small.end)
    for metric, summary in zip(small.metrics, small.summaries, strict=True):
        row.keep(metric.name, metric.axis, 0, summary)
        if metric.role is not None:
            row.latest.setdefault(metric.role, summary.last)
    return row


def _row(
    names: Names,
    source: RunSource,
    *,
    header: Record | None,
    finish: Record | None,
    config: Mapping[str, Any],
    num_epochs: int | None,
    labels: Labels,
    **known: Any,
) -> Row:
    """A row of these fields, and of what its source and its last header say."""
    run_json = source.run_json
    told = run_json or header or {}
    totals, given = told.get("totals"), told.get("config")
    totals = totals if isinstance(totals, dict) else {}
    process, origin = header or run_json or None, told.get("source")
    if "pid" in (process or {}):  # taken up again here, whoever began it
        origin = None
    return Row(
        name=names.name,
        project=names.project,
        total_steps=whole_number(totals.get("steps")),
        num_epochs=num_epochs or whole_number(totals.get("epochs")),
        tags=names.tags,
        notes=names.notes if isinstance(names.notes, str) else None,
        config={**(given if isinstance(given, dict) else {}), **config},
        finish=None if finish is None else chosen_fields(finish, ("status", "reason")),
        process=None if process is None else chosen_fields(process, PROCESS_FIELDS),
        source=chosen_fields(origin, ("format", "in_place")) if isinstance(origin, dict) else None,
        group=names.group,
        job_type=names.job_type,
        owner=names.owner,
        written=source.journal_written_s,
        labels_set=None if labels is NO_LABELS else labels,
        **known,
    )


def changed_at(path: Path) -> float:
    """When a file or folder was changed last, in Unix seconds; 0 where that cannot be read."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def faulty_row(path: Path, problem: str) -> Row:
    """The row of a run that could not be read at all, known by its path."""
    return Row(
        id=path.name,
        name=path.name,
        project=path.parent.name,
        created=changed_at(path),
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
        labels_set=None,
        config={},
        problem=problem,
        is_unreadable=True,
        finish=None,
        process=None,
        vanished=None,
        source=None,
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


def _have_all_finished(state: RunState) -> bool:
    """Whether the last part of each writer of the newest attempt ends with ``finish``."""
    newest = (part for part in state.parts if part.name.attempt == state.attempts)
    last = {part.name.writer: part for part in newest}  # parts come in order
    return all(part.facts.finish is not None for part in last.values())


def chosen_fields(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Some of a record's fields, as far as it has them."""
    return {field: record[field] for field in fields if field in record}
