"""One run in the tables: its parts answer from SQL, and hold no points in memory."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from epochal.atomic_file import replaced_file
from epochal.errors import UsageError
from epochal.journal.layout import PartName, is_patch, slugify
from epochal.journal.reader import NewerFormatError, check_version
from epochal.records import Position, Record
from epochal.segments.columns import Extent, PartSummary, SeriesKey
from epochal.series.series import Series, merge
from epochal.store.answers import NO_LABELS, Labels, LabelsEdit, Machine
from epochal.store.clickhouse.blobs import write_blob
from epochal.store.clickhouse.documents import Document
from epochal.store.clickhouse.rows import NO_STEP
from epochal.store.clickhouse.tables import Database, Ranges, Received, Tables
from epochal.store.local.part import FACT_KINDS, PartFacts
from epochal.store.local.run_files import check_labels, machines_of, stored_labels
from epochal.store.local.state import joined_summary

# Kinds of documents that belong to a run, by its id.
RUN, LABELS, TRASH, LIVE = "run", "labels", "trash", "live"
# Records that are read together.
_AT_ONCE = 50_000


class TablePart:
    """One part of a run, as far as it was received at the last poll."""

    held_bytes = 0

    def __init__(self, source: ClickHouseSource, name: PartName) -> None:
        self.name = name
        self.facts = PartFacts(name)
        self.keys: dict[SeriesKey, None] = {}
        self.known_kinds: set[str] = set()
        # Of the records before ``summarised``; None where only the points say it.
        self.known_summaries: dict[SeriesKey, PartSummary | None] = {}
        self.summarised = 0
        self._made: dict[SeriesKey, PartSummary] = {}
        self._source = source

    @property
    def _tables(self) -> Tables:
        return self._source.database.tables

    @property
    def _all(self) -> Ranges:
        return {self.name: (0, self.facts.num_records)}

    def grow(self, received: Received) -> None:
        """Note how much was received; what was made of the points before is out of date."""
        self.facts.num_records, self.facts.num_damaged = received.records, received.damaged
        if received.records and self.facts.header is None:
            self.facts.header = {}
        self._made.clear()

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""
        return self.keys

    def summaries(self) -> Mapping[SeriesKey, PartSummary]:
        """The summary of every series."""
        self._source.summarise()
        for key in self.keys:
            if key not in self._made:
                known = self.known_summaries.get(key)
                self._made[key] = self._summary_of_points(key) if known is None else known
        return self._made

    def add_summaries(self, found: Mapping[SeriesKey, PartSummary | None]) -> None:
        """Take in the summaries of the records since ``summarised``."""
        for key, new in found.items():
            before = self.known_summaries.get(key) if key in self.known_summaries else new
            if before is not None and new is not None and before is not new:
                joined = joined_summary(key.axis, [before, new])
                end = new.last_t
                new = None if joined is None else PartSummary(joined, before.first_at, end)
            self.known_summaries[key] = None if before is None else new
        self.summarised = self.facts.num_records

    def _summary_of_points(self, key: SeriesKey) -> PartSummary:
        points = self.series(key)
        assert points is not None
        whole = merge([(None, points)])
        return PartSummary(whole.summary, whole.at[0].item(), whole.times[-1].item())

    def series(self, key: SeriesKey) -> Series | None:
        """Its points of one series in the order written, None when there are none."""
        if key not in self.keys:
            return None
        rank = self.facts.origin.rank
        return self._tables.series(self._source.place, key, self._all, rank)

    def kinds(self) -> Iterable[str]:
        """The kinds of its records."""
        return self.known_kinds

    def entries(self, kind: str, *, label: str | None = None) -> Iterator[tuple[int, Record]]:
        """Its records of a kind, of one label or of all."""
        if kind in self.known_kinds:
            records = self._tables.records(self._source.place, self._all, [kind], label=label)
            for _, ordinal, record in records:
                yield ordinal, record

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records, from an ordinal on."""
        for start in range(first, self.facts.num_records, _AT_ONCE):
            some = {self.name: (start, min(start + _AT_ONCE, self.facts.num_records))}
            for _, ordinal, record in self._tables.records(self._source.place, some):
                yield Position(*self.name, ordinal), record


class ClickHouseSource:
    """The rows of one run; ``place`` is its id. See ``RunSource``."""

    tracker = None
    stamp = None
    held_bytes = 0

    def __init__(self, database: Database, run_id: str) -> None:
        self.database = database
        self.place = run_id
        self.is_newer = False
        self._received: Mapping[PartName, Received] = {}
        self._documents: dict[str, Document] = {}
        self._parts: dict[PartName, TablePart] = {}
        self._problem: str | None = None
        self.signature: str | None = None

    def look(self) -> None:
        """Ask how much was received, and for identity and labels."""
        received = self.database.tables.received([self.place])
        documents = self.database.documents.find([RUN, LABELS], [self.place])
        self.see(received.get(self.place, {}), documents)

    def see(self, received: Mapping[PartName, Received], documents: Iterable[Document]) -> None:
        """Take for a look what a store has just asked about all of its runs."""
        self._received = received
        self._documents = {one.kind: one for one in documents}
        self.signature = signature_of(received, self._documents.values())

    def _look_once(self) -> None:
        if self.signature is None:
            self.look()

    def _document(self, kind: str) -> dict[str, Any]:
        self._look_once()
        found = self._documents.get(kind)
        return found.body or {} if found is not None else {}

    @property
    def path(self) -> Path:
        """Project and name, which people see as its place."""
        run_json = self.run_json
        return Path(slugify(str(run_json.get("project"))), slugify(str(run_json.get("name"))))

    @property
    def run_json(self) -> Mapping[str, Any]:
        """Who the run is."""
        return self._document(RUN)

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        return _labels_in(self._document(LABELS))

    @property
    def problems(self) -> Sequence[str]:
        """Why the run cannot be read."""
        return [] if self._problem is None else [self._problem]

    @property
    def newest_s(self) -> float:
        """When anything was received last, by the server's clock."""
        return float(max((one.at for one in self._received.values()), default=0))

    @property
    def journal_written_s(self) -> float | None:
        """The same; None where nothing was received."""
        self._look_once()
        return self.newest_s or None

    @property
    def unsealed_bytes(self) -> int:
        """Nothing has to be read here but rows of answers."""
        return 0

    def poll(self) -> bool:
        """Ask what is new about the parts that have grown."""
        self._look_once()
        ranges: dict[PartName, tuple[int, int]] = {}
        for name, received in self._received.items():
            part = self._parts.get(name)
            known = (part.facts.num_records, part.facts.num_damaged) if part else (-1, 0)
            if known != (received.records, received.damaged):
                ranges[name] = (max(known[0], 0), received.records)
        if not ranges or self.is_newer:
            return False
        for name in ranges:
            self._parts.setdefault(name, TablePart(self, name)).grow(self._received[name])
        try:
            self._read(ranges)
        except NewerFormatError as error:
            self.is_newer, self._problem = True, str(error)
            self._parts.clear()
        return True

    def _read(self, ranges: Ranges) -> None:
        tables, run_id = self.database.tables, self.place
        for name, ordinal, record in tables.records(run_id, ranges, FACT_KINDS):
            if ordinal == 0:
                check_version(record, self.path)
            self._parts[name].facts.note(ordinal, record)
        keys = tables.keys(run_id, list(ranges))
        for name in ranges:
            part, received = self._parts[name], self._received[name]
            step = None if received.step == NO_STEP else received.step
            part.facts.extend("step", Extent(step, received.t or None))
            part.known_kinds |= received.kinds
            part.keys = keys.get(name, {})

    def summarise(self) -> None:
        """Ask for the summaries of all series, as far as they have grown."""
        grown = [part for part in self._parts.values() if part.summarised < part.facts.num_records]
        if grown:
            ranges = {part.name: (part.summarised, part.facts.num_records) for part in grown}
            axes = {key.axis for part in grown for key in part.keys}
            found = self.database.tables.summaries(self.place, ranges, axes)
            for part in grown:
                part.add_summaries(found.get(part.name, {}))

    @property
    def parts(self) -> Sequence[TablePart]:
        """The parts as far as they were received."""
        return list(self._parts.values())

    def blob_path(self, file: str) -> Path:
        """Where the copy of a blob lies that is made when it is first asked for."""
        if Path(file).name != file:
            raise UsageError(f"blob {file!r} is not the name of a file.")
        path = self.database.cache / self.place / "blobs" / file
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with replaced_file(path) as temporary:
                temporary.touch(0o600 if is_patch(file) else 0o644)
                write_blob(self.database, self.place, file, temporary)
        return path

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the companions."""
        found = self.database.documents.all(LIVE, prefix=f"{self.place}/")
        return machines_of((body for _, body in found), now=time.time())

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels as they are stored now."""
        documents = self.database.documents
        with documents.lock:
            before = _labels_in(documents.get(LABELS, self.place) or {})
            after = edit(before)
            check_labels(after, before)
            documents.put(LABELS, self.place, stored_labels(after))

    def close(self) -> None:
        """Forget what was read."""
        self._parts.clear()


def signature_of(received: Mapping[PartName, Received], documents: Iterable[Document]) -> str:
    """A text that changes with what was received of a run, and with its documents."""
    versions = sorted((one.kind, one.version) for one in documents)
    counts = sorted((name, one.lines) for name, one in received.items())
    return hashlib.blake2b(repr((counts, versions)).encode(), digest_size=16).hexdigest()


def _labels_in(stored: Mapping[str, Any]) -> Labels:
    try:
        return msgspec.convert(stored, Labels)
    except msgspec.ValidationError:  # stored by a hub of another version
        return NO_LABELS
