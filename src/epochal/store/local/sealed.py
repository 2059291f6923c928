"""A sealed part: opening it reads its facts, a query reads one column of numbers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.journal.layout import PartName
from epochal.journal.reader import check_version
from epochal.records import Position, Record, axis_of, whole_number
from epochal.segments.columns import PartSummary, SeriesKey, SeriesTable
from epochal.series.series import Series
from epochal.store.local.part import FACT_KINDS, PartFacts, Place, label_of

if TYPE_CHECKING:
    from epochal.segments.read import Segment


MAX_OPEN = 128


class OpenSegments:
    """The open segments: those used last, so that the limit of open files is not reached.

    One that gives way to others is not closed here, since another thread may be reading it: its
    file closes with the last reference. ``close`` is for the run that it belongs to.
    """

    def __init__(self, most: int = MAX_OPEN) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._open: OrderedDict[Path, Segment] = OrderedDict()

    def at(self, path: Path) -> Segment:
        """The segment at a path; raises ``FormatError`` when it is damaged."""
        from epochal.segments.read import Segment

        with self._lock:
            segment = self._open.get(path)
            if segment is not None:
                self._open.move_to_end(path)
                return segment
        segment = Segment(path)  # reads the file: not under the lock that all runs share
        with self._lock:
            self._open[path] = segment
            if len(self._open) > self._most:
                self._open.popitem(last=False)
        return segment

    def close(self, path: Path) -> None:
        """Close one, if it is open."""
        with self._lock:
            segment = self._open.pop(path, None)
        if segment is not None:
            segment.close()

    def close_all(self) -> None:
        """Close every one."""
        for path in list(self._open):
            self.close(path)


class SealedPart:
    """One segment, of the run or of the cache; raises ``FormatError`` where it is damaged.

    Its metadata has what lists need. With ``check`` the file is opened at once: a journal with the
    same records can be read in its place.
    """

    held_bytes = 0

    def __init__(
        self, path: Path, name: PartName, segments: OpenSegments, *, check: bool = False
    ) -> None:
        from epochal.segments.read import read_footer

        self.path = path
        self.name = name
        self._segments = segments
        self._footer = segments.at(path).footer if check else read_footer(path)
        # The records that ``places`` went through, for the ``read`` that follows.
        self._read: dict[int, Record] = {}
        self.facts = self._read_facts()

    @property
    def _segment(self) -> Segment:
        return self._segments.at(self.path)

    def _read_facts(self) -> PartFacts:
        footer = self._footer
        facts = PartFacts(
            self.name,
            header={} if footer.num_records else None,
            num_records=footer.num_records,
            num_damaged=footer.num_damaged + footer.num_malformed,
        )
        for ordinal, record in self._entries(*FACT_KINDS):
            if ordinal == 0:
                check_version(record, self.path)
            facts.note(ordinal, record)
            epoch = whole_number(record.get("epoch"))
            if record["log"] == "epoch" and epoch is not None:
                facts.reach("epoch", epoch)
        for kind, extent in footer.extents.items():
            if extent.time is not None and (facts.updated is None or extent.time > facts.updated):
                facts.updated = extent.time
            if extent.step is not None and axis_of({"log": kind, "step": 0}) == "step":
                facts.reach("step", extent.step)
        return facts

    def _entries(self, *kinds: str) -> Iterable[tuple[int, Record]]:
        """The records of some kinds, in file order."""
        there = {kind for kind in kinds if kind in self._footer.kinds}
        if there <= set(self._footer.kept):
            return [entry for entry in self._footer.records if entry[1]["log"] in there]
        return self._segment.entries(*there)

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        return self._footer.keys

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""
        return self._footer.summaries

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each."""
        return self._segment.tables()

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        if key not in self._footer.keys:
            return None
        return self._segment.series(*key, self.facts.origin.rank)

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are."""
        self._read = {
            ordinal: record
            for ordinal, record in self._entries(kind)
            if label in (None, label_of(record))
        }
        origin = self.facts.origin
        return [Place.of(ordinal, record, origin) for ordinal, record in self._read.items()]

    def read(self, kind: str, places: list[Place]) -> Iterable[Record]:
        """The records at these places."""
        held, self._read = self._read, {}
        return [held[place.ordinal] for place in places]

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records, from an ordinal on."""
        for ordinal, record in self._segment.records(first=first):
            yield Position(*self.name, ordinal), record

    def close(self) -> None:
        """Close the file."""
        self._segments.close(self.path)
