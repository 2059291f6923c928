"""The row of one run, kept while its files stay as they are, and what is known without one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from epochal.health.rule_settings import RuleSettings, recorded_rules
from epochal.records import Record
from epochal.store.answers import Labels, RunInfo, Status
from epochal.store.local.cache import MemoryBudget, locked
from epochal.store.local.columns import unix_time
from epochal.store.local.row import (
    Names,
    changed_at,
    faulty_row,
    make_row,
    names_of,
    recorded_id,
    small_row,
)
from epochal.store.local.state import RunReader, RunState
from epochal.store.local.summaries import RowSummaries
from epochal.store.row import Row
from epochal.store.status import GONE, UNREADABLE

# The series of journals of this size are summarised in a second or two.
_QUICK_BYTES = 32 * 1024 * 1024
T = TypeVar("T")


class CachedRow:
    """Makes the row of a run when it is asked for; ``drop`` it when the files have changed.

    Its methods take the lock of the run. What lists ask of every run takes it only where something
    has to be read. A fault in reading becomes the row of this run and reaches no other run.
    """

    __slots__ = (
        "_ended",
        "_ended_row",
        "_grew_at",
        "_held",
        "_made_at",
        "_num_records",
        "_own_id",
        "_reader",
        "_source",
        "_summaries",
        "is_changed",
        "lock",
        "partial",
        "whole",
    )

    def __init__(
        self, source: FolderSource, reader: RunReader, held: MemoryBudget, lock: threading.RLock
    ) -> None:
        self.lock = lock
        self._source = source
        self._reader = reader
        self._held = held
        self.whole: Row | None = None
        # What identity and newest records say, while there is no whole row.
        self.partial: Row | None = None
        self._summaries: RowSummaries | None = None
        # The status of a row that has ended.
        self._ended: Status | None = None
        self._ended_row: Row | None = None
        # Set when the row has learnt something that the index does not know.
        self.is_changed = False
        # With the count of changes it was read at.
        self._own_id: tuple[str, int] | None = None
        # When the whole row was made last, in monotonic seconds; 0 for never.
        self._made_at = 0.0
        # How many records the last row counted, and when a row counted more than the one before.
        self._num_records: int | None = None
        self._grew_at: float | None = None

    # -- the row ----------------------------------------------------------------------------------

    @property
    def row(self) -> Row:
        """The whole row."""
        whole = self.whole
        if whole is not None:  # without the lock: one run that is being read holds up no list
            return whole
        with self.lock:
            if self.whole is None:
                self.whole = self.or_faulty(self._make, lambda row: row)
                self._held.row_changes.add()
            return self.whole

    @property
    def known(self) -> Row:
        """The row as far as it is known: whole, or of identity and newest records alone."""
        known = self.whole or self.partial
        if known is not None:  # without the lock: lists ask this of every run
            return known
        with self.lock:
            if self.whole is None and self.partial is None:
                self.partial = self._held.guard.run(self._source.place, self._make_partial)
                self._held.row_changes.add()
            return self.whole or self.partial or self.row

    @property
    def summaries(self) -> RowSummaries:
        """The summaries of the whole row."""
        row = self.row if self.whole is None else self.whole
        if self._summaries is None or self._summaries.row is not row:
            source = self._source
            self._summaries = RowSummaries(
                row, is_quickly_read=lambda: 0 < source.unsealed_bytes <= _QUICK_BYTES
            )
        return self._summaries

    def turn(self) -> tuple[float, float]:
        """When it is its turn to be read: first those without a row, the newest of them first."""
        return self._made_at, -self.created

    def drop(self) -> None:
        """Forget the row: the files have changed."""
        self.whole = self.partial = None
        self._held.row_changes.add()

    def recall(self, row: Row | None) -> None:
        """Use a row of the index, which the files have not changed since."""
        if row is None:
            return
        if row.is_partial:
            self.partial = row
        else:
            self.whole = row
        self._own_id = (row.id, self._reader.num_changes)
        self._held.row_changes.add()

    def note_change(self) -> None:
        """Have the index learn the row."""
        self._held.row_changes.add()
        if not self.is_changed:
            self.is_changed = True
            self._held.on_news(self._source.place)

    def or_faulty(self, read: Callable[[], T], instead: Callable[[Row], T]) -> T:
        """What ``read`` returns; a fault becomes the row, and the result is ``instead`` of it."""
        source, guard = self._source, self._held.guard
        found = guard.run(source.place, read)
        if found is not None:
            return found
        problem = f"the run cannot be read: {guard.faults[source.place].error}."
        self.whole = faulty_row(source.path, problem)
        self._held.row_changes.add()
        return instead(self.whole)

    def _make(self) -> Row:
        row = self._make_small()
        if row is None:
            row = self._make_full()
            if row.is_tiny:
                RowSummaries(row).keep_all(self._reader.ask)
        if self._num_records is not None and row.records > self._num_records:
            self._grew_at = time.time()
        self._num_records = row.records
        self._made_at = time.monotonic()
        self.note_change()
        return row

    def _make_small(self) -> Row | None:
        """The row of a run that one read of its small parts says all of; None for any other."""
        self._reader.look_once()
        source = self._source
        small = None if self._reader.state is not None else source.small()
        if small is None:
            return None
        if len(small) == 1 and small[0].is_plain:
            run_json, labels = source.run_json, source.labels
            created = unix_time(run_json.get("created"))
            return small_row(
                names_of(run_json.get, labels, self.folder),
                small[0],
                source,
                own_id=self.own_id,
                created=self.created if created is None else created,
                labels=labels,
            )
        state = RunState(small)
        row = self._row_of(state)
        RowSummaries(row).keep_all(lambda query: query(state))
        # A series that several parts have is put together from its points.
        num_series = sum(len(metric.ranks) for metric in row.metrics)
        return row if len(row.summaries) == num_series else None

    def _make_full(self) -> Row:
        return self._reader.ask(self._row_of)

    def _row_of(self, state: RunState) -> Row:
        return make_row(
            self.names,
            state,
            self._source,
            own_id=self.own_id,
            created=self.created,
            labels=self.labels,
            rules=self.rules,
        )

    def _make_partial(self) -> Row | None:
        self._reader.look_once()
        outline = self._source.outline(self.own_id)
        if outline is not None:
            self.note_change()
        return outline

    # -- identity ---------------------------------------------------------------------------------

    @property
    def own_id(self) -> str:
        """The id that the run recorded; the folder's name where it recorded none.

        While another thread reads the run, this is the id of the last look: lists do not wait.
        """
        known, num_changes = self._own_id, self._reader.num_changes
        if known is not None and known[1] == num_changes:
            return known[0]
        if self.lock.acquire(blocking=known is None):
            try:
                found = self.or_faulty(self._read_id, lambda row: row.id)
                self._own_id = (found, self._reader.num_changes)
            finally:
                self.lock.release()
        assert self._own_id is not None
        return self._own_id[0]

    def _read_id(self) -> str:
        if self.whole is not None:
            return self.whole.id
        return recorded_id(self.facts.get) or self._source.path.name

    @property
    def created(self) -> float:
        """When the run was created, in Unix seconds; the folder's time where no file says it."""
        row = self.whole or self.partial
        if row is not None:
            return row.created
        with self.lock:
            return self.or_faulty(self._read_created, lambda row: row.created)

    def _read_created(self) -> float:
        if self.whole is not None:
            return self.whole.created
        created = unix_time(self.facts.get("created"))
        if created is None:
            created = unix_time(self._reader.ask(_header).get("t"))
        return changed_at(self._source.path) if created is None else created

    @property
    def facts(self) -> Mapping[str, Any]:
        """The content of run.json; the first record of the journal where it is missing."""
        self._reader.look_once()
        return self._source.run_json or self._reader.ask(_header)

    @property
    def names(self) -> Names:
        """What the run is called by itself and by people."""
        return names_of(self.facts.get, self.labels, self.folder)

    @property
    def folder(self) -> str:
        """The path as a text."""
        source = self._source
        return source.place if source.tracker is None else str(source.path)

    @property
    @locked
    def labels(self) -> Labels:
        """What people changed later."""
        if self.whole is not None:
            return self.whole.labels
        self._reader.look_once()
        return self._source.labels

    @property
    def rules(self) -> RuleSettings:
        """The settings of rules that the run recorded, else the reader's."""
        rules = self._source.run_json.get("rules")
        return self._held.rules if rules is None else recorded_rules(rules)

    # -- answers ----------------------------------------------------------------------------------

    def brief(self, run_id: str) -> RunInfo:
        """Id, names and labels; the journal is read only where run.json is missing."""
        if self.whole is not None:
            return self.whole.info(run_id, folder=self.folder, status=UNREADABLE)
        names = self.names
        return RunInfo(
            id=run_id,
            name=names.name,
            project=names.project,
            folder=self.folder,
            status=UNREADABLE,
            tags=names.tags,
            notes=names.notes,
            hidden=self.labels.hidden,
            tracker=self._source.tracker,
            group=names.group,
            job_type=names.job_type,
            owner=names.owner,
        )

    def info(self, row: Row, run_id: str) -> RunInfo:
        """A row as an answer, with whether the parent of a fork is gone."""
        source = self._source
        info = row.info(run_id, folder=self.folder, status=self.status_of(row))
        fork = info.fork
        if fork is None or fork.is_kept:
            return info
        return msgspec.structs.replace(
            info, fork=replace(fork, is_gone=not source.has_parent(fork))
        )

    # -- status -----------------------------------------------------------------------------------

    @property
    def known_status(self) -> Status:
        """The status as far as the run is known; reads no more of it."""
        row = self.whole
        if row is not None and self._ended_row is row and self._ended is not None:
            return self._ended  # without the lock: lists ask this of every run
        with self.lock:
            return self.status_of(self.known)

    def status_of(self, row: Row) -> Status:
        """The status at this moment that a row says."""
        if self._ended is not None and self._ended_row is row:
            return self._ended
        if row.is_unreadable:
            return UNREADABLE
        status = row.status(now=time.time(), grew=self._grew_at)
        if not status.is_live and status.text != GONE:
            # What has ended stays so, and a process that is gone does not come back.
            self._ended, self._ended_row = status, row
        return status


def _header(state: RunState) -> Record:
    return state.header or {}
