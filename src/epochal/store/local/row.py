"""Makes the row of a run from its files: what it carries, else what was folded or read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from epochal.errors import FormatError
from epochal.journal.facts import unix_time
from epochal.journal.layout import LOOP, TELEMETRY
from epochal.journal.process import PROCESS_FIELDS, read_header
from epochal.journal.reader import records_from_end
from epochal.journal.row import RunRow
from epochal.journal.summaries import chosen_fields, fork_of, names_of, recorded_id
from epochal.records import whole_number
from epochal.store.local.folder import FolderSource

# How much of the end of a journal is read.
_END_BYTES = 16 * 1024


def completed(row: RunRow, source: FolderSource, problems: Sequence[str]) -> RunRow:
    """A row with what only the reader of a folder knows: where it lies, and what people set."""
    labels = source.labels
    is_in_place = row.source is not None and row.source.get("in_place")
    return msgspec.structs.replace(
        row,
        folder=str(source.path),
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
    header, finish, updated = {}, None, None
    if LOOP in newest:
        path = parts[newest[LOOP]].path
        header = read_header(path)
        try:
            last = next(iter(records_from_end(path, most_bytes=_END_BYTES)), None)
        except (OSError, FormatError):  # sealed meanwhile
            last = None
        finish = last if last is not None and last["log"] == "finish" else None
        updated = None if last is None else unix_time(last.get("t"))
    converted = source.converted
    if converted is not None and not converted.is_current:
        updated = converted.changed  # nothing else is known before it is converted
    told: Mapping[str, object] = run_json or header
    created = unix_time(told.get("created"))
    config, totals = told.get("config"), told.get("totals")
    totals = totals if isinstance(totals, dict) else {}
    process, origin = header or run_json or None, told.get("source")
    is_other = "pid" not in (process or {}) and isinstance(origin, dict)
    row = RunRow(
        **names_of(told.get, source.place),
        id=recorded_id(told.get) or source.path.name,
        created=updated if created is None and converted is not None else created,
        updated=updated,
        attempts=attempts,
        total_steps=whole_number(totals.get("steps")),
        num_epochs=whole_number(totals.get("epochs")),
        config=config if isinstance(config, dict) else {},
        fork=fork_of(run_json),
        process=None if process is None else chosen_fields(process, PROCESS_FIELDS),
        ending=None if finish is None else chosen_fields(finish, ("status", "reason")),
        source=chosen_fields(origin, ("format", "in_place"))
        if is_other and isinstance(origin, dict)
        else None,
        has_companion=any(writer.startswith(TELEMETRY) for writer in newest),
        is_summarised=False,
    )
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
