"""Which rows of the list event streams do not have yet.

The cost of a look follows what has changed, not how many runs are live.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Set

from epochal.server.reader import Catalog
from epochal.server.rows import run_row
from epochal.server.wire import RunsEvent
from epochal.store.answers import LIVE_STATES
from epochal.store.row import RunRow

MAX_ROWS_SENT = 200
# Of runs without news that may be live, so many have their rows made at each look.
MAX_SILENT_ROWS = 50
_LIVE_QUERY = f"status in {json.dumps(LIVE_STATES)}"
ALL_CHANGED = RunsEvent([], [], [], all=True)


class ListChanges:
    """What the event streams of a server know of its list; one thread at a time uses it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # The runs that streams know of; None before the first look.
        self._listed: set[str] | None = None
        # Rows as last sent, of runs that have changed since.
        self._rows: dict[str, RunRow] = {}
        # Runs that are live, or may be: their state may change without a record. The one whose row
        # was made longest ago is first.
        self._live: dict[str, None] = {}
        # Changed runs that another thread was reading at the last look.
        self._busy: set[str] = set()

    @property
    def has_list(self) -> bool:
        """Whether later changes are relative to a list."""
        return self._listed is not None

    def find(self) -> RunsEvent | None:
        """What has changed since the last call; None for nothing.

        Where more has changed than is sent, streams fetch the list, and no row is made here:
        hundreds of live runs change at every look.
        """
        catalog = self._catalog
        refreshed = catalog.refresh()
        if self._listed is None:
            self._listed = set(catalog.known_runs().ids)
            self._live = dict.fromkeys(catalog.known_runs(_LIVE_QUERY).ids)
            catalog.changed()
            return ALL_CHANGED
        # Requests refresh the catalog too; the changes they found count here as well.
        news, self._busy = catalog.changed() | self._busy, set()
        if len(news) > MAX_ROWS_SENT:
            self._note_many(news)
            return ALL_CHANGED
        # Of a run without news only time can change the row.
        num_silent = MAX_SILENT_ROWS if refreshed else 0
        return self._changes_of(news.union(itertools.islice(self._live, num_silent)), news)

    def _changes_of(self, run_ids: Set[str], news: Set[str]) -> RunsEvent | None:
        """Make the rows of some runs; ``news`` are those whose files have changed."""
        assert self._listed is not None
        added: list[RunRow] = []
        changed: list[RunRow] = []
        removed: list[str] = []
        if run_ids:
            self._catalog.read_small()
        for run_id in sorted(run_ids):
            run = self._catalog.store.find(run_id)
            if run is None:
                removed += [run_id] if self._forget(run_id) else []
                continue
            if not run.lock.acquire(blocking=False):
                self._busy |= news & {run_id}
                continue
            try:
                row = run_row(run, whole=False)
            finally:
                run.lock.release()
            if self._keep(row, is_new=run_id in news):
                (changed if run_id in self._listed else added).append(row)
                self._listed.add(run_id)
        if not (added or changed or removed):
            return None
        return RunsEvent(added, changed, removed, all=False)

    def _keep(self, row: RunRow, *, is_new: bool) -> bool:
        """Keep a row; whether streams have another one."""
        before, self._rows[row.id] = self._rows.get(row.id), row
        was_live, is_live = row.id in self._live, row.status.state in LIVE_STATES
        self._live.pop(row.id, None)
        if is_live:
            self._live[row.id] = None  # behind all others
        # A row that was never sent is as streams fetched it, unless the run has ended since.
        return before != row and (is_new or before is not None or (was_live and not is_live))

    def _note_many(self, run_ids: Set[str]) -> None:
        """Runs of which no row is sent: later looks find out which of them are live."""
        assert self._listed is not None
        for run_id in run_ids:
            if self._catalog.store.find(run_id) is None:
                self._forget(run_id)
            else:
                self._rows.pop(run_id, None)
                self._listed.add(run_id)
                self._live.setdefault(run_id)

    def _forget(self, run_id: str) -> bool:
        """Forget a run that is gone; whether streams know of it."""
        assert self._listed is not None
        self._live.pop(run_id, None)
        self._rows.pop(run_id, None)
        was_listed = run_id in self._listed
        self._listed.discard(run_id)
        return was_listed
