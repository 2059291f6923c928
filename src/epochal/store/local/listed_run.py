"""One run on disk as lists see it: what it is, and how it stands."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from epochal.health.rule_settings import RuleSettings, recorded_rules
from epochal.journal.layout import PartName, RunFolder
from epochal.records import Record
from epochal.store.answers import Labels, LabelsEdit, RunInfo, Status
from epochal.store.finding_counts import FindingCounts
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.columns import unix_time
from epochal.store.local.findings import Diagnosis
from epochal.store.local.folder import FolderSource
from epochal.store.local.fork import fork_of, keep_history
from epochal.store.local.index import IndexEntry, Stamp
from epochal.store.local.row import (
    Names,
    changed_at,
    faulty_row,
    make_row,
    names_of,
    recorded_id,
    small_row,
)
from epochal.store.local.source import RunSource
from epochal.store.local.state import RunReader, RunState, locked
from epochal.store.local.summaries import RowSummaries
from epochal.store.row import Row
from epochal.store.status import GONE, UNREADABLE
from epochal.store.store import RunView

_SETTLED_S = 60.0
# So few that the health rules see them in a fraction of a second.
_FEW_RECORDS = 1000
# A journal of this size is read in a fraction of a second.
_QUICK_BYTES = 8 * 1024 * 1024
# What each run's series are held under: an ``id()`` would be given to another run later.
_KEYS = itertools.count()


T = TypeVar("T")


class ListedRun(RunView):
    """A run and its source; nothing of it is read before the first query.

    Each method takes ``lock``, which runs of one foreign file share; see ``RunView.lock``.
    """

    def __init__(
        self,
        source: RunSource,
        *,
        held: MemoryBudget | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.source = source
        self.lock = threading.RLock() if lock is None else lock
        self._held = MemoryBudget() if held is None else held
        self._key = next(_KEYS)
        self._reader = RunReader(source)
        # The reader's counts that were noticed so far.
        self._num_changes = self._num_reads = 0
        self._row: Row | None = None
        # What identity and newest records say, while there is no whole row.
        self._outline: Row | None = None
        self._summaries: RowSummaries | None = None
        # The status of a row that has ended.
        self._ended: Status | None = None
        self._ended_row: Row | None = None
        # Set when the row has learnt something that the index does not know.
        self.has_news = False
        # Its number among the runs of its store with the same id; copies of a folder have one id.
        self.copy = 1
        # With the count of changes it was read at.
        self._own_id: tuple[str, int] | None = None
        # How many records the last row counted, and when a row counted more than the one before.
        self._num_records: int | None = None
        self._grew_at: float | None = None

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        return Diagnosis()

    # -- reading ----------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Like ``refresh``; a fault becomes the run's problem."""
        self._or_faulty(self.refresh, lambda row: True)

    def _or_faulty(self, read: Callable[[], T], instead: Callable[[Row], T]) -> T:
        """What ``read`` returns; a fault becomes the row of this run and reaches no other run."""
        found = self._held.guard.run(self.place, read)
        if found is not None:
            return found
        fault = self._held.guard.faults[self.place]
        self._row = faulty_row(self.path, f"the run cannot be read: {fault.error}.")
        return instead(self._row)

    @locked
    def refresh(self) -> bool:
        """Look for what was written since; True when there was anything."""
        try:
            return self._reader.refresh()
        finally:
            self._notice()

    def _look_once(self) -> None:
        if self.source.signature is None:
            try:
                self._reader.look_once()
            finally:
                self._notice()

    def _ask(self, query: Callable[[RunState], T]) -> T:
        """The result of a query of the run's parts; raises ``FormatError``."""
        try:
            return self._reader.ask(query)
        finally:
            self._notice()

    def _notice(self) -> None:
        """Drop the row if files have changed, and count the memory if parts were read."""
        if self._num_changes != self._reader.num_changes:
            self._num_changes = self._reader.num_changes
            self._row = self._outline = None
        if self._num_reads != self._reader.num_reads:
            self._num_reads = self._reader.num_reads
            self._held.series.drop(self._key)
            self._held.loaded.grown(self)

    @property
    def was_looked_at(self) -> bool:
        """Whether anything is known of its files yet."""
        return self._reader.num_changes > 0

    @property
    def version(self) -> int:
        """How often the files have changed since the first look."""
        return max(self._reader.num_changes - 1, 0)  # the first look finds no change

    @locked
    def recall(
        self,
        entry: IndexEntry,
        row_of: Callable[[IndexEntry], Row | None],
        *,
        is_unchanged: bool = False,
    ) -> None:
        """Use a row of the index, if the files have not changed since.

        ``is_unchanged``: the files have the entry's stamp, as was just seen.
        """
        if self._row is not None:
            return
        stamp = entry.stamp
        if stamp is not None and (is_unchanged or self.source.has_stamp(stamp)):
            self._reader.trust(stamp)
        elif entry.signature != self.signature:
            return
        row = row_of(entry)
        self._num_changes = self._reader.num_changes
        if row is not None and row.is_partial:
            self._outline = row
        else:
            self._row = row
        if row is not None:
            self._own_id = (row.id, self._num_changes)

    @locked
    def remembered(self) -> tuple[str, Stamp | None, Row]:
        """What the index keeps: signature, stamp and row; the run is settled."""
        self.has_news = False
        row = self.known_row
        stamp = self._reader.trust_unchanged(since_s=_SETTLED_S) if row.is_ended else None
        return self.signature, stamp, row

    @property
    @locked
    def signature(self) -> str:
        """A digest of the files and rules that the row was made from."""
        self._look_once()
        # The reader's rules change which findings are made.
        return f"{self.source.signature}{self._held.rules.digest}"

    @property
    @locked
    def is_settled(self) -> bool:
        """Whether nothing was written to the run for a minute."""
        self._look_once()
        return time.time() - self.source.newest_s > _SETTLED_S

    @property
    def held_bytes(self) -> int:
        """About how many bytes of the run are in memory."""
        return self.source.held_bytes

    def release(self) -> bool:
        """Free what was read of the run; the next query reads it again.

        False while the run grows or another thread reads it: this is called with the lock of
        another run held, so it must not wait.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self._reader.state is None or not self.is_settled:
                return False
            self._row = self.row
            self._reader.release()
            return True
        finally:
            self.lock.release()

    @locked
    def close(self) -> None:
        """Free everything; the run is gone, or no query follows."""
        self._reader.release()
        self._held.series.drop(self._key)
        self._held.loaded.forget(self)

    # -- the run as a whole -----------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The run's folder, or the file that another tracker keeps it in."""
        return self.source.path

    @property
    def place(self) -> str:
        """A text that no other run of this machine has."""
        return self.source.place

    @property
    def tracker(self) -> str | None:
        """The tracker that wrote its files, which are never changed; None for our own."""
        return self.source.tracker

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
                found = self._or_faulty(self._read_id, lambda row: row.id)
                self._own_id = (found, self._reader.num_changes)
            finally:
                self.lock.release()
        assert self._own_id is not None
        return self._own_id[0]

    def _read_id(self) -> str:
        if self._row is not None:
            return self._row.id
        return recorded_id(self._told.get) or self.path.name

    @property
    def has_recorded_id(self) -> bool:
        """Whether an id was recorded; a run that is just being created has none for a moment."""
        return self.own_id != self._where.rpartition(os.sep)[2]

    @property
    def id(self) -> str:
        """The id of this run and of no other in its store."""
        return self.own_id if self.copy == 1 else f"{self.own_id}~{self.copy}"

    @property
    def created(self) -> float:
        """When the run was created, in Unix seconds; the folder's time where no file says it."""
        row = self._row
        if row is not None:
            return row.created
        with self.lock:
            return self._or_faulty(self._read_created, lambda row: row.created)

    def _read_created(self) -> float:
        if self._row is not None:
            return self._row.created
        created = unix_time(self._told.get("created"))
        if created is None:
            created = unix_time(self._ask(_header).get("t"))
        return changed_at(self.path) if created is None else created

    @locked
    def brief(self) -> RunInfo:
        """Id, names and labels; the journal is read only where run.json is missing."""
        if self._row is not None:
            return self._row.info(self.id, folder=self._where, status=UNREADABLE)
        names = self._names
        return RunInfo(
            id=self.id,
            name=names.name,
            project=names.project,
            folder=self._where,
            status=UNREADABLE,
            tags=names.tags,
            notes=names.notes,
            hidden=self.labels.hidden,
            tracker=self.tracker,
            group=names.group,
            job_type=names.job_type,
            owner=names.owner,
        )

    @property
    def _names(self) -> Names:
        return names_of(self._told.get, self.labels, self._where)

    @property
    def _where(self) -> str:
        """The path as a text."""
        source = self.source
        return source.place if source.tracker is None else str(source.path)

    @property
    @locked
    def row(self) -> Row:
        """Everything that lists and queries read of the run."""
        if self._row is None:
            self._row = self._or_faulty(self._make_row, lambda row: row)
        return self._row

    @property
    def known_row(self) -> Row:
        """The row as far as it is known: whole, or of identity and newest records alone."""
        known = self.row_in_memory
        if known is not None:  # without the lock: lists ask this of every run
            return known
        with self.lock:
            if self._row is None and self._outline is None:
                self._outline = self._held.guard.run(self.place, self._make_outline)
            return self._row or self._outline or self.row

    def _make_outline(self) -> Row | None:
        self._look_once()
        outline = self.source.outline(self.own_id)
        if outline is not None:
            self._tell_news()
        return outline

    @property
    def row_in_memory(self) -> Row | None:
        """The row as far as it is known without reading anything, which may be not at all."""
        return self._row or self._outline

    @property
    def is_known(self) -> bool:
        """Whether the whole row is known."""
        return self._row is not None

    @property
    @locked
    def is_quickly_read(self) -> bool:
        """Whether the parts that are not sealed are small."""
        self._look_once()
        return self.source.unsealed_bytes <= _QUICK_BYTES

    @property
    def is_outlined(self) -> bool:
        """Whether a row is known, at least of identity and newest records."""
        return self._row is not None or self._outline is not None

    @locked
    def outline(self) -> RunInfo:
        """Like ``info``, from what is known or quickly read; see ``RunInfo.is_partial``."""
        row = self.known_row
        if not row.is_partial:
            return self.info
        info = row.info(self.id, folder=self._where, status=self._status_of(row))
        return info if info.fork is None else self._with_fork(info)

    def _with_fork(self, info: RunInfo) -> RunInfo:
        """The same, with whether the parent of a fork is gone: that changes without the fork."""
        fork, source = info.fork, self.source
        if fork is None or fork.is_kept or not isinstance(source, FolderSource):
            return info
        return msgspec.structs.replace(
            info, fork=replace(fork, is_gone=not source.has_parent(fork))
        )

    def _make_row(self) -> Row:
        row = self._make_small_row()
        if row is None:
            row = self._make_full_row()
            if row.is_tiny:
                RowSummaries(row).keep_all(self._ask)
        if self._num_records is not None and row.records > self._num_records:
            self._grew_at = time.time()
        self._num_records = row.records
        self._tell_news()
        return row

    def _make_small_row(self) -> Row | None:
        """The row of a run that one read of a small file says all of; None for any other."""
        self._look_once()
        small = None if self._reader.state is not None else self.source.small()
        if small is None:
            return None
        return small_row(
            self._names,
            small,
            self.source,
            own_id=self.own_id,
            created=self.created,
            labels=self.labels,
        )

    def _make_full_row(self) -> Row:
        return self._ask(
            lambda state: make_row(
                self._names,
                state,
                self.source,
                own_id=self.own_id,
                created=self.created,
                labels=self.labels,
                rules=self._rules,
            )
        )

    def _tell_news(self) -> None:
        if not self.has_news:
            self.has_news = True
            self._held.on_news(self.place)

    @property
    @locked
    def info(self) -> RunInfo:
        """The run in one row, with its status at this moment."""
        if self.row.unwatched:
            self._held.guard.run(self.place, self._work_out_little)
        row = self.row
        info = row.info(self.id, folder=self._where, status=self._status_of(row))
        return info if info.fork is None else self._with_fork(info)

    @property
    @locked
    def found(self) -> FindingCounts | None:
        """The counts of its findings, as in ``info``; None where no rule has run."""
        if self.row.unwatched:
            self._held.guard.run(self.place, self._work_out_little)
        return self.row.found_by(self.status)

    def _work_out_little(self) -> None:
        """Run the rules over the few records that a killed companion did not read."""
        row = self.row
        if row.found is None or row.unwatched > _FEW_RECORDS:
            return
        if row.is_partly_watched(self.status):
            self.findings(most=None)

    @property
    @locked
    def status(self) -> Status:
        """The status of the run at this moment."""
        return self._status_of(self.row)

    @property
    def known_status(self) -> Status:
        """The status as far as the run is known; reads no more of it."""
        row = self._row
        if row is not None and self._ended_row is row and self._ended is not None:
            return self._ended  # without the lock: lists ask this of every run
        with self.lock:
            return self._status_of(self.known_row)

    def _status_of(self, row: Row) -> Status:
        if self._ended is not None and self._ended_row is row:
            return self._ended
        if row.is_unreadable:
            return UNREADABLE
        status = row.status(now=time.time(), grew=self._grew_at)
        if not status.is_live and status.text != GONE:
            # What has ended stays so, and a process that is gone does not come back.
            self._ended, self._ended_row = status, row
        return status

    @property
    @locked
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        return self.row.config

    @property
    @locked
    def facts(self) -> Mapping[str, Any]:
        """The content of run.json; the first record of the journal where it is missing."""
        return dict(self._told)

    @property
    @locked
    def labels(self) -> Labels:
        """What people changed later."""
        if self._row is not None:
            return self._row.labels
        self._look_once()
        return self.source.labels

    @locked
    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels as they are stored now; see ``epochal.store.store``."""
        self.source.relabel(edit)
        self.refresh()

    @property
    def _told(self) -> Mapping[str, Any]:
        self._look_once()
        return self.source.run_json or self._ask(_header)

    @locked
    def keep_history(self) -> list[PartName]:
        """Copy what a fork has from its parent into its own folder; raises ``OSError``."""
        folder, run_json = RunFolder(self.path), self._told
        if fork_of(run_json) is None:
            return []
        written = self._ask(
            lambda state: keep_history(folder, run_json, state.parts, state.cuts("step"))
        )
        if written:
            self._reader.release()
            self.refresh()
        return written

    @property
    def _rules(self) -> RuleSettings:
        """The settings of rules that the run recorded, else the reader's."""
        rules = self.source.run_json.get("rules")
        return self._held.rules if rules is None else recorded_rules(rules)


def _header(state: RunState) -> Record:
    return state.header or {}
