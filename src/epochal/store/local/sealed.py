"""A sealed part: opening it reads its facts, a query reads one column of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from epochal.journal.layout import PartName
from epochal.journal.reader import check_version
from epochal.journal.segments.columns import PartSummary, SeriesKey
from epochal.records import Position, Record, axis_of
from epochal.series.series import Series
from epochal.store.local.part import FACT_KINDS, PartFacts, label_of


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
