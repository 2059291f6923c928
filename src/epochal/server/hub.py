"""One poller for all streams: tails what is subscribed, and hands each batch out once encoded.

Streams of the same subscription that stand at the same place form a channel: what a channel is sent
is read and encoded once, whoever listens. Everything named ``_in_store`` runs in the store's
thread; whatever is sent leaves that thread in order, so that nobody gets a batch twice or misses
one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import msgspec

import epochal
from epochal.errors import EpochalError
from epochal.server.cursor import Cursors, cursors_text
from epochal.server.live_news import LiveNews
from epochal.server.news import Interest, News, Ranks, news_of
from epochal.server.reader import Reader
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

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._ranks = Ranks()
        self._channels: dict[Subscription, _Channel] = {}
        # The list as it was told, and which runs of it may change without a record.
        self._rows: dict[str, RunRow] | None = None
        self._live: set[str] = set()
        self._live_news = LiveNews(self._known_run)
        self._status_after = 0.0
        self._heartbeat_after = time.monotonic() + HEARTBEAT_S
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._failures: list[OSError | EpochalError] = []

    @property
    def num_streams(self) -> int:
        """How many streams there are."""
        return sum(len(channel.listeners) for channel in list(self._channels.values()))

    async def join(self, subscription: Subscription, since: Cursors | None) -> Listener:
        """A new stream: what came after ``since`` first, from now on without one."""
        self._loop = asyncio.get_running_loop()
        listener = Listener()
        await self._reader.ask(self._join_in_store, listener, subscription, since)
        return listener

    async def leave(self, listener: Listener) -> None:
        """End a stream."""
        listener.close()
        await self._reader.ask(self._leave_in_store, listener)

    async def beat(self) -> None:
        """Look for news once; nothing is looked at while nobody listens."""
        if self._channels and not self._closed:
            await self._reader.ask(self._beat_in_store)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for channel in list(self._channels.values()):
            for listener in channel.listeners:
                listener.close()

    # -- in the store's thread --------------------------------------------------------------------

    def _join_in_store(
        self, listener: Listener, subscription: Subscription, since: Cursors | None
    ) -> None:
        if self._rows is None:
            list(self._list_news())  # what is new in the list is new against this
        channel = self._channels.get(subscription)
        if channel is None:
            channel = _Channel(subscription, {})
            for run_id in subscription.runs:
                run = self._run(run_id)
                if run is not None:
                    channel.cursors[run_id] = run.end()
        else:
            # Those already here are brought to the same place first, so that one batch fits all.
            self._send(channel, self._channel_news(channel))
        events = self._catch_up(channel, since)
        position = cursors_text(channel.cursors)
        ready = ReadyEvent(WIRE_VERSION, epochal.__version__, position)
        hello = encode_event("ready", ready, position=position, retry_ms=RETRY_MS)
        rows = self._rows_of(subscription.runs)
        channel.rows.update({run_id: row for run_id, (row, _) in rows.items()})
        self._channels[subscription] = channel
        channel.listeners.append(listener)
        told = (*events, hello, *(event for _, event in rows.values()))
        self._post([listener], b"".join(told), position)

    def _catch_up(self, channel: _Channel, since: Cursors | None) -> list[bytes]:
        """What a stream that stopped at ``since`` has not seen of a channel."""
        if since is None:
            return []
        events = []
        # The id after each of these: runs told already at the channel's place, others at ``since``.
        told: dict[str, Cursor] = {run: since.get(run, {}) for run in channel.subscription.runs}
        for run_id in channel.subscription.runs:
            run = self._known_run(run_id)
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

    def _leave_in_store(self, listener: Listener) -> None:
        for subscription, channel in list(self._channels.items()):
            if listener in channel.listeners:
                channel.listeners.remove(listener)
                if not channel.listeners:
                    del self._channels[subscription]

    def _beat_in_store(self) -> None:
        now = time.monotonic()
        status_due = now >= self._status_after
        if status_due:
            self._status_after = now + STATUS_EVERY_S
        grown = self._refresh_subscribed()
        list_news = list(self._list_news())
        heartbeat_due = now >= self._heartbeat_after
        if heartbeat_due:
            self._heartbeat_after = now + HEARTBEAT_S
        rows = self._rows_of(run for run, has_grown in grown.items() if has_grown or status_due)
        live = self._look_live()
        known: dict[tuple[str, str], News] = {}
        for channel in self._channels.values():
            events = [*self._channel_news(channel, known), *_status_news(channel, rows)]
            if channel.subscription.live:
                events += [live[run] for run in channel.subscription.runs if run in live]
            self._send(channel, [*events, *list_news, *_heartbeats(channel, is_due=heartbeat_due)])
        if self._failures:  # told after everybody was served; tried again at the next beat
            failure = self._failures[0]
            self._failures.clear()
            raise failure

    def _refresh_subscribed(self) -> dict[str, bool]:
        """Read on in every subscribed run; which of them have grown."""
        wanted = {run for channel in self._channels.values() for run in channel.subscription.runs}
        grown: dict[str, bool] = {}
        for run_id in wanted:
            run = self._known_run(run_id)
            if run is not None:
                try:
                    grown[run_id] = run.refresh()
                except OSError as error:
                    self._failures.append(error)
        return grown

    def _look_live(self) -> dict[str, bytes]:
        """What is new of the machines of runs whose streams ask for it, as events."""
        asking = (channel.subscription for channel in self._channels.values())
        runs = {run for subscription in asking if subscription.live for run in subscription.runs}
        found = self._live_news.look(runs)
        return {run: encode_event("live", event) for run, event in found.items()}

    def _rows_of(self, run_ids: Iterable[str]) -> dict[str, tuple[RunRow, bytes]]:
        """The rows of these runs, each with the event that tells it."""
        rows = {}
        for run_id in run_ids:
            run = self._known_run(run_id)
            if run is not None:
                row = run_row(run)
                rows[run_id] = (row, encode_event("status", StatusEvent(row)))
        return rows

    def _channel_news(
        self, channel: _Channel, known: dict[tuple[str, str], News] | None = None
    ) -> list[bytes]:
        """What a channel has not been told; ``known`` holds what others were told just now."""
        known = {} if known is None else known
        events: list[bytes] = []
        for run_id in channel.subscription.runs:
            run = self._known_run(run_id)
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
                try:
                    news = known[key] = news_of(run, run_id, since, self._ranks)
                except (OSError, EpochalError) as error:
                    self._failures.append(error)
                    continue
            channel.cursors[run_id] = news.end
            events += _events(run_id, news, channel.subscription.interest, channel.cursors)
        return events

    def _list_news(self) -> Iterable[bytes]:
        """What is new in the list; only rows that can have changed are made anew."""
        catalog = self._reader.catalog
        has_looked = catalog.look()
        if self._rows is None:
            self._rows = {row.id: row for row in map(run_row, catalog.runs())}
            self._live = {row.id for row in self._rows.values() if row.status.state in LIVE}
            catalog.changed()
            return
        added, changed, removed = [], [], []
        # Others look too, and what they came upon is news here as well.
        for run_id in sorted(catalog.changed() | (self._live if has_looked else set())):
            before, run = self._rows.get(run_id), self._known_run(run_id)
            if run is None:
                self._live.discard(run_id)
                if self._rows.pop(run_id, None) is not None:
                    removed.append(run_id)
                continue
            row = self._rows[run_id] = run_row(run)
            (self._live.add if row.status.state in LIVE else self._live.discard)(run_id)
            if before is None:
                added.append(row)
            elif before != row:
                changed.append(row)
        if len(added) + len(changed) + len(removed) > MAX_ROWS_TOLD:
            yield encode_event("runs", RunsEvent([], [], [], all=True))
        elif added or changed or removed:
            yield encode_event("runs", RunsEvent(added, changed, removed, all=False))

    def _run(self, run_id: str) -> RunView | None:
        run = self._known_run(run_id)
        if run is not None:
            run.refresh()
        return run

    def _known_run(self, run_id: str) -> RunView | None:
        try:
            return self._reader.catalog.known(run_id)
        except EpochalError:
            return None

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
