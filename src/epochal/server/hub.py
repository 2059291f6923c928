"""One poller for all streams: tails what is subscribed, and hands each batch out once encoded.

Streams of the same subscription that stand at the same place form a channel: what a channel is sent
is read and encoded once, whoever listens. Everything named ``_in_hub`` runs in the hub's own
thread, with the locks of the runs it tells of; whatever is sent leaves that thread in order, so
that nobody gets a batch twice or misses one. That thread waits for no run: what takes long is read
before, in the reader's threads, and a run that is being read is told of at a later beat.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, cast

import msgspec

import epochal
from epochal.errors import EpochalError
from epochal.guard import Guard
from epochal.server.cursor import Cursors, cursors_text
from epochal.server.live_news import LiveNews
from epochal.server.news import Interest, News, Ranks, news_of
from epochal.server.pool import ThreadPool
from epochal.server.reader import Reader, RunBusyError, reading_failure
from epochal.server.rows import LIVE, run_row
from epochal.server.wire import (
    WIRE_VERSION,
    HeartbeatEvent,
    ReadyEvent,
    RecordsEvent,
    ResetEvent,
    RunRow,
    RunsEvent,
    StatusEvent,
)
from epochal.store.answers import Cursor
from epochal.store.store import RunView

BEAT_S = 0.25
HEARTBEAT_S = 15.0
RETRY_MS = 1000
MAX_STREAMS = 2000
MAX_WAITING_BYTES = 4 * 1024 * 1024
MAX_ROWS_TOLD = 200
STATUS_EVERY_S = 1.0
# A first list of runs that takes longer is told when it is there.
LIST_WITHIN_S = 2.0
# What has not been read in this time is told at a later beat.
_READ_WITHIN_S = 0.1
_HELD_WITHIN_S = 0.02
_TRY_AGAIN_S = 0.05
_STOPPED_WITHIN_S = 0.5

Reason = Literal["behind", "unknown", "resumed", "gone"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a stream listens to."""

    runs: tuple[str, ...] = ()
    interest: Interest = field(default_factory=Interest)
    live: bool = False


class Listener:
    """One client's end of the stream: a bounded queue of encoded events."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._wake = asyncio.Event()
        self.closed = False

    def put(self, batch: bytes, position: str) -> None:
        """Queue a batch; a client that does not read is told to start anew instead."""
        if self._size + len(batch) > MAX_WAITING_BYTES:
            self._waiting.clear()
            self._size = 0
            batch = encode_event("reset", ResetEvent(None, "behind"), position=position)
        self._waiting.append(batch)
        self._size += len(batch)
        self._wake.set()

    def close(self) -> None:
        """End the stream after what has been taken."""
        self.closed = True
        self._wake.set()

    async def take(self) -> bytes:
        """All that waits, as soon as anything does; empty when the stream is to end."""
        await self._wake.wait()
        self._wake.clear()
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return b"" if self.closed else taken


@dataclass(slots=True)
class _Channel:
    """The streams of one subscription, all at the same place."""

    subscription: Subscription
    cursors: dict[str, Cursor]
    listeners: list[Listener] = field(default_factory=list)
    rows: dict[str, RunRow] = field(default_factory=dict)


class Hub:
    """All streams of a server."""

    def __init__(self, reader: Reader, guard: Guard) -> None:
        self._reader = reader
        self._guard = guard
        self._thread = ThreadPool("epochal-hub", 1)
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._listing: asyncio.Task[None] | None = None
        self._ranks = Ranks()
        self._channels: dict[Subscription, _Channel] = {}
        # The list as it was told, and which runs of it may change without a record.
        self._rows: dict[str, RunRow] | None = None
        self._live: set[str] = set()
        # Runs with news for the list that were being read at the last look.
        self._unlisted: set[str] = set()
        self._ends: dict[str, Cursor] = {}
        self._live_news = LiveNews()
        self._status_after = 0.0
        self._heartbeat_after = time.monotonic() + HEARTBEAT_S
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def num_streams(self) -> int:
        """How many streams there are."""
        return sum(len(channel.listeners) for channel in list(self._channels.values()))

    async def join(self, subscription: Subscription, since: Cursors | None) -> Listener:
        """A new stream: what came after ``since`` first, from now on without one."""
        self._loop = asyncio.get_running_loop()
        listener = Listener()
        if self._rows is None:  # what is new in the list is new against this
            await asyncio.wait({self._look_at_list()}, timeout=LIST_WITHIN_S)
        positions = since or {}
        await asyncio.gather(
            *(self._read(run_id, positions.get(run_id)) for run_id in subscription.runs)
        )
        while True:
            try:
                await self._thread.call(lambda: self._join_in_hub(listener, subscription, since))
            except RunBusyError:
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                return listener

    async def leave(self, listener: Listener) -> None:
        """End a stream."""
        listener.close()
        await self._thread.call(lambda: self._leave_in_hub(listener))

    async def beat(self) -> None:
        """Look for news once; nothing is looked at while nobody listens."""
        if self._closed or not self._channels:
            return
        tasks = {self._look_at_list(), *map(self._read_on, self._subscribed())}
        await asyncio.wait(tasks, timeout=_READ_WITHIN_S)
        await self._thread.call(self._beat_in_hub)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for channel in list(self._channels.values()):
            for listener in channel.listeners:
                listener.close()

    def stop(self) -> None:
        """End the thread's work; nothing is told after this."""
        self._thread.close(within_s=_STOPPED_WITHIN_S)

    # -- in the reader's threads ------------------------------------------------------------------

    def _subscribed(self) -> set[str]:
        channels = list(self._channels.values())
        return {run for channel in channels for run in channel.subscription.runs}

    def _read_on(self, run_id: str) -> asyncio.Task[None]:
        """The task that reads on in a run; the one that does so already, if any."""
        task = self._reading.get(run_id)
        if task is None:
            task = self._reading[run_id] = asyncio.create_task(self._guarded_read(run_id))
            task.add_done_callback(lambda _: self._reading.pop(run_id, None))
        return task

    async def _guarded_read(self, run_id: str) -> None:
        with self._guard.member("event stream"):
            await self._read(run_id)

    async def _read(self, run_id: str, since: Cursor | None = None) -> None:
        """Have a run read so far that the hub's thread need not."""

        def question(run: RunView) -> None:
            end = run.end()
            if since is not None and since != end:
                run.records(end)

        # Of a run that is gone the hub tells; whoever asks for the history hears other reasons.
        with suppress(EpochalError):
            await self._reader.ask_run(run_id, question)

    def _look_at_list(self) -> asyncio.Task[None]:
        """The task that looks for what is new in the list; the one that does so already, if any."""
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._tell_list())
        return self._listing

    async def _tell_list(self) -> None:
        with self._guard.member("event stream"):
            events = await self._reader.ask(self._list_news)
            if events:
                await self._thread.call(lambda: self._send_all(events))

    # -- in the hub's thread ----------------------------------------------------------------------

    def _join_in_hub(
        self, listener: Listener, subscription: Subscription, since: Cursors | None
    ) -> None:
        with self._holding(subscription.runs) as held:
            if len(held) < len(subscription.runs):
                raise RunBusyError
            self._join_held(listener, subscription, since, held)

    def _join_held(
        self,
        listener: Listener,
        subscription: Subscription,
        since: Cursors | None,
        held: Mapping[str, RunView | None],
    ) -> None:
        channel = self._channels.get(subscription)
        if channel is None:
            channel = _Channel(subscription, {})
            for run_id, run in held.items():
                if run is not None:
                    channel.cursors[run_id] = run.end()
        else:
            # Those already here are brought to the same place first, so that one batch fits all.
            self._send(channel, self._channel_news(channel, held))
        events = self._catch_up(channel, since, held)
        position = cursors_text(channel.cursors)
        ready = ReadyEvent(WIRE_VERSION, epochal.__version__, position)
        hello = encode_event("ready", ready, position=position, retry_ms=RETRY_MS)
        rows = self._rows_of(held.values())
        channel.rows.update({run_id: row for run_id, (row, _) in rows.items()})
        self._channels[subscription] = channel
        channel.listeners.append(listener)
        told = (*events, hello, *(event for _, event in rows.values()))
        self._post([listener], b"".join(told), position)

    def _catch_up(
        self, channel: _Channel, since: Cursors | None, held: Mapping[str, RunView | None]
    ) -> list[bytes]:
        """What a stream that stopped at ``since`` has not seen of a channel."""
        if since is None:
            return []
        events = []
        # The id after each of these: runs told already at the channel's place, others at ``since``.
        told: dict[str, Cursor] = {run: since.get(run, {}) for run in channel.subscription.runs}
        for run_id in channel.subscription.runs:
            run = held[run_id]
            told[run_id] = channel.cursors.get(run_id, {})
            if run is None:
                events.append(_reset(run_id, "gone", told))
            elif since.get(run_id, {}) != told[run_id]:
                try:
                    news = news_of(run, run_id, since.get(run_id, {}), self._ranks)
                except (OSError, EpochalError):  # whoever asks for the history hears the reason
                    news = News(told[run_id], reset="unknown")
                events += _events(run_id, news, channel.subscription.interest, told)
        return events

    def _leave_in_hub(self, listener: Listener) -> None:
        for subscription, channel in list(self._channels.items()):
            if listener in channel.listeners:
                channel.listeners.remove(listener)
                if not channel.listeners:
                    del self._channels[subscription]

    def _beat_in_hub(self) -> None:
        with self._holding(self._subscribed()) as held:
            self._tell_held(held)

    def _tell_held(self, held: Mapping[str, RunView | None]) -> None:
        now = time.monotonic()
        status_due = now >= self._status_after
        if status_due:
            self._status_after = now + STATUS_EVERY_S
        heartbeat_due = now >= self._heartbeat_after
        if heartbeat_due:
            self._heartbeat_after = now + HEARTBEAT_S
        rows = self._rows_of(held.values() if status_due else self._grown(held))
        live = self._look_live(held)
        known: dict[tuple[str, str], News] = {}
        for channel in self._channels.values():
            events = [*self._channel_news(channel, held, known), *_status_news(channel, rows)]
            if channel.subscription.live:
                events += [live[run] for run in channel.subscription.runs if run in live]
            self._send(channel, [*events, *_heartbeats(channel, is_due=heartbeat_due)])

    @contextmanager
    def _holding(self, run_ids: Iterable[str]) -> Iterator[Mapping[str, RunView | None]]:
        """Some runs by id with their locks, None for one that is gone; others' are left out."""
        until = time.monotonic() + _HELD_WITHIN_S
        held: dict[str, RunView | None] = {}
        try:
            for run_id in run_ids:
                run = self._reader.catalog.find(run_id)
                left_s = max(until - time.monotonic(), 0.0)
                if run is None or run.lock.acquire(timeout=left_s):
                    held[run_id] = run
            yield held
        finally:
            for run in held.values():
                if run is not None:
                    run.lock.release()

    def _grown(self, held: Mapping[str, RunView | None]) -> list[RunView]:
        """The runs with records that the last beat did not see."""
        before = self._ends
        self._ends = {run_id: run.end() for run_id, run in held.items() if run is not None}
        ids = [run_id for run_id, end in self._ends.items() if end != before.get(run_id)]
        return [run for run_id in ids if (run := held[run_id]) is not None]

    def _look_live(self, held: Mapping[str, RunView | None]) -> dict[str, bytes]:
        """What is new of the machines of runs whose streams ask for it, as events."""
        asking = (channel.subscription for channel in self._channels.values())
        runs = {run for subscription in asking if subscription.live for run in subscription.runs}
        found = self._live_news.look(runs, held)
        return {run: encode_event("live", event) for run, event in found.items()}

    def _rows_of(self, runs: Iterable[RunView | None]) -> dict[str, tuple[RunRow, bytes]]:
        """The rows of these runs by id, each with the event that tells it."""
        rows = {}
        for run in runs:
            if run is not None:
                row = run_row(run)
                rows[row.id] = (row, encode_event("status", StatusEvent(row)))
        return rows

    def _channel_news(
        self,
        channel: _Channel,
        held: Mapping[str, RunView | None],
        known: dict[tuple[str, str], News] | None = None,
    ) -> list[bytes]:
        """What a channel has not been told; ``known`` holds what others were told just now."""
        known = {} if known is None else known
        events: list[bytes] = []
        for run_id in channel.subscription.runs:
            if run_id not in held:
                continue
            run = held[run_id]
            if run is None:
                if channel.cursors.pop(run_id, None) is not None:
                    events.append(_reset(run_id, "gone", channel.cursors))
                continue
            since = channel.cursors.get(run_id, {})
            if run.end() == since:
                continue
            key = (run_id, cursors_text({run_id: since}))
            news = known.get(key)
            if news is None:
                with self._guard.member("event stream"):
                    news = self._news_of(run, run_id, since)
            if news is None:  # tried again at the next beat
                continue
            known[key] = news
            channel.cursors[run_id] = news.end
            events += _events(run_id, news, channel.subscription.interest, channel.cursors)
        return events

    def _news_of(self, run: RunView, run_id: str, since: Cursor) -> News | None:
        """What a run has recorded; None where its files cannot be read."""
        try:
            return news_of(run, run_id, since, self._ranks)
        except OSError as error:
            if reading_failure(run, error) is None:
                raise
            return None

    def _list_news(self) -> list[bytes]:
        """What is new in the list; only rows that can have changed are made anew."""
        catalog = self._reader.catalog
        has_looked = catalog.look()
        if self._rows is None:
            self._rows = {row.id: row for row in map(run_row, catalog.runs())}
            self._live = {row.id for row in self._rows.values() if row.status.state in LIVE}
            catalog.changed()
            # Streams that did not wait for this have a list from before.
            return [_list_event(is_all=True)] if self._channels else []
        added, changed, removed = [], [], []
        # Others look too, and what they came upon is news here as well.
        candidates = catalog.changed() | self._unlisted | (self._live if has_looked else set())
        self._unlisted = set()
        for run_id in sorted(candidates):
            before, run = self._rows.get(run_id), catalog.find(run_id)
            if run is None:
                self._live.discard(run_id)
                if self._rows.pop(run_id, None) is not None:
                    removed.append(run_id)
                continue
            if not run.lock.acquire(blocking=False):
                self._unlisted.add(run_id)
                continue
            try:
                row = self._rows[run_id] = run_row(run)
            finally:
                run.lock.release()
            (self._live.add if row.status.state in LIVE else self._live.discard)(run_id)
            if before is None:
                added.append(row)
            elif before != row:
                changed.append(row)
        if len(added) + len(changed) + len(removed) > MAX_ROWS_TOLD:
            return [_list_event(is_all=True)]
        if added or changed or removed:
            return [_list_event(added, changed, removed)]
        return []

    def _send_all(self, events: Sequence[bytes]) -> None:
        for channel in self._channels.values():
            self._send(channel, events)

    def _send(self, channel: _Channel, events: Sequence[bytes]) -> None:
        if events:
            self._post(list(channel.listeners), b"".join(events), cursors_text(channel.cursors))

    def _post(self, listeners: Sequence[Listener], batch: bytes, position: str) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_deliver, listeners, batch, position)


def encode_event(
    name: str,
    data: msgspec.Struct,
    *,
    position: str | None = None,
    retry_ms: int | None = None,
) -> bytes:
    """One event of a stream; JSON has no raw newlines, so its data is one line."""
    head = "" if retry_ms is None else f"retry: {retry_ms}\n"
    if position is not None:
        head += f"id: {position}\n"
    return f"{head}event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def _list_event(
    added: Sequence[RunRow] = (),
    changed: Sequence[RunRow] = (),
    removed: Sequence[str] = (),
    *,
    is_all: bool = False,
) -> bytes:
    event = RunsEvent(list(added), list(changed), list(removed), all=is_all)
    return encode_event("runs", event)


def _deliver(listeners: Sequence[Listener], batch: bytes, position: str) -> None:
    for listener in listeners:
        listener.put(batch, position)


def _status_news(channel: _Channel, rows: Mapping[str, tuple[RunRow, bytes]]) -> Iterable[bytes]:
    for run_id, (row, event) in rows.items():
        if run_id in channel.subscription.runs and channel.rows.get(run_id) != row:
            channel.rows[run_id] = row
            yield event


def _heartbeats(channel: _Channel, *, is_due: bool) -> Iterable[bytes]:
    """With the position, which moves on even where nothing of interest was recorded."""
    if is_due:
        position = cursors_text(channel.cursors)
        yield encode_event("heartbeat", HeartbeatEvent(time.time()), position=position)


def _events(run_id: str, news: News, interest: Interest, cursors: Cursors) -> list[bytes]:
    if news.reset is not None:
        return [_reset(run_id, cast(Reason, news.reset), cursors)]
    points, entries = news.for_interest(interest)
    if not points and not entries:
        return []
    event = RecordsEvent(run_id, points, entries)
    return [encode_event("records", event, position=cursors_text(cursors))]


def _reset(run_id: str, reason: Reason, cursors: Cursors) -> bytes:
    return encode_event("reset", ResetEvent(run_id, reason), position=cursors_text(cursors))
