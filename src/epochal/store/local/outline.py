"""Makes the row of a run from its identity and its newest records, without reading its journal.

A first list of thousands of runs shows this; the whole row follows. What only the whole journal
says is missing: counts of records and findings, all metrics but the ones of the last records.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from epochal.journal.layout import LOOP, TELEMETRY
from epochal.journal.line import decode
from epochal.journal.reader import is_newer
from epochal.journal.regular_file import open_regular
from epochal.records import ROLE_GUESSES, Record, axis_of, stored_numbers_of
from epochal.store.answers import NO_LABELS, Labels
from epochal.store.local.columns import seconds, unix_time, whole_number
from epochal.store.local.fork import PROCESS_FIELDS, fork_of
from epochal.store.local.listing import Listing
from epochal.store.local.row import chosen_fields, names_of
from epochal.store.metrics import set_number
from epochal.store.row import Row

_HEAD_BYTES = 4096
_TAIL_BYTES = 4096
# The last records are looked through for values, this many of them.
_MAX_RECORDS = 3


# By name, which guess it is for which role.
_GUESSES = {
    name: (place, role) for role, names in ROLE_GUESSES.items() for place, name in enumerate(names)
}


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
    names = names_of(run_json.get, labels, place)
    totals, config, origin = run_json.get("totals"), run_json.get("config"), run_json.get("source")
    totals = totals if isinstance(totals, dict) else {}
    finish = newest[0] if newest and newest[0]["log"] == "finish" else None
    times = [t for record in newest if math.isfinite(t := seconds(record))]
    is_ours = "pid" in header
    return Row(
        id=own_id,
        name=names.name,
        project=names.project,
        created=created,
        updated=max(times, default=None),
        attempts=main.attempt,
        step=reached["step"],
        epoch=reached["epoch"],
        total_steps=whole_number(totals.get("steps")),
        num_epochs=whole_number(totals.get("epochs")),
        records=0,
        damaged=0,
        tags=names.tags,
        notes=names.notes,
        group=names.group,
        job_type=names.job_type,
        owner=names.owner,
        fork=fork_of(run_json) if "fork" in run_json else None,
        labels_set=None if labels is NO_LABELS else labels,
        config=config if isinstance(config, dict) else {},
        problem=None,
        is_unreadable=False,
        finish=None if finish is None else chosen_fields(finish, ("status", "reason")),
        process=chosen_fields(header, PROCESS_FIELDS),
        vanished=None,
        source=chosen_fields(origin, ("format", "in_place"))
        if isinstance(origin, dict) and not is_ours
        else None,
        found=None,
        nonfinite=loss is not None and not math.isfinite(loss),
        unwatched=0,
        written=listing.journal_written_s,
        has_companion=main.has_companion,
        latest=values,
        is_partial=True,
    )


class _MainPart(NamedTuple):
    """The newest part of rank 0, and whether a companion writes beside it."""

    path: str
    attempt: int
    has_companion: bool


def _main_part(listing: Listing) -> _MainPart | None:
    only = listing.only_part()
    if only is not None:
        name, path, _ = only
        return _MainPart(path, name.attempt, has_companion=False) if name.writer == LOOP else None
    attempts = max((name.attempt for name in (*listing.journal, *listing.sealed)), default=0)
    parts = {n: found for n, found in listing.journal.items() if n.attempt == attempts}
    main = max((name for name in parts if name.writer == LOOP), default=None)
    if main is None or main in listing.sealed:
        return None
    has_companion = any(name.writer.startswith(TELEMETRY) for name in parts)
    return _MainPart(str(parts[main].path), attempts, has_companion)


def read_ends(path: str) -> Ends | None:
    """Both ends of a journal part; None where they do not hold whole records."""
    try:
        file, size = open_regular(path)
        try:
            start = max(0, size - _TAIL_BYTES)
            tail = os.pread(file, _TAIL_BYTES, start)
            head = tail if not start else os.pread(file, _HEAD_BYTES, 0)
        finally:
            os.close(file)
        first, newline, _ = head.partition(b"\n")
        header = decode(first) if newline else None
        if header is None or b"\0" in tail:
            return None
    except OSError:
        return None
    if is_newer(header):
        return None
    # The first line of a tail has lost its beginning.
    lowest, end = tail.find(b"\n") + 1 if start else 0, tail.rfind(b"\n")
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
    return Ends(header, newest) if newest else None


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
