"""The runs of a list as queries see them: rows of the index, without opening a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import msgspec

from epochal.errors import MetricNotFoundError
from epochal.journal.metrics import Metric
from epochal.journal.row import Status
from epochal.records import Axis
from epochal.records.values import flat_items
from epochal.series.summary import Summary
from epochal.store.local.index import Index
from epochal.store.local.row import known_summary
from epochal.store.local.run import LocalRun
from epochal.store.metrics import resolve
from epochal.store.row import RowDetails, RunRow, StoredRow
from epochal.store.selection import search_text_of

# The last points of so many runs are read whatever the clock says: a short list is complete.
_FEW = 100


@dataclass(slots=True, eq=False)
class Entry:
    """A run that a scan found, and what is known of it.

    ``signature`` is of its files at the last look, None before the first. ``stamp`` replaces it for
    a run that has ended. ``level`` is 0 without a row, 1 with a partial one, 2 with a full one;
    ``is_current``: the row is of the files as they are. ``run`` keeps a live run in memory.
    """

    place: str
    index: Index
    signature: str | None = None
    stamp: str | None = None
    own_id: str | None = None
    id: str | None = None
    created: float | None = None
    level: int = 0
    is_current: bool = False
    made_at: float = 0.0
    run: LocalRun | None = None

    @property
    def is_listed(self) -> bool:
        """Whether a list can show it."""
        return self.level > 0 and self.id is not None

    @property
    def is_unindexed(self) -> bool:
        """Whether the index could not keep its row: then the run itself has it."""
        return self.run is not None and not self.run.is_indexed

    @property
    def is_read(self) -> bool:
        """Whether its full row is known, and an id by which a list shows it."""
        return self.is_current and self.level == 2 and self.id is not None


@dataclass(slots=True)
class Budget:
    """How long a list may read points, and the runs that it could not judge for that reason."""

    until: float = math.inf
    num_read: int = 0
    unread: dict[str, tuple[Metric, int] | None] = field(default_factory=dict)

    def may_read(self) -> bool:
        """Whether there is time for the points of one more run."""
        self.num_read += 1
        return self.num_read <= _FEW or time.monotonic() < self.until


class ListedRun:
    """A run as the evaluator of queries sees it."""

    __slots__ = ("_budget", "_details", "_open", "_status", "entry", "stored")

    def __init__(
        self, entry: Entry, stored: StoredRow, budget: Budget, open_run: Callable[[Entry], LocalRun]
    ) -> None:
        self.entry = entry
        self.stored = stored
        self._budget = budget
        self._open = open_run
        self._status: Status | None = None
        self._details: RowDetails | None = None

    @property
    def id(self) -> str:
        return self.entry.id or self.stored.row.id

    @property
    def row(self) -> RunRow:
        """Its row, without status and counts."""
        return self.stored.row

    @property
    def status(self) -> Status:
        if self._status is None:
            run = self.entry.run
            grew = None if run is None else run.grew_at
            stored = self.stored
            self._status = stored.basis.status(stored.row.updated, now=time.time(), grew=grew)
        return self._status

    @property
    def info(self) -> RunRow:
        """Its row at this moment; without counts of findings where it was not read yet."""
        if self.stored.basis.is_partly_watched(self.status):
            # Has rules read the few records that a killed companion did not.
            return self._open(self.entry).info
        if self.row.is_partial:
            return msgspec.structs.replace(self.row, id=self.id, status=self.status)
        return self.stored.at(self.status, run_id=self.id)

    @property
    def search_text(self) -> str:
        return search_text_of(self.row, self.id)

    @property
    def details(self) -> RowDetails:
        """Its series and their summaries."""
        if self._details is None and self.entry.is_unindexed:
            self._details = self._open(self.entry).details
        if self._details is None:
            self._details = self.entry.index.details(self.entry.place) or RowDetails()
        return self._details

    def metric(self, name: str) -> Metric | None:
        """The metric that a name means; None where the run was not read yet."""
        if self.row.is_partial:
            self._budget.unread[self.entry.place] = None
            return None
        return resolve(name, self.details.metrics, self.details.set_metrics)

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        found = known_summary(self.stored, self.details, name, rank, axis)
        return found or self._open(self.entry).summary(name, rank=rank, axis=axis)

    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """The summary of the last points of a metric; kept with the row once it was read.

        Raises ``MetricNotFoundError`` where the time for reading points is over.
        """
        known = self.details.tail(metric, num_points)
        if known is not None:
            return known
        if not self._budget.may_read():
            self._budget.unread[self.entry.place] = (metric, num_points)
            raise MetricNotFoundError("the last points have not been read yet.")
        return self._open(self.entry).tail_summary(metric, num_points)

    def names(self) -> Iterable[str]:
        details = self.details
        yield from (metric.name for metric in (*details.metrics, *details.set_metrics))
        yield from (f"config.{key}" for key, _ in flat_items(self.row.config))


class LazyRuns(Sequence[LocalRun]):
    """Runs of a list, each opened when it is asked for."""

    def __init__(self, entries: Sequence[Entry], open_run: Callable[[Entry], LocalRun]) -> None:
        self._entries = entries
        self._open = open_run

    @property
    def ids(self) -> list[str]:
        """Their ids; opens none of them."""
        return [entry.id or "" for entry in self._entries]

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> LocalRun: ...
    @overload
    def __getitem__(self, place: slice) -> LazyRuns: ...
    def __getitem__(self, place: int | slice) -> LocalRun | LazyRuns:
        if isinstance(place, slice):
            return LazyRuns(self._entries[place], self._open)
        return self._open(self._entries[place])

    def __iter__(self) -> Iterator[LocalRun]:
        return map(self._open, self._entries)
