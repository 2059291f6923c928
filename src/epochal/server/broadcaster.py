"""Sends updates to all event streams: polls the subscribed runs and encodes each batch once.

Streams with the same subscription at the same position share a channel: its updates are read and
encoded once for all listeners. Methods named ``_in_thread`` run in the broadcaster's own thread and
hold the locks of the runs they read. All batches leave that thread in order, so no listener gets
one twice or misses one. The thread never waits for a run: slow reads happen first in the reader's
threads. A run that another thread is reading gets its updates at a later poll.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec

from epochal.errors import EpochalError
from epochal.guard import Guard
from epochal.server.list_changes import ListChanges
from epochal.server.pool import ThreadPool
from epochal.server.reader import Reader, RunBusyError, reading_failure
from epochal.server.rows import run_row
from epochal.server.updates import (
    Cursors,
    MachineUpdates,
    RunUpdates,
    UpdateFilter,
    WriterRanks,
    format_cursors,
    read_updates,
)
from epochal.server.wire import (
    WIRE_VERSION,
    HeartbeatEvent,
    ReadyEvent,
    RecordsEvent,
    ResetEvent,
    ResetReason,
    StatusEvent,
)
from epochal.store.answers import Cursor
from epochal.store.row import RunRow
from epochal.store.store import RunView
from epochal.version import __version__

POLL_S = 0.25
HEARTBEAT_S = 15.0
RETRY_MS = 1000
MAX_STREAMS = 2000
# A client with more bytes waiting reads too slowly: it is told to fetch everything again.
MAX_WAITING_BYTES = 4 * 1024 * 1024
STATUS_EVERY_S = 1.0
# Rows of subscribed runs are made in at most so much of the time.
_ROWS_SHARE = 0.1
# A first list that takes longer is sent when it is ready.
LIST_TIMEOUT_S = 2.0
# Runs that are not read in this time get their updates later than the others.
_READ_TIMEOUT_S = 0.1
_LOCK_TIMEOUT_S = 0.02
_RETRY_S = 0.05
_STOP_TIMEOUT_S = 0.5


class Listener:
    """One client's queue of encoded events; its size is bounded."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self.closed = False

    def put(self, batch: bytes, position: str) -> None:
        """Queue a batch; a client that reads too slowly gets a reset event instead."""
        if self._size + len(batch) > MAX_WAITING_BYTES:
            self._waiting.clear()
            self._size = 0
            batch = encode_event("reset", ResetEvent(None, "behind"), position=position)
        self._waiting.append(batch)
        self._size += len(batch)
        self._wake.set()

    def close(self) -> None:
        """End the stream after the batches already taken."""
        self.closed = True
        self._wake.set()

    async def next_batch(self) -> bytes:
        """Wait for batches and return them joined; empty when the stream ends."""
        await self._wake.wait()
        self._wake.clear()
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return b"" if self.closed else taken


def encode_event(
    name: str, data: msgspec.Struct, *, position: str | None = None, retry_ms: int | None = None
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


class _Channel(msgspec.Struct):
    """The streams of one subscription, all at the same position."""

    subscription: Subscription
    cursors: dict[str, Cursor]
    listeners: list[Listener] = []
    rows: dict[str, RunRow] = {}


class Broadcaster:
    """All event streams of a server."""

    def __init__(self, reader: Reader, guard: Guard) -> None:
        self._reader = reader
        self._guard = guard
        self._thread = ThreadPool("epochal-broadcast", 1)
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._listing: asyncio.Task[None] | None = None
        self._ranks = WriterRanks()
        self._channels: dict[Subscription, _Channel] = {}
        self._list_changes = ListChanges(reader.catalog)
        self._ends: dict[str, Cursor] = {}
        self._machine_updates = MachineUpdates()
        self._status_after = self._rows_after = 0.0
        self._heartbeat_after = time.monotonic() + HEARTBEAT_S
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def num_streams(self) -> int:
        """The number of open streams."""
        return sum(len(channel.listeners) for channel in list(self._channels.values()))

    async def subscribe(self, subscription: Subscription, since: Cursors | None) -> Listener:
        """Open a stream that starts after ``since``, or now where that is None."""
        self._loop = asyncio.get_running_loop()
        listener = Listener()
        if not self._list_changes.has_list:  # later changes are relative to this list
            await asyncio.wait({self._refresh_list()}, timeout=LIST_TIMEOUT_S)
        positions = since or {}
        await asyncio.gather(
            *(self._read(run_id, positions.get(run_id)) for run_id in subscription.runs)
        )
        while True:
            try:
                await self._thread.call(
                    lambda: self._subscribe_in_thread(listener, subscription, since)
                )
            except RunBusyError:
                await asyncio.sleep(_RETRY_S)
            else:
                return listener

    async def unsubscribe(self, listener: Listener) -> None:
        """End a stream."""
        listener.close()
        await self._thread.call(lambda: self._unsubscribe_in_thread(listener))

    async def poll(self) -> None:
        """Send new updates once; does nothing while there are no streams."""
        if self._closed or not self._channels:
            return
        self._refresh_list()
        reads = {self._read_on(run_id) for run_id in self._subscribed()}
        for timeout_s in (_READ_TIMEOUT_S, POLL_S):
            if reads:
                _, reads = await asyncio.wait(reads, timeout=timeout_s)
            await self._thread.call(self._poll_in_thread)
            if not reads:
                break

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for channel in list(self._channels.values()):
            for listener in channel.listeners:
                listener.close()

    def stop(self) -> None:
        """Stop the thread; nothing is sent after this."""
        self._thread.close(timeout_s=_STOP_TIMEOUT_S)

    # -- in the reader's threads ------------------------------------------------------------------

    def _subscribed(self) -> set[str]:
        channels = list(self._channels.values())
        return {run for channel in channels for run in channel.subscription.runs}

    def _read_on(self, run_id: str) -> asyncio.Task[None]:
        """Start a task that reads a run to its end, or return the one already running."""
        task = self._reading.get(run_id)
        if task is None:
            task = self._reading[run_id] = asyncio.create_task(self._guarded_read(run_id))
            task.add_done_callback(lambda _: self._reading.pop(run_id, None))
        return task

    async def _guarded_read(self, run_id: str) -> None:
        with self._guard.member("event stream"):
            await self._read(run_id)

    async def _read(self, run_id: str, since: Cursor | None = None) -> None:
        """Read a run to its end, so that the broadcaster's thread need not."""

        def query(run: RunView) -> None:
            end = run.end()
            if since is not None and since != end:
                run.records(end)

        # Removed runs get a reset event; other errors are reported to requests for the history.
        with suppress(EpochalError):
            await self._reader.query_run(run_id, query)

    def _refresh_list(self) -> asyncio.Task[None]:
        """Start a task that refreshes the list, or return the one already running."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._send_list_changes())
        return self._listing

    async def _send_list_changes(self) -> None:
        with self._guard.member("event stream"):
            event = await self._reader.query(self._list_changes.find)
            # Streams that did not wait for the first list have an older one.
            if event is not None and self._channels:
                encoded = encode_event("runs", event)
                await self._thread.call(lambda: self._send_all([encoded]))

    # -- in the broadcaster's thread --------------------------------------------------------------

    def _subscribe_in_thread(
        self, listener: Listener, subscription: Subscription, since: Cursors | None
    ) -> None:
        with self._locked(subscription.runs) as locked:
            if len(locked) < len(subscription.runs):
                raise RunBusyError
            channel = self._channels.get(subscription)
            if channel is None:
                ends = {run_id: run.end() for run_id, run in locked.items() if run is not None}
                channel = _Channel(subscription, ends)
            else:
                # Existing listeners catch up first, so that later batches fit all of them.
                self._send(channel, self._channel_updates(channel, locked))
            events = self._catch_up(channel, since, locked)
            position = format_cursors(channel.cursors)
            ready = ReadyEvent(WIRE_VERSION, __version__, position)
            events.append(encode_event("ready", ready, position=position, retry_ms=RETRY_MS))
            rows = self._rows_of(locked.values())
            channel.rows.update({run_id: row for run_id, (row, _) in rows.items()})
            self._channels[subscription] = channel
            channel.listeners.append(listener)
            self._deliver([listener], [*events, *(event for _, event in rows.values())], position)

    def _catch_up(
        self, channel: _Channel, since: Cursors | None, locked: Mapping[str, RunView | None]
    ) -> list[bytes]:
        """Events between ``since`` and the channel's position."""
        if since is None:
            return []
        events = []
        # The id of each event: finished runs at the channel's position, others at ``since``.
        sent: dict[str, Cursor] = {run: since.get(run, {}) for run in channel.subscription.runs}
        for run_id in channel.subscription.runs:
            run = locked[run_id]
            sent[run_id] = channel.cursors.get(run_id, {})
            if run is None:
                events.append(_reset(run_id, "gone", sent))
            elif since.get(run_id, {}) != sent[run_id]:
                try:
                    updates = read_updates(run, run_id, since.get(run_id, {}), self._ranks)
                except (OSError, EpochalError):  # a request for the history reports the reason
                    updates = RunUpdates(sent[run_id], reset="unknown")
                events += _events(run_id, updates, channel.subscription.update_filter, sent)
        return events

    def _unsubscribe_in_thread(self, listener: Listener) -> None:
        for subscription, channel in list(self._channels.items()):
            if listener in channel.listeners:
                channel.listeners.remove(listener)
                if not channel.listeners:
                    del self._channels[subscription]

    def _poll_in_thread(self) -> None:
        with self._locked(self._subscribed()) as locked:
            self._send_updates(locked)

    def _send_updates(self, locked: Mapping[str, RunView | None]) -> None:
        """Send records first: the rows of many runs take longer."""
        now = time.monotonic()
        heartbeat_due = now >= self._heartbeat_after
        if heartbeat_due:
            self._heartbeat_after = now + HEARTBEAT_S
        live = self._machine_events(locked)
        known: dict[tuple[str, str], RunUpdates] = {}
        for channel in self._channels.values():
            events = self._channel_updates(channel, locked, known)
            if channel.subscription.live:
                events += [live[run] for run in channel.subscription.runs if run in live]
            if heartbeat_due:  # carries the position, which also advances past filtered records
                beat, position = HeartbeatEvent(time.time()), format_cursors(channel.cursors)
                events.append(encode_event("heartbeat", beat, position=position))
            self._send(channel, events)
        rows = self._due_rows(locked)
        for channel in self._channels.values():
            changed = {
                run_id: row
                for run_id, (row, _) in rows.items()
                if run_id in channel.subscription.runs and channel.rows.get(run_id) != row
            }
            channel.rows.update(changed)
            self._send(channel, [rows[run_id][1] for run_id in changed])

    def _due_rows(self, locked: Mapping[str, RunView | None]) -> dict[str, tuple[RunRow, bytes]]:
        """The rows of all runs now and then, between that those of runs with new records.

        Rows that take long are made less often.
        """
        now = time.monotonic()
        if now < self._rows_after:
            return {}
        if now >= self._status_after:
            self._status_after = now + STATUS_EVERY_S
            rows = self._rows_of(locked.values())
        else:
            rows = self._rows_of(self._with_new_records(locked))
        done = time.monotonic()
        self._rows_after = done + (done - now) * (1 / _ROWS_SHARE - 1)
        return rows

    @contextmanager
    def _locked(self, run_ids: Iterable[str]) -> Iterator[Mapping[str, RunView | None]]:
        """Lock runs by id: None for a removed run; runs that stay locked elsewhere are left out."""
        until = time.monotonic() + _LOCK_TIMEOUT_S
        locked: dict[str, RunView | None] = {}
        try:
            for run_id in run_ids:
                run = self._reader.catalog.find(run_id)
                left_s = max(until - time.monotonic(), 0.0)
                if run is None or run.lock.acquire(timeout=left_s):
                    locked[run_id] = run
            yield locked
        finally:
            for run in locked.values():
                if run is not None:
                    run.lock.release()

    def _with_new_records(self, locked: Mapping[str, RunView | None]) -> list[RunView]:
        """The runs with records since the last poll."""
        before = self._ends
        self._ends = {run_id: run.end() for run_id, run in locked.items() if run is not None}
        ids = [run_id for run_id, end in self._ends.items() if end != before.get(run_id)]
        return [run for run_id in ids if (run := locked[run_id]) is not None]

    def _machine_events(self, locked: Mapping[str, RunView | None]) -> dict[str, bytes]:
        """New machine readings as events, for the streams that subscribe to them."""
        asking = (channel.subscription for channel in self._channels.values())
        runs = {run for subscription in asking if subscription.live for run in subscription.runs}
        found = self._machine_updates.read(runs, locked)
        return {run: encode_event("live", event) for run, event in found.items()}

    def _rows_of(self, runs: Iterable[RunView | None]) -> dict[str, tuple[RunRow, bytes]]:
        """The rows of these runs by id, each with its encoded status event."""
        rows = {}
        for run in runs:
            if run is not None:
                row = run_row(run)
                rows[row.id] = (row, encode_event("status", StatusEvent(row)))
        return rows

    def _channel_updates(
        self,
        channel: _Channel,
        locked: Mapping[str, RunView | None],
        known: dict[tuple[str, str], RunUpdates] | None = None,
    ) -> list[bytes]:
        """Events not yet sent to a channel; ``known`` caches updates read for others."""
        known = {} if known is None else known
        events: list[bytes] = []
        for run_id in channel.subscription.runs:
            if run_id not in locked:
                continue
            run = locked[run_id]
            if run is None:
                if channel.cursors.pop(run_id, None) is not None:
                    events.append(_reset(run_id, "gone", channel.cursors))
                continue
            since = channel.cursors.get(run_id, {})
            if run.end() == since:
                continue
            key = (run_id, format_cursors({run_id: since}))
            updates = known.get(key)
            if updates is None:
                with self._guard.member("event stream"):
                    try:
                        updates = read_updates(run, run_id, since, self._ranks)
                    except OSError as error:
                        if reading_failure(run, error) is None:
                            raise
            if updates is None:  # its files cannot be read now; retried at the next poll
                continue
            known[key] = updates
            channel.cursors[run_id] = updates.end
            events += _events(run_id, updates, channel.subscription.update_filter, channel.cursors)
        return events

    def _send_all(self, events: Sequence[bytes]) -> None:
        for channel in self._channels.values():
            self._send(channel, events)

    def _send(self, channel: _Channel, events: Sequence[bytes]) -> None:
        if events:
            self._deliver(list(channel.listeners), events, format_cursors(channel.cursors))

    def _deliver(
        self, listeners: Sequence[Listener], events: Sequence[bytes], position: str
    ) -> None:
        batch = b"".join(events)

        def put() -> None:
            for listener in listeners:
                listener.put(batch, position)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(put)


def _events(
    run_id: str, updates: RunUpdates, update_filter: UpdateFilter, cursors: Cursors
) -> list[bytes]:
    if updates.reset is not None:
        return [_reset(run_id, updates.reset, cursors)]
    points, entries, is_partial = updates.filtered(update_filter)
    if not (points or entries or is_partial):
        return []
    event = RecordsEvent(run_id, points, entries, is_partial)
    return [encode_event("records", event, position=format_cursors(cursors))]


def _reset(run_id: str, reason: ResetReason, cursors: Cursors) -> bytes:
    return encode_event("reset", ResetEvent(run_id, reason), position=format_cursors(cursors))
