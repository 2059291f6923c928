"""Makes the row of a run from its files: who it is, how far it came, what was found.

A first list of thousands of runs shows outlines: rows of the identity and the newest records. The
whole row follows. An outline has no counts of records and findings, and of all metrics only those
of the last records.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import LOOP, TELEMETRY
from epochal.journal.line import decode
from epochal.journal.process import PROCESS_FIELDS
from epochal.journal.reader import JOURNAL_SHORTENED, is_newer
from epochal.journal.regular_file import open_regular
from epochal.records import ROLE_GUESSES, Position, Record, axis_of, stored_numbers_of, whole_number
from epochal.store.answers import NO_LABELS, Labels
from epochal.store.local.columns import seconds, unix_time
from epochal.store.local.findings import ends_nonfinite, found_in, num_unwatched
from epochal.store.local.listing import Listing
from epochal.store.local.run_files import fork_of
from epochal.store.local.small import SmallPart
from epochal.store.local.state import RunState
from epochal.store.metrics import set_number
from epochal.store.row import Row

if TYPE_CHECKING:
    from epochal.store.local.folder import FolderSource

# Longer than any id that was ever made here; links and positions have to hold it.
_MAX_ID = 200
# How much of each end of a journal is read at first, and at most if its records are longer.
_END_BYTES = 4096
_MAX_END_BYTES = 1 << 24
# The last records are looked through for values, this many of them.
_MAX_RECORDS = 3
# By name, which guess it is for which role.
_GUESSES = {
    name: (place, role) for role, names in ROLE_GUESSES.items() for place, name in enumerate(names)
}

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
    source: FolderSource,
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
        source.run_json,
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
        fork=fork_of(source.run_json),
        nonfinite=ends_nonfinite(state),
        unwatched=num_unwatched(state),
        written=source.journal_written_s,
        has_companion=_has_companion(state),
        is_ended=finish is not None and _have_all_finished(state),
    ).with_details(state.metrics, state.end(), state.set_metrics)


def small_row(
    names: Names,
    small: SmallPart,
    source: FolderSource,
    *,
    own_id: str,
    created: float,
    labels: Labels,
) -> Row:
    """The same row for a small run whose only part has nothing but numbers, with all summaries."""
    facts, metrics = small.facts, small.metrics
    row = _row(
        names,
        source.run_json,
        header=facts.header,
        finish=facts.finish,
        config=facts.config,
        id=own_id,
        created=created,
        labels=labels,
        updated=facts.updated,
        attempts=facts.name.attempt,
        step=facts.reached.get("step"),
        records=facts.num_records,
        written=source.journal_written_s,
        nonfinite=False,  # such a number is no part of a column
        unwatched=facts.num_records,
        is_ended=True,
    ).with_details(list(metrics), {LOOP: Position(*facts.name, facts.num_records - 1)})
    for metric, summary in zip(metrics, small.summaries, strict=True):
        row.keep(metric.name, metric.axis, 0, summary)
        if metric.role is not None:
            row.latest.setdefault(metric.role, summary.last)
    return row


def _row(
    names: Names,
    run_json: Mapping[str, Any],
    *,
    labels: Labels,
    header: Record | None = None,
    finish: Record | None = None,
    config: Mapping[str, Any] | None = None,
    num_epochs: int | None = None,
    **known: Any,
) -> Row:
    """A row of these fields, and of what run.json and the last header say."""
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
        config={**(given if isinstance(given, dict) else {}), **(config or {})},
        finish=None if finish is None else chosen_fields(finish, ("status", "reason")),
        process=None if process is None else chosen_fields(process, PROCESS_FIELDS),
        source=chosen_fields(origin, ("format", "in_place")) if isinstance(origin, dict) else None,
        group=names.group,
        job_type=names.job_type,
        owner=names.owner,
        labels_set=None if labels is NO_LABELS else labels,
        **known,
    )


def identity_row(
    run_json: Mapping[str, Any], labels: Labels, *, own_id: str, place: str, updated: float | None
) -> Row:
    """The row of a run of which only run.json and labels are here."""
    return _partial_row(
        run_json,
        labels,
        own_id=own_id,
        place=place,
        created=unix_time(run_json.get("created")) or updated or 0.0,
        updated=updated,
        written=updated,
    )


def _partial_row(
    run_json: Mapping[str, Any], labels: Labels, *, own_id: str, place: str, **known: Any
) -> Row:
    """A row of what is ``known`` without reading the journal."""
    return _row(
        names_of(run_json.get, labels, place),
        run_json,
        labels=labels,
        id=own_id,
        fork=fork_of(run_json),
        is_partial=True,
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
        problem=problem,
        is_unreadable=True,
    )


def _with_losses(state: RunState, problems: Sequence[str]) -> list[str]:
    """The problems, and what a companion saw go from the journal; each file's loss once."""
    events = state.entries("event", name=JOURNAL_SHORTENED)
    seen = {str(event.record.get("sentence")) for event in events}
    files = {sentence.partition(" ")[0] for sentence in seen}
    own = [p for p in problems if "became shorter" not in p or p.partition(" ")[0] not in files]
    return [*own, *sorted(seen)]


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


def outline_row(
    listing: Listing, run_json: Mapping[str, Any], labels: Labels, *, own_id: str, place: str
) -> Row | None:
    """The row as far as identity and newest records say it; None where the journal must be read.

    That is so for a run without run.json, or whose newest part is sealed, damaged or empty.
    """
    created = unix_time(run_json.get("created"))
    main = None if created is None or listing.problem is not None else _main_part(listing)
    ends = None if main is None else read_ends(main.path)
    if created is None or main is None or ends is None:
        return None
    header, newest = ends
    values, reached = _last_values(newest), _reached(newest)
    loss = values.get("loss")
    finish = newest[0] if newest and newest[0]["log"] == "finish" else None
    times = [t for record in newest if math.isfinite(t := seconds(record))]
    return _partial_row(
        run_json,
        labels,
        own_id=own_id,
        place=place,
        header=header,
        finish=finish,
        created=created,
        updated=max(times, default=None),
        attempts=main.attempt,
        step=reached["step"],
        epoch=reached["epoch"],
        nonfinite=loss is not None and not math.isfinite(loss),
        written=listing.journal_written_s,
        has_companion=main.has_companion,
        latest=values,
        is_ended=finish is not None and all(map(_ends_with_finish, main.beside)),
    )


def _ends_with_finish(path: str) -> bool:
    ends = read_ends(path)
    return ends is not None and any(record["log"] == "finish" for record in ends.newest[:1])


class _MainPart(NamedTuple):
    """The newest part of rank 0, and those of other writers beside it."""

    path: str
    attempt: int
    has_companion: bool
    beside: Sequence[str] = ()


def _main_part(listing: Listing) -> _MainPart | None:
    plain = listing.plain_parts()
    if plain is not None and len(plain) == 1:
        [(name, path, _)] = plain
        return _MainPart(path, name.attempt, has_companion=False) if name.writer == LOOP else None
    attempts = max((name.attempt for name in (*listing.journal, *listing.sealed)), default=0)
    parts = {n: found for n, found in listing.journal.items() if n.attempt == attempts}
    main = max((name for name in parts if name.writer == LOOP), default=None)
    if main is None or main in listing.sealed:
        return None
    has_companion = any(name.writer.startswith(TELEMETRY) for name in parts)
    last = {name.writer: parts[name] for name in sorted(parts) if name.writer != LOOP}
    return _MainPart(
        str(parts[main].path), attempts, has_companion, [str(part.path) for part in last.values()]
    )


def read_ends(path: str) -> Ends | None:
    """Both ends of a journal part; None where they do not hold whole records.

    The newest records are missing if the last one is longer than anything that is read here.
    """
    try:
        file, size = open_regular(path)
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
