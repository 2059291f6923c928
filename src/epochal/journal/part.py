"""The protocol of a part of a run, and what counts where several parts say the same.

A part is a growing journal, a sealed segment or an import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from epochal.errors import FormatError
from epochal.journal.entries import Entry
from epochal.journal.facts import FACT_KINDS, PartFacts, SeriesKey, weight_of
from epochal.journal.layout import PartName
from epochal.journal.reader import check_version
from epochal.journal.segments.columns import NO_STEP, PartSummary
from epochal.records import Axis, Position, Record, axis_of, whole_number
from epochal.series.blocks import Blocks
from epochal.series.series import Series


class StalePartError(FormatError):
    """The file of a part no longer has the records that were read of it; read the run again."""


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

    @property
    def num_bytes(self) -> int:
        """How many bytes of the journal were read, or sealed."""

    @property
    def is_sealed(self) -> bool:
        """Whether it is a segment."""

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""

    def blocks(self, key: SeriesKey) -> Blocks | None:
        """The same in blocks; None where it has no summaries of blocks."""

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


def label_of(record: Record) -> str:
    """The name or id of a record among others of its kind."""
    name = record.get("name", record.get("id", ""))
    return name if isinstance(name, str) else str(name)


class SealedPart:
    """One segment, of the run or of the cache; raises ``FormatError`` where it is damaged.

    Its metadata has what lists need.
    """

    held_bytes = 0
    is_sealed = True

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

    @property
    def num_bytes(self) -> int:
        return self.journal_bytes

    def series_keys(self) -> Iterable[SeriesKey]:
        return self._segment.footer.keys

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        return self._segment.footer.summaries

    def series(self, key: SeriesKey) -> Series | None:
        if key not in self._segment.footer.keys:
            return None
        return self._segment.series(*key, self.facts.origin.rank)

    def blocks(self, key: SeriesKey) -> Blocks | None:
        return self._segment.blocks(key, self.facts.origin.rank)

    def kinds(self) -> Iterable[str]:
        return self._segment.footer.kinds

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        found = self._segment.entries(kind)
        return (entry for entry in found if label in (None, label_of(entry[1])))

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        for ordinal, record in self._segment.records(first=first):
            yield Position(*self.name, ordinal), record
