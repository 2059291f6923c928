"""One run on disk, with every query of the store about it."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from epochal.errors import MetricNotFoundError, UsageError
from epochal.health.finding import Evaluated
from epochal.records import Axis, Position, Record
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.store.answers import (
    Cursor,
    Entry,
    Labels,
    LabelsEdit,
    Machine,
    Metric,
    RunInfo,
    Status,
)
from epochal.store.finding_counts import FindingCounts
from epochal.store.local.cache import MemoryBudget, locked
from epochal.store.local.cached_row import CachedRow
from epochal.store.local.findings import RECORDS_A_LOOK, RunFindings
from epochal.store.local.folder import FolderSource
from epochal.store.local.fork import fork_of, keep_history
from epochal.store.local.index import IndexEntry, Stamp
from epochal.store.local.run_files import patch_file
from epochal.store.local.state import RunReader
from epochal.store.local.summaries import all_series
from epochal.store.metrics import no_metric, set_role
from epochal.store.row import Row
from epochal.store.selection import search_text_of
from epochal.store.store import RunView

_SETTLED_S = 60.0
# So few that the health rules see them in a fraction of a second.
_FEW_RECORDS = 1000
# A journal of this size is read in a fraction of a second.
_QUICK_BYTES = 8 * 1024 * 1024
# What each run's series are held under: an ``id()`` would be given to another run later.
_KEYS = itertools.count()


class LocalRun(RunView):
    """A run and its source; nothing of it is read before the first query.

    Its reader keeps the state of its parts, its cached row what lists show of it. Each method takes
    ``lock``; see ``RunView.lock``.
    """

    def __init__(self, source: FolderSource, *, held: MemoryBudget | None = None) -> None:
        self.source = source
        self.lock = threading.RLock()
        self._held = MemoryBudget() if held is None else held
        self._key = next(_KEYS)
        self._reader = RunReader(source, self)
        self._cached = CachedRow(source, self._reader, self._held, self.lock)
        self.turn = self._cached.turn
        # Its number among the runs of its store with the same id; copies of a folder have one id.
        self.copy = 1

    @cached_property
    def _findings(self) -> RunFindings:
        return RunFindings(self._reader, self._cached)

    # -- reading ----------------------------------------------------------------------------------

    def on_change(self) -> None:
        """Drop the row: the files have changed."""
        self._cached.drop()

    def on_read(self) -> None:
        """Drop the series, and count the memory: parts were read."""
        self._held.series.drop(self._key)
        self._held.loaded.grown(self)

    def look_again(self) -> None:
        """Look at the files, with the lock held; what is new is read when a query needs it."""
        self._cached.or_faulty(self._reader.look, lambda row: True)

    @locked
    def refresh(self) -> bool:
        """Look for what was written since; True when there was anything."""
        return self._reader.refresh()

    @property
    def is_unchanged(self) -> bool:
        """Whether its files are for sure as they were; without the lock, for lists of thousands."""
        return self._reader.is_unchanged

    @property
    def was_looked_at(self) -> bool:
        """Whether anything is known of its files yet."""
        return self._reader.num_changes > 0

    @property
    def version(self) -> int:
        """How often the files have changed since the first look."""
        return max(self._reader.num_changes - 1, 0)  # the first look finds no change

    def recall_unchanged(self, stamp: Stamp, row: Row) -> None:
        """Use a row of the index; the files have its stamp, as was just seen."""
        with self.lock:
            if self._cached.whole is None:
                self._reader.trust(stamp)
                self._cached.recall(row)

    @locked
    def recall(self, entry: IndexEntry, row_of: Callable[[IndexEntry], Row | None]) -> None:
        """Use a row of the index, if the files have not changed since."""
        if self._cached.whole is not None:
            return
        stamp = entry.stamp
        if stamp is not None and self.source.has_stamp(stamp):
            self._reader.trust(stamp)
        elif entry.signature != self.signature:
            return
        self._cached.recall(row_of(entry))

    @locked
    def remembered(self) -> tuple[str, Stamp | None, Row]:
        """What the index keeps: signature, stamp and row; the run is settled."""
        self._cached.is_changed = False
        row = self.known_row
        stamp = self._reader.trust_unchanged(since_s=_SETTLED_S) if row.is_ended else None
        return self.signature, stamp, row

    @property
    @locked
    def signature(self) -> str:
        """A digest of the files and rules that the row was made from."""
        self._reader.look_once()
        # The reader's rules change which findings are made.
        return f"{self.source.signature}{self._held.rules.digest}"

    @property
    @locked
    def is_settled(self) -> bool:
        """Whether nothing was written to the run for a minute."""
        self._reader.look_once()
        return time.time() - self.source.newest_s > _SETTLED_S

    @property
    def held_bytes(self) -> int:
        """About how many bytes of the run are in memory."""
        return self.source.held_bytes

    def release(self) -> bool:
        """Free what was read; False while the run grows, or another thread reads it: never waits,
        as another run's lock is held.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self._reader.state is None or not self.is_settled:
                return False
            _ = self.row  # lists ask for it
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

    def close_unless_read(self) -> None:
        """Close a run that is no longer listed; one that is being read is left to its reader."""
        if self.lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.lock.release()

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
        """The id that the run recorded; the folder's name where it recorded none."""
        return self._cached.own_id

    @property
    def has_recorded_id(self) -> bool:
        """Whether an id was recorded; a run that is just being created has none for a moment."""
        return self.own_id != self._cached.folder.rpartition(os.sep)[2]

    @property
    def id(self) -> str:
        """The id of this run and of no other in its store."""
        own_id = self._cached.own_id
        return own_id if self.copy == 1 else f"{own_id}~{self.copy}"

    @property
    def created(self) -> float:
        """When the run was created, in Unix seconds; the folder's time where no file says it."""
        return self._cached.created

    @property
    def row(self) -> Row:
        """Everything that lists and queries read of the run."""
        return self._cached.row

    @property
    def known_row(self) -> Row:
        """The row as far as it is known: whole, or of identity and newest records alone."""
        return self._cached.known

    @property
    def search_text(self) -> str:
        """Name, id and tags in lower case, a line each."""
        return search_text_of(self.row, self.id)

    @property
    def row_in_memory(self) -> Row | None:
        """The row as far as it is known without reading anything, which may be not at all."""
        cached = self._cached
        return cached.whole or cached.partial

    @property
    def is_known(self) -> bool:
        """Whether the whole row is known."""
        return self._cached.whole is not None

    @property
    def is_outlined(self) -> bool:
        """Whether a row is known, at least of identity and newest records."""
        return self.row_in_memory is not None

    @property
    @locked
    def is_quickly_read(self) -> bool:
        """Whether the parts that are not sealed are small."""
        self._reader.look_once()
        return self.source.unsealed_bytes <= _QUICK_BYTES

    @locked
    def brief(self) -> RunInfo:
        """Id, names and labels; the journal is read only where run.json is missing."""
        return self._cached.brief(self.id)

    @locked
    def outline(self) -> RunInfo:
        """Like ``info``, from what is known or quickly read; see ``RunInfo.is_partial``."""
        row = self.known_row
        if not row.is_partial:
            self._diagnose_little(row)
        return self._cached.info(self._cached.whole or row, self.id)

    @property
    @locked
    def info(self) -> RunInfo:
        """The run in one row, with its status at this moment."""
        self._diagnose_little(self.row)
        return self._cached.info(self.row, self.id)

    @property
    @locked
    def found(self) -> FindingCounts | None:
        """The counts of its findings, as in ``info``; None where no rule has run."""
        self._diagnose_little(self.row)
        return self.row.found_by(self.status)

    def _diagnose_little(self, row: Row) -> None:
        """Run the rules over the few records that a killed companion did not read."""
        if row.found is not None and 0 < row.unwatched <= _FEW_RECORDS:
            status = self._cached.status_of(row)
            if row.is_partly_watched(status):
                self._held.guard.run(self.place, self._findings.entries, status)

    @property
    @locked
    def status(self) -> Status:
        """The status of the run at this moment."""
        return self._cached.status_of(self.row)

    @property
    def known_status(self) -> Status:
        """The status as far as the run is known; reads no more of it."""
        return self._cached.known_status

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        return self.row.config

    @property
    @locked
    def facts(self) -> Mapping[str, Any]:
        """The content of run.json; the first record of the journal where it is missing."""
        return dict(self._cached.facts)

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        return self._cached.labels

    @locked
    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels as they are stored now; see ``epochal.store.store``."""
        self.source.relabel(edit)
        self.refresh()

    # -- numbers ----------------------------------------------------------------------------------

    @locked
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self.row.metrics)

    @locked
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return list(self.row.details.set_metrics)

    @locked
    def role(self, role: str) -> Metric | None:
        """The metric that plays a role, defined or guessed."""
        return next((metric for metric in self.row.metrics if metric.role == role), None)

    @locked
    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series; raises ``MetricNotFoundError``, ``FormatError``."""
        key = self._reader.ask(lambda state: state.find(name, axis, rank))
        if key is None:
            raise self._no_metric(name, rank, axis)
        self._held.loaded.used(self)
        series = self._held.series.get(self._key, key, rank)
        if series is None:
            series = self._reader.ask(lambda state: state.series(key, rank))
            self._held.series.put(series, self._key, key, rank)
        return series

    @locked
    def all_series(self, axis: Axis, *, rank: int = 0) -> list[Series]:
        """Every series of a rank on an axis, in order of first appearance; raises ``FormatError``.

        They are not kept for the next query.
        """
        return self._reader.ask(lambda state: all_series(state, axis, rank))

    @locked
    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        return self._cached.summaries.metric(name)

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """First, last, extremes and mean of a series, kept; raises ``MetricNotFoundError``."""
        row = self._cached.whole
        if row is not None and axis is not None and not row.summary_set:
            known = row.summary(name, axis, rank)
            if known is not None:  # without the lock: lists ask this of every series
                return known
        return self._find_summary(name, rank, axis)

    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """The same of the last points of the lowest rank that has the metric; not kept."""
        series = self.series(metric.name, rank=metric.ranks[0], axis=metric.axis)
        return series.select(slice(-num_points, None)).summary

    @locked
    def _find_summary(self, name: str, rank: int, axis: Axis | None) -> Summary:
        summaries = self._cached.summaries
        num_kept = len(summaries.row.summaries)
        found = summaries.find(
            name,
            axis,
            rank,
            ask=self._reader.ask,
            read=lambda on: self.series(name, rank=rank, axis=on),
        )
        if found is None:
            raise self._no_metric(name, rank, axis)
        if len(summaries.row.summaries) > num_kept:
            self._cached.note_change()
        return found

    def latest(self, role: str) -> float | None:
        """The last value of the metric that plays a role on rank 0; None without one."""
        row = self.known_row
        if role in row.latest:  # without the lock: lists ask this of every run
            return row.latest[role]
        return None if row.is_partial else self._find_latest(row, role)

    @locked
    def _find_latest(self, row: Row, role: str) -> float | None:
        metric = self.role(role) or set_role(role, row.details.set_metrics)
        if metric is None or 0 not in metric.ranks:
            return None
        row.latest[role] = self.summary(metric.name, axis=metric.axis).last
        return row.latest[role]

    def _no_metric(self, name: str, rank: int, axis: Axis | None) -> MetricNotFoundError:
        run, metrics = self.brief().name, self.row.metrics
        return MetricNotFoundError(no_metric(name, metrics, run=run, rank=rank, axis=axis))

    # -- records ----------------------------------------------------------------------------------

    @locked
    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds in the order of steps, then of time."""
        return self._reader.ask(lambda state: state.entries(*kinds, name=name, rank=rank))

    @locked
    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names."""
        named = {entry.record.get("file") for entry in self.entries("blob", rank=None)}
        if file not in named or Path(file).name != file:
            raise UsageError(f"run {self.brief().name!r} has no blob {file!r}.")
        return self.source.blob(file)

    @locked
    def patch(self) -> bytes:
        """The changes that were not committed, from the file that run.json names."""
        file = patch_file(self._cached.facts)
        try:
            return b"" if file is None else self.source.blob(file)
        except (UsageError, OSError):  # deleted since, or left out of a copy
            return b""

    @locked
    def findings(self, *, most: int | None = RECORDS_A_LOOK) -> list[Entry]:
        """Findings of the health rules; a call that reads ``most`` records is continued later."""
        return self._findings.entries(self.status, most=most)

    @locked
    def evaluated(self) -> Evaluated | None:
        """How many records the rules saw; None while some of it is unknown."""
        return self._findings.evaluated()

    @locked
    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself: recorded ones by time, then those of reading the run here."""
        return self._findings.errors(self._held.guard.faults.get(self.place))

    @locked
    def machines(self) -> Sequence[Machine]:
        """The newest readings of its machines; none when no companion measures them."""
        return self.source.machines()

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given.

        Hold ``lock`` while iterating where other threads ask the store too.
        """
        return self._reader.records(self._reader.ask(lambda state: state), since, self.lock)

    @locked
    def end(self) -> Cursor:
        """The position of the last record of each writer."""
        state = self._reader.state
        return self.row.end if state is None else state.end()
