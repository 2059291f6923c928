"""Finds records in the parts of a run: those of a kind that stand, or all in file order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from epochal.errors import UsageError
from epochal.guard import Fault
from epochal.records import DENSE_KINDS, KINDS, Axis, Position, Record
from epochal.store.answers import Entry
from epochal.store.local.part import Part
from epochal.store.local.record_index import Candidate, standing
from epochal.store.local.state import RunState

EVENT = "internal-error"
COUNTS = "internal-errors"
_WRITER = "reader"


def entries_of(
    state: RunState, kinds: Iterable[str], *, name: str | None, rank: int | None
) -> list[Entry]:
    """Records of these kinds that stand, in the order of steps, then of time."""
    wanted = tuple(kinds)
    dense = DENSE_KINDS.intersection(wanted)
    if dense:
        raise UsageError(
            f"{', '.join(sorted(dense))} records are series: ask series() or records()."
        )
    found = [item for kind in wanted for item in _standing(state, kind, name=name, rank=rank)]
    found.sort(key=lambda item: (item[0].place.at, item[0].place.t))
    return [entry for _, entry in found]


def by_time(entries: Iterable[Entry]) -> list[Entry]:
    """The same entries, the oldest first."""
    return sorted(entries, key=lambda entry: entry.t or 0.0)


def _standing(
    state: RunState, kind: str, *, name: str | None, rank: int | None
) -> Iterator[tuple[Candidate, Entry]]:
    axis: Axis = KINDS[kind].axis if kind in KINDS else "step"
    candidates = [
        Candidate(place, part, kind)
        for part in state.parts
        if rank in (None, part.facts.origin.rank)
        for place in part.places(kind, label=name)
    ]
    by_part: dict[int, tuple[Part, list[Candidate]]] = {}
    for candidate in standing(candidates, axis=axis, cuts=state.cuts(axis)):
        by_part.setdefault(id(candidate.part), (candidate.part, []))[1].append(candidate)
    for part, chosen in by_part.values():
        records = part.read(kind, [candidate.place for candidate in chosen])
        for candidate, record in zip(chosen, records, strict=True):
            position = Position(*part.name, candidate.place.ordinal)
            yield candidate, Entry(position, candidate.place.origin.rank, record)


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
