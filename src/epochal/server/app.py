"""Builds the server's ASGI application from its parts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.base.guard import Guard
from epochal.errors import EpochalError
from epochal.server.access import Access, AccessMiddleware
from epochal.server.control import Controls
from epochal.server.endpoints import routes
from epochal.server.page import load_page
from epochal.server.reader import Reader, UnreadableRunError
from epochal.server.responses import error_response
from epochal.server.state import ServerState, WriteArchive, server_guard
from epochal.server.streams import POLL_S, EventStreams
from epochal.store.bucket import BucketError
from epochal.store.cluster.database import CatalogAwayError
from epochal.store.store import Store

_RETRY_S = 5
# Between two polls, however long they take.
_LEAST_REST_S = 0.1


@dataclass(frozen=True, slots=True)
class App:
    """An ASGI application, and a function that ends its event streams before it stops.

    ``running`` runs it where no server does, beside another application. ``num_streams`` are open.
    """

    asgi: ASGIApp
    close_streams: Callable[[], None]
    num_streams: Callable[[], int]
    running: Callable[[], AbstractAsyncContextManager[object]]


def create_app(
    open_store: Callable[[], Store],
    *,
    access: Access | None = None,
    write_archive: WriteArchive,
    folders: str = "",
) -> App:
    """Create a server over a store; ``/healthz`` returns ``folders`` to identify it."""
    inner = create_inner_app(open_store, write_archive=write_archive, folders=folders)
    return with_access(inner, access or Access())


def with_access(app: App, access: Access) -> App:
    """An application whose requests are checked before it sees them."""
    asgi = AccessMiddleware(app.asgi, access=access, page=load_page())
    return replace(app, asgi=asgi)


def create_inner_app(
    open_store: Callable[[], Store],
    *,
    write_archive: WriteArchive,
    folders: str = "",
    more_routes: Sequence[BaseRoute] = (),
    on_close: Callable[[], None] | None = None,
    controls: Controls | None = None,
) -> App:
    """The same without access control: only an application that has it may hand requests over.

    ``more_routes`` are those of the layer above, such as a hub's; ``on_close`` ends its threads.
    """
    reader = Reader(open_store())
    page = load_page()
    guard = server_guard()
    state = ServerState(
        reader=reader,
        streams=EventStreams(reader, guard),
        guard=guard,
        page=page,
        open_store=open_store,
        controls=controls,
        folders=folders,
        write_archive=write_archive,
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        polling = asyncio.create_task(_poll_forever(state))
        try:
            yield
        finally:
            state.streams.close()
            polling.cancel()
            await asyncio.to_thread(reader.close)
            if on_close is not None:
                await asyncio.to_thread(on_close)

    app = Starlette(
        routes=[*more_routes, *routes()],
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_error,
            EpochalError: _epochal_error,
            ClientDisconnect: _client_disconnected,
        },
    )
    app.state.server = state
    return App(
        FaultMiddleware(app, guard),
        state.streams.close,
        lambda: state.streams.num_streams,
        lambda: app.router.lifespan_context(app),
    )


class FaultMiddleware:
    """Counts an unhandled exception under its endpoint and answers 500 with one sentence."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; answer 500 where it raises before the response has started."""
        started = ended = False
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_unless_500(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                if message["status"] == 500:
                    return  # Starlette's own response to the exception raised below
                started = True
            if started:
                await send(message)

        with self._guard.member(_member(scope["path"])):
            await self._app(scope, receive, send_unless_500)
            ended = True
        if not ended and not started:
            sentence = "internal error: the server's terminal shows the traceback."
            await error_response(500, sentence)(scope, receive, send)


def _member(path: str) -> str:
    """The endpoint of a path, without ids: faults are counted under this name."""
    parts = path.split("/")
    if parts[:3] == ["", "api", "runs"]:
        parts[3:4] = ["{id}"] if len(parts) > 3 else []
        del parts[5:]
    return f"request {'/'.join(parts)}"


async def _poll_forever(state: ServerState) -> None:
    rest_s = POLL_S
    while True:
        await asyncio.sleep(rest_s)
        started = time.monotonic()
        with state.guard.member("event stream"):  # the next poll may succeed
            await state.streams.poll()
        rest_s = max(POLL_S - (time.monotonic() - started), _LEAST_REST_S)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "not found.", 405: "method not allowed."}
    sentence = sentences.get(error.status_code, error.detail)
    return error_response(error.status_code, sentence, headers=dict(error.headers or {}))


async def _epochal_error(request: Request, error: Exception) -> Response:
    if isinstance(error, (UnreadableRunError, OSError)):
        # The run was deleted or moved, or a disk is away: not a fault of the server.
        return error_response(503, str(error))
    if isinstance(error, (CatalogAwayError, BucketError)):
        return error_response(503, str(error), headers={"retry-after": str(_RETRY_S)})
    return error_response(404 if isinstance(error, LookupError) else 400, str(error))


async def _client_disconnected(request: Request, error: Exception) -> Response:
    """A client that disconnects while it sends is not a fault; this response is not received."""
    return error_response(400, "the request ended early.")
