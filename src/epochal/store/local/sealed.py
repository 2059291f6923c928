"""A sealed part: opening it reads its facts, a query reads one column of numbers."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.journal.layout import PartName
from epochal.journal.reader import check_version
from epochal.records import Axis, Position, Record, axis_of, whole_number
from epochal.segments.footer import PartSummary, read_footer
from epochal.series.series import Series
from epochal.store.local.columns import Blocks, SeriesKey, SeriesTable, seconds
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

    Its footer has what lists need, and with ``check`` its columns are looked for at once: a journal
    that holds the same can be read in its place.
    """

    def __init__(
        self, path: Path, name: PartName, segments: OpenSegments, *, check: bool = False
    ) -> None:
        self.path = path
        self.name = name
        self._segments = segments
        # None in a segment that was sealed before there were footers.
        self._footer = read_footer(path)
        if check:
            segments.at(path)
        self._epochs = Blocks()
        self._keys: dict[SeriesKey, None] | None = None
        # The records that ``places`` went through, for the ``read`` that follows.
        self._held: dict[int, Record] = {}
        self.facts = self._read_facts()

    @property
    def _segment(self) -> Segment:
        return self._segments.at(self.path)

    def _read_facts(self) -> PartFacts:
        about = self._footer or self._segment
        facts = PartFacts(
            self.name,
            header={} if about.num_records else None,
            num_records=about.num_records,
            num_damaged=about.num_damaged,
        )
        for ordinal, record in self._entries(*FACT_KINDS):
            if ordinal == 0:
                check_version(record, self.path)
            facts.note(ordinal, record)
            if record["log"] == "epoch":
                self._take_epoch(facts, ordinal, record)
        extents = self._segment.extents() if self._footer is None else self._footer.extents
        for kind, extent in extents.items():
            if extent.time is not None and (facts.updated is None or extent.time > facts.updated):
                facts.updated = extent.time
            if extent.step is not None and axis_of({"log": kind, "step": 0}) == "step":
                facts.reach("step", extent.step)
        return facts

    def _entries(self, *kinds: str) -> Iterable[tuple[int, Record]]:
        """The records of some kinds, in file order."""
        footer = self._footer
        if footer is None:
            return self._segment.entries(*kinds)
        there = [kind for kind in kinds if kind in footer.kinds]
        if all(kind in footer.kept for kind in there):
            return [entry for entry in footer.records if entry[1]["log"] in there]
        return self._segment.entries(*there)

    def _take_epoch(self, facts: PartFacts, ordinal: int, record: Record) -> None:
        """Keep the numbers of an epoch record: they are few, and have names of their own."""
        epoch = whole_number(record.get("epoch"))
        if epoch is None:
            return
        facts.reach("epoch", epoch)
        try:
            self._epochs.add(record, axis="epoch", ordinal=ordinal, at=epoch, t=seconds(record))
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
            facts.num_damaged += 1  # valid JSON, but not what this kind of record holds

    @property
    def held_bytes(self) -> int:
        """0: numbers are read for each query."""
        return 0

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        if self._keys is None:
            found = map(SeriesKey._make, self._names())
            # Of epochs there are series that the segment does not know by name.
            self._keys = dict.fromkeys((*found, *self._epochs))
        return self._keys

    def _names(self) -> Iterable[tuple[str, Axis]]:
        if self._footer is not None:
            return self._footer.names
        segment = self._segment
        return ((name, axis) for name in segment.names() for axis in segment.axes(name))

    def kept_summaries(self) -> Mapping[tuple[str, Axis], PartSummary]:
        """What its series amount to, of those that its footer has; reads no column."""
        return {} if self._footer is None else self._footer.summaries

    def tables(self) -> Iterable[SeriesTable]:
        """Its series that lie in one table each."""
        yield from self._epochs.tables()
        for table in self._segment.tables():
            if table.axis != "epoch":
                yield SeriesTable(*table)

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        rank = self.facts.origin.rank
        if key.axis == "epoch":
            return self._epochs.series(key, rank) if key in self._epochs else None
        if key not in self.series_keys():
            return None
        points = self._segment.series(key.name, axis=key.axis)
        return Series(key.name, key.axis, rank, points.steps, points.times, points.values)

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are."""
        self._held = {}
        if kind not in (self._segment.kinds() if self._footer is None else self._footer.kinds):
            return ()
        self._held = {
            ordinal: record
            for ordinal, record in self._entries(kind)
            if label in (None, label_of(record))
        }
        origin = self.facts.origin
        return [Place.of(ordinal, record, origin) for ordinal, record in self._held.items()]

    def read(self, kind: str, places: list[Place]) -> Iterable[Record]:
        """The records at these places."""
        held, self._held = self._held, {}
        return [held[place.ordinal] for place in places]

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records as written, from an ordinal on."""
        for ordinal, record in self._segment.records(first=first):
            yield Position(*self.name, ordinal), record

    def close(self) -> None:
        """Close the file."""
        self._segments.close(self.path)
