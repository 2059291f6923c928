"""What the records of a writer say about the run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from epochal.journal.layout import LOOP, PartName, rank_of_writer
from epochal.journal.line import nests_too_deeply
from epochal.records import Axis, Record, whole_number

# Kinds that say something about the run as a whole; "epoch" says how many there will be.
FACT_KINDS = ("run", "finish", "define", "resume", "option", "summary", "epoch")

_MEANINGS = ("unit", "goal", "x", "role")

_CHILD = "child-"

# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800

# The value of a summary that was deleted; an earlier part may hold it.
DELETED: Any = object()


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


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


def unix_time(value: Any) -> float | None:
    """A time of a file in Unix seconds; None for a value that is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _TIME_LIMIT else None


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

    def extend(self, axis: Axis, extent: Extent) -> None:
        """Note how far some records on an axis reach."""
        step, time = extent
        if time is not None and (self.updated is None or time > self.updated):
            self.updated = time
        if axis == "step":
            self._reach(axis, step)

    def _reach(self, axis: Axis, at: int | None) -> None:
        if at is not None and self.is_loop:
            self.reached[axis] = max(at, self.reached.get(axis, at))

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
        self._reach("epoch", epoch)
        if self.is_loop and self.first_epoch is None:
            self.first_epoch = epoch


class SeriesKey(NamedTuple):
    """A name on an axis: an epoch's ``loss`` and a step's ``loss`` are two series."""

    name: str
    axis: Axis


class Extent(NamedTuple):
    """The highest step and the latest time (Unix seconds) of some records, where they have any."""

    step: int | None
    time: float | None

    def joined(self, other: Extent) -> Extent:
        """The extent of both."""
        steps = [step for step in (self.step, other.step) if step is not None]
        times = [time for time in (self.time, other.time) if time is not None]
        return Extent(max(steps, default=None), max(times, default=None))
