"""Puts the server together; a fault of ours is counted, shown here, and one sentence for others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.errors import EpochalError, RunNotFoundError
from epochal.guard import Guard as FaultGuard
from epochal.page.loader import load_page
from epochal.server.access import Access, Guard
from epochal.server.answer import problem
from epochal.server.hub import BEAT_S, Hub
from epochal.server.reader import Reader, UnreadableRunError
from epochal.server.routes import routes
from epochal.server.served import ExportFormat, Served, server_guard
from epochal.store.store import MetricNotFoundError, Store


@dataclass(frozen=True, slots=True)
class App:
    """An ASGI application, and how its streams are ended before it stops."""

    asgi: ASGIApp
    close_streams: Callable[[], None]


def create_app(
    open_store: Callable[[], Store],
    *,
    access: Access | None = None,
    exports: Mapping[str, ExportFormat] | None = None,
    folders: str = "",
) -> App:
    """A server over a store; ``folders`` is how ``/healthz`` tells it from others."""
    reader = Reader(open_store())
    page = load_page()
    guard = server_guard()
    parts = Served(
        reader=reader,
        hub=Hub(reader, guard),
        guard=guard,
        page=page,
        open_store=open_store,
        folders=folders,
        exports=exports or {},
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        beating = asyncio.create_task(_keep_beating(parts))
        try:
            yield
        finally:
            parts.hub.close()
            beating.cancel()
            await asyncio.to_thread(parts.hub.stop)
            await asyncio.to_thread(reader.close)

    app = Starlette(
        routes=routes(),
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_problem,
            EpochalError: _our_problem,
            ClientDisconnect: _nobody_there,
        },
    )
    app.state.served = parts
    return App(Guard(_Net(app, guard), access=access or Access(), page=page), parts.hub.close)


class _Net:
    """Around the application: a fault of ours becomes one sentence for the client."""

    def __init__(self, app: ASGIApp, guard: FaultGuard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = ended = False
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def noting_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                if message["status"] == 500:
                    return  # Starlette's own answer to what is raised below
                started = True
            if started:
                await send(message)

        with self._guard.member(_member(scope["path"])):
            await self._app(scope, receive, noting_send)
            ended = True
        if not ended and not started:
            sentence = "internal error: the server's terminal shows where it happened."
            await problem(500, sentence)(scope, receive, send)


def _member(path: str) -> str:
    """What answers a path, as faults are counted: without the ids in it."""
    parts = path.split("/")
    if parts[:3] == ["", "api", "runs"]:
        parts[3:4] = ["{id}"] if len(parts) > 3 else []
        del parts[5:]
    return f"request {'/'.join(parts)}"


async def _keep_beating(parts: Served) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        with parts.guard.member("event stream"):  # the next beat may do better
            await parts.hub.beat()


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "there is nothing at this address.", 405: "this is not done here."}
    headers = dict(error.headers or {})
    return problem(
        error.status_code, sentence.get(error.status_code, error.detail), headers=headers
    )


async def _our_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, UnreadableRunError):
        # A run that is deleted, moved or out of reach while it is read is no fault of ours.
        return problem(503, str(error))
    is_missing = isinstance(error, (RunNotFoundError, MetricNotFoundError))
    return problem(404 if is_missing else 400, str(error))


async def _nobody_there(request: Request, error: Exception) -> Response:
    """A client that hangs up while it sends is no fault; this answer reaches nobody."""
    return problem(400, "the request ended early.")
