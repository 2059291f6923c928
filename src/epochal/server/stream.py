"""``/api/events``: one client's stream of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from epochal.errors import UsageError
from epochal.server import asked
from epochal.server.answer import problem
from epochal.server.cursor import Cursors, parse_cursors
from epochal.server.hub import MAX_STREAMS, Subscription, encode_event
from epochal.server.news import Interest
from epochal.server.served import served
from epochal.server.wire import ResetEvent

MAX_RUNS = 256
MAX_NAMES = 512
_HEADERS = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    # Proxies that collect answers before passing them on would hold the stream back.
    "x-accel-buffering": "no",
}


class EventStream(Response):
    """A response that goes on until the client leaves or the batches end."""

    def __init__(
        self, batches: AsyncIterator[bytes], *, left: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._batches = batches
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send batch after batch."""
        sending = asyncio.create_task(self._send(scope, send))
        watching = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((sending, watching), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, watching):
                task.cancel()
            if self._left is not None:
                await self._left()

    async def _send(self, scope: Scope, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        if scope["method"] != "HEAD":
            async for batch in self._batches:
                await send({"type": "http.response.body", "body": batch, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def events(request: Request) -> Response:
    """What is new in the list and in the runs subscribed to, from a position on."""
    hub = served(request).hub
    if hub.num_streams >= MAX_STREAMS:
        sentence = f"{MAX_STREAMS} streams are open already."
        return problem(503, sentence, headers={"retry-after": "10"})
    subscription = Subscription(
        runs=asked.texts(request, "run", most=MAX_RUNS),
        interest=Interest(
            names=asked.texts(request, "name", most=MAX_NAMES),
            ranks=asked.ranks(request),
            kinds=asked.texts(request, "kind", most=64),
        ),
        live=asked.flag(request, "live"),
    )
    since, is_known = _since(request)
    listener = await hub.join(subscription, since)
    if not is_known:
        listener.put(encode_event("reset", ResetEvent(None, "unknown")), "")

    async def batches() -> AsyncIterator[bytes]:
        while batch := await listener.take():
            yield batch

    async def left() -> None:
        await hub.leave(listener)

    return EventStream(batches(), left=left)


def _since(request: Request) -> tuple[Cursors | None, bool]:
    """Where the client stands, None for nowhere; False beside it for what cannot be read."""
    given = [*request.query_params.getlist("since"), request.headers.get("last-event-id", "")]
    given = [one for one in given if one]
    try:
        return (parse_cursors(given) if given else None), True
    except UsageError:
        return None, False


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
