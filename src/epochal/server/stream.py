"""``/api/events``: one client's stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from epochal.errors import UsageError
from epochal.server.access import has_access
from epochal.server.broadcaster import MAX_STREAMS, Subscription
from epochal.server.cursor import Cursors, parse_cursors
from epochal.server.listener import encode_event
from epochal.server.params import Param, bool_param, ranks_param, str_params
from epochal.server.responses import error_response
from epochal.server.state import server_state
from epochal.server.updates import UpdateFilter
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


class EventStream(Response):
    """A response that ends when the client disconnects, the batches end or the access ends."""

    def __init__(
        self,
        batches: AsyncIterator[bytes],
        *,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._batches = batches
        self._on_close = on_close

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
            if self._on_close is not None:
                await self._on_close()
        if disconnected.cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, scope: Scope, send: Send) -> None:
        if scope["method"] == "HEAD":
            return
        async for batch in self._batches:
            if not has_access(scope):
                return
            await send({"type": "http.response.body", "body": batch, "more_body": True})


async def events(request: Request) -> Response:
    """Updates of the list and of the subscribed runs, from a position on."""
    broadcaster = server_state(request).broadcaster
    if broadcaster.num_streams >= MAX_STREAMS:
        sentence = f"{MAX_STREAMS} event streams are already open."
        return error_response(503, sentence, headers={"retry-after": "10"})
    subscription = Subscription(
        runs=RUNS(request),
        update_filter=UpdateFilter(
            names=NAMES(request), ranks=RANKS(request), kinds=KINDS(request)
        ),
        live=LIVE(request),
    )
    since, is_known = _since(request)
    listener = await broadcaster.subscribe(subscription, since)
    if not is_known:
        listener.put(encode_event("reset", ResetEvent(None, "unknown")), "")

    async def batches() -> AsyncIterator[bytes]:
        while batch := await listener.next_batch():
            yield batch

    async def on_close() -> None:
        await broadcaster.unsubscribe(listener)

    return EventStream(batches(), on_close=on_close)


def _since(request: Request) -> tuple[Cursors | None, bool]:
    """The client's position, None without one; False beside it for one that is invalid."""
    given = [*SINCE(request), request.headers.get("last-event-id", "")]
    given = [one for one in given if one]
    try:
        return (parse_cursors(given) if given else None), True
    except UsageError:
        return None, False


async def _access_ended(scope: Scope) -> None:
    while has_access(scope):
        await asyncio.sleep(_CHECK_ACCESS_S)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
