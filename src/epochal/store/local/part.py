"""The protocol of a part of a run, and what counts where several parts say the same.

A part is a growing journal, a sealed segment or an import.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, rank_of_writer
from epochal.journal.line import nests_too_deeply
from epochal.records import Axis, Position, Record, axis_of, numbers_of, whole_number
from epochal.segments.columns import PartSummary
from epochal.series.series import Series, merge
from epochal.store.answers import Entry
from epochal.store.local.columns import NO_STEP, Origin, SeriesKey, SeriesTable, seconds
from epochal.values import as_float

# Kinds that say something about the run as a whole; "epoch" says how many there will be.
FACT_KINDS = ("run", "finish", "define", "resume", "option", "summary", "epoch")
_MEANINGS = ("unit", "goal", "x", "role")
_CHILD = "child-"
# The value of a summary that was deleted; an earlier part may hold it.
DELETED: Any = object()


class StalePartError(FormatError):
    """The file of a part no longer has the records that were read of it; read the run again."""


class Place(NamedTuple):
    """Where one record is that is not part of a series, who wrote it, and its name and step.

    ``at`` is its step or epoch, -1 where it has none. ``key`` finds it again in its part.
    """

    ordinal: int
    origin: Origin
    label: str
    at: int
    t: float
    key: tuple[int, int]

    @classmethod
    def of(cls, ordinal: int, record: Record, origin: Origin) -> Place:
        """The place of a record that its part holds by its ordinal."""
        at = whole_number(record.get("epoch" if axis_of(record) == "epoch" else "step"))
        step = NO_STEP if at is None else at
        return cls(ordinal, origin, label_of(record), step, seconds(record), (ordinal, ordinal))


class RecordIndex:
    """The places of all records of one kind in a part, in the order read: 56 bytes each."""

    def __init__(self) -> None:
        self._numbers = array("q")  # ordinal, start, end, label, at
        self._times = array("d")
        self._labels: dict[str, int] = {}

    @property
    def held_bytes(self) -> int:
        """How much memory the places take."""
        return 8 * (len(self._numbers) + len(self._times))

    def add(self, ordinal: int, span: tuple[int, int], label: str, at: int, t: float) -> None:
        """Add the place of one record."""
        self._times.append(t)
        number = self._labels.setdefault(label, len(self._labels))
        self._numbers.extend((ordinal, *span, number, at))

    def of(self, origin: Origin, *, label: str | None) -> Iterator[Place]:
        """The places, of one label or of all."""
        labels, numbers = list(self._labels), iter(self._numbers)
        for t in self._times:
            ordinal, start, end, number, at = (next(numbers) for _ in range(5))
            if label in (None, labels[number]):
                yield Place(ordinal, origin, labels[number], at, t, (start, end))


class Part(Protocol):
    """One part, as far as it has been read."""

    @property
    def name(self) -> PartName:
        """Writer, attempt and number of the part."""

    @property
    def facts(self) -> PartFacts:
        """What its records say about the run."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of it are in memory."""

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each; those in none are asked for by ``series``."""

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are, of one label or of all; not for ``DENSE_KINDS``."""

    def read(self, kind: str, places: list[Place]) -> Iterable[Record]:
        """The records at these places, in their order; the places come from the last ``places``."""

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records as written, from an ordinal on."""

    def close(self) -> None:
        """Close its files."""


class _Candidate(NamedTuple):
    """The place of a record, and the part that holds it."""

    place: Place
    part: Part


def entries_in(
    parts: Iterable[Part], kind: str, *, label: str | None, axis: Axis, cuts: Mapping[int, int]
) -> Iterator[tuple[Place, Entry]]:
    """The records of a kind that count, with their places, part by part.

    ``cuts`` are the steps from which on a newer attempt hides each attempt.
    """
    candidates = [
        _Candidate(place, part) for part in parts for place in part.places(kind, label=label)
    ]
    by_part: dict[int, tuple[Part, list[Place]]] = {}
    for place, part in _not_replaced(candidates, axis=axis, cuts=cuts):
        by_part.setdefault(id(part), (part, []))[1].append(place)
    for part, places in by_part.values():
        for place, record in zip(places, part.read(kind, places), strict=True):
            yield place, Entry(Position(*part.name, place.ordinal), place.origin.rank, record)


def _not_replaced(
    candidates: Iterable[_Candidate], *, axis: Axis, cuts: Mapping[int, int]
) -> list[_Candidate]:
    """The records that no newer attempt hides, and that nothing replaced at their step."""
    chosen = sorted(candidates, key=lambda candidate: weight_of(candidate.place.origin))
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


def cuts_of(takeovers: Mapping[int, int], *, attempts: Iterable[int]) -> dict[int, int]:
    """By attempt, the lowest step at which any newer attempt took over."""
    cuts: dict[int, int] = {}
    lowest: int | None = None
    for attempt in sorted(attempts, reverse=True):
        if lowest is not None:
            cuts[attempt] = lowest
        takeover = takeovers.get(attempt)
        if takeover is not None:
            lowest = takeover if lowest is None else min(lowest, takeover)
    return cuts


def weight_of(origin: Origin) -> tuple[bool, int]:
    """Later ones win: children before rank 0 itself, older attempts before newer."""
    return not origin.is_child, origin.attempt


def exact_values(
    parts: Sequence[Part], key: SeriesKey, rank: int, *, cuts: Mapping[int, int]
) -> NDArray[np.int64] | NDArray[np.uint64] | None:
    """The values of a series as 64-bit integers; None unless every one of them is such a number."""
    pieces: list[tuple[int | None, Series]] = []
    for part in sorted(parts, key=lambda part: weight_of(part.facts.origin)):
        origin = part.facts.origin
        piece = part.series(key) if origin.rank == rank else None
        if piece is None:
            continue
        numbers = _numbers(part, key.name, key.axis)
        if not _are_same(numbers, piece.floats):
            return None
        whole = replace(piece, values=np.array(numbers, dtype=object))
        pieces.append((cuts.get(origin.attempt), whole))
    merged = merge(pieces).values.tolist()
    if min(merged) >= -(2**63) and max(merged) < 2**63:
        return np.array(merged, dtype=np.int64)
    if min(merged) >= 0 and max(merged) < 2**64:
        return np.array(merged, dtype=np.uint64)
    return None


def _numbers(part: Part, name: str, axis: Axis) -> list[Any]:
    return [
        number
        for _, record in part.records(first=0)
        if axis_of(record) == axis
        for found, number in numbers_of(record)
        if found == name
    ]


def _are_same(numbers: list[Any], values: NDArray[np.float64]) -> bool:
    """Whether all numbers are integers, and the column has their floats."""
    return len(numbers) == values.size and all(
        type(number) is int and as_float(number) == value
        for number, value in zip(numbers, values.tolist(), strict=True)
    )


def label_of(record: Record) -> str:
    """The name or id of a record among others of its kind."""
    name = record.get("name", record.get("id", ""))
    return name if isinstance(name, str) else str(name)


@dataclass(slots=True)
class PartFacts:
    """What the records of ``FACT_KINDS`` say, and the highest step and epoch of all records.

    ``header`` is the first record; empty where the first line of the file is damaged, None before
    anything was read. ``reached`` and ``takeovers`` are rank 0's own.
    """

    name: PartName
    header: Record | None = None
    finish: Record | None = None
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    takeovers: dict[Axis, int] = field(default_factory=dict)
    reached: dict[Axis, int] = field(default_factory=dict)
    first_epoch: int | None = None
    num_epochs: int | None = None
    updated: float | None = None
    num_records: int = 0
    num_damaged: int = 0

    @property
    def is_loop(self) -> bool:
        """Whether rank 0 itself wrote the part."""
        return self.name.writer == LOOP

    @property
    def origin(self) -> Origin:
        """Who wrote the part."""
        return Origin(self._rank(), self.name.writer.startswith(_CHILD), self.name.attempt)

    def _rank(self) -> int:
        said = rank_of_writer(self.name.writer)
        if said is not None:
            return said
        # Telemetry of a node says which rank it sits beside; children say -1 and are rank 0's.
        rank = (self.header or {}).get("rank")
        return rank if isinstance(rank, int) and rank > 0 else 0

    def reach(self, axis: Axis, at: int) -> None:
        """Note a step or epoch that rank 0 logged."""
        if self.is_loop and at > self.reached.get(axis, at - 1):
            self.reached[axis] = at

    def note(self, ordinal: int, record: Record) -> None:
        """Add a record of one of ``FACT_KINDS``; fields that nest too deeply count as damage."""
        if nests_too_deeply(record):
            self.num_damaged += 1
            record = {key: value for key, value in record.items() if not nests_too_deeply(value)}
        kind = record["log"]
        if kind == "run" and ordinal == 0:
            self.header = record
        if kind == "finish":
            self.finish = record
        elif kind == "define" and isinstance(record.get("name"), str):
            meaning = {key: record[key] for key in _MEANINGS if key in record}
            self.definitions.setdefault(record["name"], {}).update(meaning)
        elif kind == "epoch":
            self._note_epoch(record)
        elif kind == "summary" and self.origin.rank == 0:
            self._note_summary(record)
        elif not self.is_loop:
            return
        elif kind == "resume":
            for axis in ("step", "epoch"):
                takeover = whole_number(record.get(axis))
                if takeover is not None:
                    self.takeovers[axis] = takeover
        elif kind == "run" and isinstance(record.get("config"), dict):
            self.config.update(record["config"])
        elif kind == "option" and "name" in record:
            self.config[str(record["name"])] = record.get("value")

    def _note_summary(self, record: Record) -> None:
        name = record.get("name")
        if isinstance(name, str):
            self.summary[name] = DELETED if record.get("deleted") else record.get("value")

    def _note_epoch(self, record: Record) -> None:
        self.num_epochs = whole_number(record.get("total")) or self.num_epochs
        epoch = whole_number(record.get("epoch"))
        if epoch is not None and self.is_loop and self.first_epoch is None:
            self.first_epoch = epoch
