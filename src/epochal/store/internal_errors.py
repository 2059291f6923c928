"""Faults of Epochal itself in one run: those that were recorded, and those met in reading it."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.guard import Fault
from epochal.records import Position, Record
from epochal.store.answers import Entry
from epochal.store.entries import by_time, entries_of
from epochal.store.state import RunState

EVENT = "internal-error"
COUNTS = "internal-errors"
_WRITER = "reader"


def recorded_errors(state: RunState) -> list[Entry]:
    """The first fault of each member by the process that saw it, with how often it came."""
    events = by_time(entries_of(state, ("event",), name=EVENT, rank=None))
    counts = _counts(entries_of(state, ("event",), name=COUNTS, rank=None))
    return [Entry(entry.position, entry.rank, _counted(entry, counts)) for entry in events]


def met_errors(faults: Iterable[Fault], *, now: float) -> list[Entry]:
    """Faults of members that read the run here, in the form of their events."""
    return [
        Entry(
            Position(_WRITER, 0, 0, place),
            0,
            {"log": "event", "t": now, "name": EVENT, **fault.fields(), "count": fault.count},
        )
        for place, fault in enumerate(faults)
    ]


def _counts(entries: Iterable[Entry]) -> dict[tuple[str, int, str], int]:
    found: dict[tuple[str, int, str], int] = {}
    for entry in entries:
        counts = entry.record.get("counts")
        for member, count in counts.items() if isinstance(counts, dict) else ():
            if isinstance(count, int):
                found[entry.position.writer, entry.position.attempt, str(member)] = count
    return found


def _counted(entry: Entry, counts: dict[tuple[str, int, str], int]) -> Record:
    key = (entry.position.writer, entry.position.attempt, str(entry.record.get("member")))
    return {**entry.record, "count": counts.get(key, 1)}
