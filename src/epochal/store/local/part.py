"""The protocol of a part of a run, and what counts where several parts say the same.

A part is a growing journal, a sealed segment or an import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, rank_of_writer
from epochal.journal.line import nests_too_deeply
from epochal.journal.reader import check_version
from epochal.journal.segments.columns import NO_STEP, Extent, PartSummary, SeriesKey
from epochal.records import Axis, Position, Record, axis_of, whole_number
from epochal.series.series import Series
from epochal.store.answers import Entry

# Kinds that say something about the run as a whole; "epoch" says how many there will be.
FACT_KINDS = ("run", "finish", "define", "resume", "option", "summary", "epoch")
_MEANINGS = ("unit", "goal", "x", "role")
_CHILD = "child-"
# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800
# The value of a summary that was deleted; an earlier part may hold it.
DELETED: Any = object()


class StalePartError(FormatError):
    """The file of a part no longer has the records that were read of it; read the run again."""


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


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

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""

    def kinds(self) -> Iterable[str]:
        """The kinds of its records; those in ``DENSE_KINDS`` may be left out."""

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        """Its records of a kind with their ordinals, of one label or of all.

        Not for ``DENSE_KINDS``.
        """

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records as written, from an ordinal on."""


def entries_in(
    parts: Iterable[Part], kind: str, *, label: str | None, axis: Axis, cuts: Mapping[int, int]
) -> list[tuple[int, Entry]]:
    """The records of a kind that count, each with its step or epoch, -1 where it has none.

    ``cuts`` are the steps from which on a newer attempt hides each attempt. Of several records of
    a name at one step the last counts, unless they are the items of a list, by their ``index``.
    """
    found: dict[object, tuple[int, Entry]] = {}
    for part in sorted(parts, key=lambda part: weight_of(part.facts.origin)):
        rank, cut = part.facts.origin.rank, cuts.get(part.name.attempt)
        for ordinal, record in part.entries(kind, label=label):
            position = Position(*part.name, ordinal)
            step = whole_number(record.get("epoch" if axis == "epoch" else "step"))
            at = NO_STEP if step is None else step
            key: object = position
            if axis in ("step", "epoch"):
                if cut is not None and at >= cut:
                    continue
                if step is not None:
                    key = (rank, label_of(record), at, whole_number(record.get("index")))
                found.pop(key, None)
            found[key] = (at, Entry(position, rank, record))
    return list(found.values())


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


class SealedPart:
    """One segment, of the run or of the cache; raises ``FormatError`` where it is damaged.

    Its metadata has what lists need.
    """

    held_bytes = 0

    def __init__(self, path: Path, name: PartName) -> None:
        from epochal.journal.segments.read import Segment  # loads pyarrow, for sealed runs only

        self.name = name
        self._segment = Segment(path)
        self.journal_bytes = self._segment.journal_bytes
        footer = self._segment.footer
        self.facts = PartFacts(
            name,
            header={} if footer.num_records else None,
            num_records=footer.num_records,
            num_damaged=footer.num_damaged + footer.num_malformed,
        )
        for ordinal, record in self._segment.entries(*FACT_KINDS):
            if ordinal == 0:
                check_version(record, path)
            self.facts.note(ordinal, record)
        for kind, extent in footer.extents.items():
            self.facts.extend(axis_of({"log": kind, "step": 0}), extent)
        self._segment.close()  # lists open thousands, and read no column of them

    def series_keys(self) -> Iterable[SeriesKey]:
        return self._segment.footer.keys

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        return self._segment.footer.summaries

    def series(self, key: SeriesKey) -> Series | None:
        if key not in self._segment.footer.keys:
            return None
        return self._segment.series(*key, self.facts.origin.rank)

    def kinds(self) -> Iterable[str]:
        return self._segment.footer.kinds

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        found = self._segment.entries(kind)
        return (entry for entry in found if label in (None, label_of(entry[1])))

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        for ordinal, record in self._segment.records(first=first):
            yield Position(*self.name, ordinal), record
