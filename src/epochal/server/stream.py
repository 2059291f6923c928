"""``/api/events``, and the response that every event stream of the server is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from epochal.errors import UsageError
from epochal.server.access import has_access
from epochal.server.params import Param, bool_param, ranks_param, str_params
from epochal.server.responses import error_response
from epochal.server.state import server_state
from epochal.server.streams import MAX_STREAMS, Subscription, encode_event
from epochal.server.updates import Cursors, UpdateFilter, parse_cursors
from epochal.server.wire import ResetEvent

RUNS = str_params("run", most=256)
NAMES = str_params("name", most=512)
RANKS = ranks_param()
KINDS = str_params("kind", most=64)
LIVE = bool_param("live", note="1: with readings of the machines")
# A cursor has a limit of its own, and one that is invalid resets the stream.
SINCE = Param("since", tuple, "readonly string[]", most=1024, longest=1 << 20)
_HEADERS = {
    "cache-control": "no-store",
    "content-type": "text/event-stream; charset=utf-8",
    # Proxies that buffer responses would hold the stream back.
    "x-accel-buffering": "no",
}

# Turns a batch of events into what a client is sent; nothing is sent of an empty result.
View = Callable[[bytes], Awaitable[bytes]]


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
    return open_stream(request, subscription, since=since, first=first)


def open_stream(
    request: Request,
    subscription: Subscription,
    *,
    since: Cursors | None = None,
    first: bytes = b"",
    view: View | None = None,
) -> Response:
    """A stream of a subscription, until the client, the server or the access ends it."""
    streams = server_state(request).streams
    if streams.num_streams >= MAX_STREAMS:
        sentence = f"{MAX_STREAMS} event streams are already open."
        return error_response(503, sentence, headers={"retry-after": "10"})
    if request.method == "HEAD":
        return Response(headers=_HEADERS)
    may_go_on = partial(has_access, request.scope)
    batches = streams.follow(subscription, since, may_go_on)
    return StreamingResponse(_viewed(batches, first, view), headers=_HEADERS)


async def _viewed(
    batches: AsyncIterator[bytes], first: bytes, view: View | None
) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for batch in batches:
        if shown := batch if view is None else await view(batch):
            yield shown
