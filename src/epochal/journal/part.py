"""The parts of a run in its folder: sealed segments, and journals that are read as they grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.facts import FACT_KINDS, PartFacts, SeriesKey
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.reader import NewerFormatError, check_version
from epochal.journal.state import Part, PartSummary, label_of
from epochal.journal.tail import TailedPart
from epochal.records import Position, Record, axis_of
from epochal.series.blocks import Blocks
from epochal.series.series import Series


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
        kinds = [kind for kind in FACT_KINDS if kind != "event" or footer.events is None]
        for ordinal, record in (*self._segment.entries(*kinds), *(footer.events or ())):
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


def read_parts(folder: RunFolder) -> list[Part]:
    """All parts of a run, read to their ends; raises ``FormatError`` and ``OSError``."""
    found: list[Part] = []
    journal = {*folder.parts()}  # first: a part goes from there to the segments, never back
    for name in sorted({*journal, *folder.sealed_parts()}):
        part = _sealed_part(folder, name, is_only=name not in journal)
        if part is None:
            part = TailedPart(folder.part_path(name), name)
            part.poll()
        found.append(part)
    return found


def _sealed_part(folder: RunFolder, name: PartName, *, is_only: bool) -> Part | None:
    """The sealed form of a part; None where the journal part has to be read."""
    path = folder.sealed_path(name)
    if not path.exists():
        return None
    try:
        part = SealedPart(path, name)
        is_all = is_only or part.num_bytes >= folder.part_path(name).stat().st_size
    except NewerFormatError:
        raise
    except FormatError:
        if is_only:
            raise
        return None
    return part if is_all else None
