"""Event streams: each follows some runs, and the list of runs, from a position on.

A stream asks for what is new a few times a second. What was read of a run from one position is
shared by all streams at that position. A client that reads slowly is asked to fetch everything
again when it is too far behind; nothing is queued for it.

``ListChanges`` finds the rows of the list that streams do not have yet. Its cost follows what has
changed, not how many runs are live.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import suppress

import msgspec

from epochal.base.guard import Guard
from epochal.errors import EpochalError, RunNotFoundError
from epochal.journal.entries import Cursor
from epochal.journal.row import LIVE_STATES, RunRow
from epochal.server import wire
from epochal.server.reader import Catalog, Reader
from epochal.server.rows import run_row
from epochal.server.updates import (
    Cursors,
    RunUpdates,
    UpdateFilter,
    WriterRanks,
    format_cursors,
    read_updates,
)
from epochal.store.run import RunView
from epochal.store.run_files import Machine
from epochal.version import __version__

POLL_S = 0.25
HEARTBEAT_S = 15.0
RETRY_MS = 1000
MAX_STREAMS = 2000
STATUS_EVERY_S = 1.0
# What was read is shared for less time than passes between two polls of one stream.
_SHARED_S = 0.8 * POLL_S
# Rows of the runs that are followed are made in at most so much of the time.
_ROWS_SHARE = 0.1
_ROWS_KEPT_S = 60.0
# A first list that takes longer is sent when it is ready.
LIST_TIMEOUT_S = 2.0
# Runs that are not read in this time get their updates later than the others.
_READ_TIMEOUT_S = 0.1
# A stream that missed more changes of the list fetches it again.
_LISTS_KEPT = 16


def encode_event(
    name: str, data: object, *, position: str | None = None, retry_ms: int | None = None
) -> bytes:
    """Encode one event; JSON has no raw newlines, so its data is one line."""
    head = "" if retry_ms is None else f"retry: {retry_ms}\n"
    if position is not None:
        head += f"id: {position}\n"
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


class Subscription(msgspec.Struct, frozen=True):
    """What one stream subscribes to."""

    runs: tuple[str, ...] = ()
    update_filter: UpdateFilter = msgspec.field(default_factory=UpdateFilter)
    live: bool = False


class _News(msgspec.Struct, frozen=True):
    """What there is of a run since a position; ``updates`` None for a run that is gone."""

    updates: RunUpdates | None = None
    row: RunRow | None = None
    machines: Sequence[Machine] = ()


class EventStreams:
    """All event streams of a server, and what they share."""

    def __init__(self, reader: Reader, guard: Guard) -> None:
        self._reader = reader
        self._guard = guard
        self._ranks = WriterRanks()
        self._reads: dict[object, tuple[float, asyncio.Task[_News | None]]] = {}
        # The newest row of each run, and when it is made again.
        self._rows: dict[str, tuple[float, RunRow]] = {}
        self._list_changes = ListChanges(reader.catalog)
        self._listing = asyncio.Lock()
        self._lists: deque[bytes] = deque(maxlen=_LISTS_KEPT)
        self._num_lists = 0
        self._closing = asyncio.Event()
        self.num_streams = 0

    def close(self) -> None:
        self._closing.set()

    async def poll(self) -> None:
        """Look for changes of the list; forget what no stream asks for any more."""
        now = time.monotonic()
        self._reads = {
            key: (until, task)
            for key, (until, task) in self._reads.items()
            if until > now or not task.done()
        }
        kept = now - _ROWS_KEPT_S
        self._rows = {run: (due, row) for run, (due, row) in self._rows.items() if due > kept}
        if self.num_streams:
            await self._refresh_list()

    async def follow(
        self, subscription: Subscription, since: Cursors | None, may_go_on: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Batches of events after ``since``, or from now on where that is None."""
        self.num_streams += 1
        try:
            if not self._list_changes.has_list:  # later changes are relative to this list
                await asyncio.wait(
                    {asyncio.create_task(self._refresh_list())}, timeout=LIST_TIMEOUT_S
                )
            num_lists, stream = self._num_lists, _Stream(self, subscription, since)
            events, others = await stream.read(timeout_s=None)
            ready = wire.ReadyEvent(wire.WIRE_VERSION, __version__, stream.position)
            first = encode_event("ready", ready, position=stream.position, retry_ms=RETRY_MS)
            yield b"".join([*events, first, *others])
            while may_go_on() and not self._closing.is_set():
                events, others = await stream.read(timeout_s=_READ_TIMEOUT_S)
                missed, num_lists = self._num_lists - num_lists, self._num_lists
                if missed > len(self._lists):
                    others.append(encode_event("runs", ALL_CHANGED))
                elif missed:
                    others += list(self._lists)[-missed:]
                if events or others:
                    yield b"".join([*events, *others])
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), POLL_S)
        finally:
            self.num_streams -= 1

    def read(self, run_id: str, since: Cursor | None, *, live: bool) -> asyncio.Task[_News | None]:
        """What there is of a run since a position; None while it cannot be read."""
        if since is None:
            return asyncio.create_task(self._guarded_read(run_id, None, live=live))
        key, now = (run_id, format_cursors({run_id: since}), live), time.monotonic()
        known = self._reads.get(key)
        if known is None or (known[1].done() and known[0] <= now):
            task = asyncio.create_task(self._guarded_read(run_id, since, live=live))
            known = self._reads[key] = (now + _SHARED_S, task)
        return known[1]

    async def _guarded_read(self, run_id: str, since: Cursor | None, *, live: bool) -> _News | None:
        def query(run: RunView) -> _News:
            end = run.end()
            if since is None or since == end:
                updates = RunUpdates(end)
            else:
                updates = read_updates(run, run_id, since, self._ranks)
            return _News(updates, self._row(run, run_id), run.machines() if live else ())

        # A run that has gone is searched for once; the list finds it when it comes back.
        if since == {} and self._reader.catalog.store.find(run_id) is None:
            return _News()
        found: _News | None = None
        with self._guard.member("event stream", expected=(EpochalError,)) as outcome:
            found = await self._reader.query_run(run_id, query)
        return _News() if isinstance(outcome.error, RunNotFoundError) else found

    def _row(self, run: RunView, run_id: str) -> RunRow:
        started = time.monotonic()
        known = self._rows.get(run_id)
        if known is not None and started < known[0]:
            return known[1]
        row, done = run_row(run), time.monotonic()
        rest_s = (done - started) * len(self._rows) / _ROWS_SHARE
        self._rows[run_id] = (done + max(STATUS_EVERY_S, rest_s), row)
        return row

    async def _refresh_list(self) -> None:
        async with self._listing:
            with self._guard.member("event stream"):
                event = await self._reader.query(self._list_changes.find)
                if event is not None:
                    self._lists.append(encode_event("runs", event))
                    self._num_lists += 1


class _Stream:
    """How far one stream is, and what it has sent."""

    def __init__(
        self, streams: EventStreams, subscription: Subscription, since: Cursors | None
    ) -> None:
        self._streams = streams
        self._subscription = subscription
        self._cursors: dict[str, Cursor | None] = {
            run: None if since is None else since.get(run, {}) for run in subscription.runs
        }
        self._gone: set[str] = set()
        self._rows: dict[str, RunRow] = {}
        self._machines: dict[str, tuple[float, ...]] = {}
        self._heartbeat_after = time.monotonic() + HEARTBEAT_S

    @property
    def position(self) -> str:
        """The position as text, for the id of an event."""
        return format_cursors(
            {
                run: cursor
                for run, cursor in self._cursors.items()
                if cursor is not None and run not in self._gone
            }
        )

    async def read(self, *, timeout_s: float | None) -> tuple[list[bytes], list[bytes]]:
        """New events of the runs that are read in this time: records and resets, then others."""
        live = self._subscription.live
        reads = {
            run: self._streams.read(run, cursor, live=live) for run, cursor in self._cursors.items()
        }
        if reads:
            await asyncio.wait(reads.values(), timeout=timeout_s)
        events, others = list[bytes](), list[bytes]()
        for run, task in reads.items():
            news = task.result() if task.done() else None
            if news is None:
                continue
            if news.updates is None:
                events += self._lost(run)
                continue
            self._gone.discard(run)
            self._cursors[run] = news.updates.end
            events += self._events(run, news.updates)
            if news.row is not None and news.row != self._rows.get(run):
                self._rows[run] = news.row
                others.append(encode_event("status", wire.StatusEvent(news.row)))
            times = tuple(machine.t for machine in news.machines)
            if times != self._machines.get(run, ()):
                self._machines[run] = times
                others.append(encode_event("live", wire.LiveEvent(run, list(news.machines))))
        if time.monotonic() >= self._heartbeat_after:
            # It has the position, which advances past records that are filtered out, too.
            self._heartbeat_after = time.monotonic() + HEARTBEAT_S
            beat = wire.HeartbeatEvent(time.time())
            others.append(encode_event("heartbeat", beat, position=self.position))
        return events, others

    def _lost(self, run: str) -> list[bytes]:
        """The event of a run that has gone; everything is sent of it when it comes back."""
        before, self._cursors[run] = self._cursors[run], {}
        if run in self._gone:
            return []
        self._gone.add(run)
        if before is None:
            return []
        return [encode_event("reset", wire.ResetEvent(run, "gone"), position=self.position)]

    def _events(self, run: str, updates: RunUpdates) -> list[bytes]:
        if updates.reset is not None:
            reset = wire.ResetEvent(run, updates.reset)
            return [encode_event("reset", reset, position=self.position)]
        points, entries, is_partial = updates.filtered(self._subscription.update_filter)
        if not (points or entries or is_partial):
            return []
        event = wire.RecordsEvent(run, points, entries, is_partial)
        return [encode_event("records", event, position=self.position)]


MAX_ROWS_SENT = 200
# Of runs without news that may be live, so many have their rows made at each look.
MAX_SILENT_ROWS = 50
_LIVE_QUERY = f"status in {json.dumps(LIVE_STATES)}"
ALL_CHANGED = wire.RunsEvent([], [], [], all=True)


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

    def find(self) -> wire.RunsEvent | None:
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

    def _changes_of(self, run_ids: Set[str], news: Set[str]) -> wire.RunsEvent | None:
        """Make the rows of some runs; ``news`` are those whose files have changed."""
        assert self._listed is not None
        added: list[RunRow] = []
        changed: list[RunRow] = []
        removed: list[str] = []
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
        return wire.RunsEvent(added, changed, removed, all=False)

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
