"""Runs the server in this process until it is stopped or its parent process has exited."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable

import uvicorn

from epochal.journal.process import liveness, process_identity
from epochal.server.app import App
from epochal.server.protocol import bounded_protocol

MAX_HEADER_BYTES = 128 * 1024
_WATCH_EVERY_S = 1.0
_SHUTDOWN_S = 3


class _Server(uvicorn.Server):
    """Ends event streams on shutdown: uvicorn waits for open responses forever."""

    def __init__(self, config: uvicorn.Config, *, app: App, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call ``on_ready``."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then stop."""
        self._app.close_streams()
        await super().shutdown(sockets)


def run_server(
    app: App,
    listening: socket.socket,
    *,
    on_ready: Callable[[], None] = lambda: None,
    parent: int | None = None,
    linger_s: float = 60.0,
) -> None:
    """Serve on a socket that listens; with ``parent`` until ``linger_s`` after that process ended.

    Returns when stopped; a signal that stopped it is raised again.
    """
    config = uvicorn.Config(
        app.asgi,
        http=bounded_protocol(),
        lifespan="on",
        ws="none",
        access_log=False,  # a token may stand in a URL
        log_config=None,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )
    server = _Server(config, app=app, on_ready=on_ready)
    # Lists of runs are many long-lived objects without cycles. At the default rate the garbage
    # collector takes a third of the time of a first list of ten thousand runs.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

    async def serve() -> None:
        watching = None
        if parent is not None:
            watching = asyncio.create_task(_stop_after_parent(server, parent, linger_s))
        await server.serve(sockets=[listening])
        if watching is not None:
            watching.cancel()

    asyncio.run(serve())


async def _stop_after_parent(server: uvicorn.Server, parent: int, linger_s: float) -> None:
    identity = process_identity(parent)
    while identity["pid_start"] is not None and liveness(identity) == "alive":
        await asyncio.sleep(_WATCH_EVERY_S)
    gone = time.monotonic()
    while time.monotonic() - gone < linger_s:
        await asyncio.sleep(min(_WATCH_EVERY_S, linger_s))
    server.should_exit = True
