"""Finds the records of a kind in the parts of a run: those that no later record replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from epochal.errors import UsageError
from epochal.guard import Fault
from epochal.records import DENSE_KINDS, KINDS, Axis, Position, Record
from epochal.store.answers import Entry, by_time
from epochal.store.local.columns import NO_STEP
from epochal.store.local.part import Part, Place
from epochal.store.local.state import RunState

EVENT = "internal-error"
COUNTS = "internal-errors"
_WRITER = "reader"


class _Candidate(NamedTuple):
    """The place of a record, and the part that holds it."""

    place: Place
    part: Part


def entries_of(
    state: RunState, kinds: Iterable[str], *, name: str | None, rank: int | None
) -> list[Entry]:
    """Records of these kinds that no later one replaced, by step, then by time."""
    wanted = tuple(kinds)
    dense = DENSE_KINDS.intersection(wanted)
    if dense:
        raise UsageError(
            f"{', '.join(sorted(dense))} records are series: ask series() or records()."
        )
    found = [item for kind in wanted for item in _found(state, kind, name=name, rank=rank)]
    found.sort(key=lambda item: (item[0].place.at, item[0].place.t))
    return [entry for _, entry in found]


def _found(
    state: RunState, kind: str, *, name: str | None, rank: int | None
) -> Iterator[tuple[_Candidate, Entry]]:
    axis: Axis = KINDS[kind].axis if kind in KINDS else "step"
    candidates = [
        _Candidate(place, part)
        for part in state.parts
        if rank in (None, part.facts.origin.rank)
        for place in part.places(kind, label=name)
    ]
    by_part: dict[int, tuple[Part, list[_Candidate]]] = {}
    for candidate in _standing(candidates, axis=axis, cuts=state.cuts(axis)):
        by_part.setdefault(id(candidate.part), (candidate.part, []))[1].append(candidate)
    for part, chosen in by_part.values():
        records = part.read(kind, [candidate.place for candidate in chosen])
        for candidate, record in zip(chosen, records, strict=True):
            position = Position(*part.name, candidate.place.ordinal)
            yield candidate, Entry(position, candidate.place.origin.rank, record)


def _standing(
    candidates: Iterable[_Candidate], *, axis: Axis, cuts: Mapping[int, int]
) -> list[_Candidate]:
    """The records of one kind that count: not hidden by a newer attempt, nor replaced at a step."""
    chosen = sorted(candidates, key=lambda c: (not c.place.origin.is_child, c.place.origin.attempt))
    if axis not in ("step", "epoch"):
        return chosen
    last: dict[object, _Candidate] = {}
    for candidate in chosen:
        place = candidate.place
        cut = cuts.get(place.origin.attempt)
        if cut is None or place.at < cut:
            known = place.at != NO_STEP
            key = (place.origin.rank, place.label, place.at) if known else id(candidate)
            last[key] = candidate
    return list(last.values())


def recorded_errors(state: RunState) -> list[Entry]:
    """The first fault of each member by the process that saw it, with how often it came."""
    events = by_time(entries_of(state, ("event",), name=EVENT, rank=None))
    counts = _counts(entries_of(state, ("event",), name=COUNTS, rank=None))
    return [Entry(entry.position, entry.rank, _counted(entry, counts)) for entry in events]


def met_errors(*faults: Fault | None, now: float) -> list[Entry]:
    """Faults of members that read the run here, in the form of their events; None is no fault."""
    return [
        Entry(
            Position(_WRITER, 0, 0, place),
            0,
            {"log": "event", "t": now, "name": EVENT, **fault.fields(), "count": fault.count},
        )
        for place, fault in enumerate(filter(None, faults))
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
