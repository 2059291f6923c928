"""Event streams: ``/api/events``, and the response that every stream of the server is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from epochal.errors import UsageError
from epochal.server.access import has_access
from epochal.server.broadcaster import (
    MAX_STREAMS,
    Broadcaster,
    Listener,
    Subscription,
    encode_event,
)
from epochal.server.params import Param, bool_param, ranks_param, str_params
from epochal.server.responses import error_response
from epochal.server.state import server_state
from epochal.server.updates import Cursors, UpdateFilter, parse_cursors
from epochal.server.wire import ResetEvent

RUNS = str_params("run", most=256)
NAMES = str_params("name", most=512)
RANKS = ranks_param()
KINDS = str_params("kind", most=64)
LIVE = bool_param("live", note="1: with readings of the machines")
# A cursor has a limit of its own, and one that is invalid resets the stream.
SINCE = Param(
    "since", lambda query: query.getlist("since"), "readonly string[]", is_repeatable=True
)
_HEADERS = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    # Proxies that buffer responses would hold the stream back.
    "x-accel-buffering": "no",
}
# How often a stream checks whether its token or link is still valid.
_CHECK_ACCESS_S = 1.0


# Turns a batch of events into what a client is sent; nothing is sent of an empty result.
View = Callable[[bytes], Awaitable[bytes]]


class EventStream(Response):
    """A response that ends when the client disconnects, the server stops or the access ends."""

    def __init__(self, broadcaster: Broadcaster, listener: Listener, view: View | None) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._broadcaster = broadcaster
        self._listener = listener
        self._view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send batch after batch."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(scope, send))
        disconnected = asyncio.create_task(_disconnected(receive))
        tasks = (sending, disconnected, asyncio.create_task(_access_ended(scope)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._broadcaster.unsubscribe(self._listener)
        if disconnected.cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, scope: Scope, send: Send) -> None:
        if scope["method"] == "HEAD":
            return
        while batch := await self._listener.next_batch():
            if not has_access(scope):
                return
            if self._view is not None:
                batch = await self._view(batch)
            if batch:
                await send({"type": "http.response.body", "body": batch, "more_body": True})


async def events(request: Request) -> Response:
    """Updates of the list and of the subscribed runs, from a position on."""
    subscription = Subscription(
        runs=RUNS(request),
        update_filter=UpdateFilter(
            names=NAMES(request), ranks=RANKS(request), kinds=KINDS(request)
        ),
        live=LIVE(request),
    )
    given = [*SINCE(request), request.headers.get("last-event-id", "")]
    texts = [text for text in given if text]
    first = b""
    try:
        since = parse_cursors(texts) if texts else None
    except UsageError:
        since, first = None, encode_event("reset", ResetEvent(None, "unknown"))
    return await open_stream(request, subscription, since=since, first=first)


async def open_stream(
    request: Request,
    subscription: Subscription,
    *,
    since: Cursors | None = None,
    first: bytes = b"",
    view: View | None = None,
) -> Response:
    """A stream of a subscription; ``first`` is sent to this client alone."""
    broadcaster = server_state(request).broadcaster
    if broadcaster.num_streams >= MAX_STREAMS:
        sentence = f"{MAX_STREAMS} event streams are already open."
        return error_response(503, sentence, headers={"retry-after": "10"})
    listener = await broadcaster.subscribe(subscription, since)
    if first:
        listener.put(first, "")
    return EventStream(broadcaster, listener, view)


async def _access_ended(scope: Scope) -> None:
    while has_access(scope):
        await asyncio.sleep(_CHECK_ACCESS_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
