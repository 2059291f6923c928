"""Puts the server together, and catches what nothing else caught: counted, shown here, not told."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.errors import EpochalError, RunNotFoundError
from epochal.page.loader import load_page
from epochal.server.access import Access, Guard
from epochal.server.answer import problem
from epochal.server.hub import BEAT_S, Hub
from epochal.server.reader import Reader
from epochal.server.routes import routes
from epochal.server.served import ExportFormat, Faults, Served
from epochal.store.store import MetricNotFoundError, Store

# A fault at every beat would fill a terminal: the first ones tell what there is to know.
_MAX_FAULTS_SHOWN = 20


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
    parts = Served(
        reader=reader,
        hub=Hub(reader),
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
            await asyncio.to_thread(reader.close)

    app = Starlette(
        routes=routes(),
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_problem,
            EpochalError: _our_problem,
            OSError: _disk_problem,
        },
    )
    app.state.served = parts
    guard = Guard(_Net(app, parts.faults), access=access or Access(), page=page)
    return App(guard, parts.hub.close)


class _Net:
    """Around the application: a fault of ours becomes one sentence for the client."""

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                if message["status"] == 500:
                    return  # Starlette's own answer to what is raised below
                started = True
            if started or scope["type"] != "http":
                await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception:
            if scope["type"] != "http":
                raise
            _note_fault(self._faults)
            if not started:
                sentence = "something went wrong here; the server's terminal says what."
                await problem(500, sentence)(scope, receive, send)


async def _keep_beating(parts: Served) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        try:
            await parts.hub.beat()
        except Exception:  # noqa: BLE001 - counted and shown; the next beat may do better
            _note_fault(parts.faults)


def _note_fault(faults: Faults) -> None:
    faults.count += 1
    if faults.count <= _MAX_FAULTS_SHOWN:
        sys.stderr.write(traceback.format_exc())


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "there is nothing at this address.", 405: "this is not done here."}
    headers = dict(error.headers or {})
    return problem(
        error.status_code, sentence.get(error.status_code, error.detail), headers=headers
    )


async def _our_problem(request: Request, error: Exception) -> Response:
    is_missing = isinstance(error, (RunNotFoundError, MetricNotFoundError))
    return problem(404 if is_missing else 400, str(error))


async def _disk_problem(request: Request, error: Exception) -> Response:
    """A run that is deleted, moved or out of reach while it is read is no fault of ours."""
    assert isinstance(error, OSError)
    return problem(503, f"what was recorded cannot be read: {error.strerror or 'no reason'}.")
