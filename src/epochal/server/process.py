"""Runs the server in this process until it is stopped or its parent process has exited.

uvicorn waits without limit for the rest of a head or body, before our application sees the
request, and keeps heads of any length. Here a request must arrive whole within some seconds, its
head is bounded, and so is the number of connections with an incomplete request: the oldest is
closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import socket
import sys
import time
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from epochal.journal.process import liveness, process_identity
from epochal.server.app import App

# The first line of a request and its headers.
MAX_HEADER_BYTES = 128 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's connection, closed when its head is too long or a request does not come in time."""

    # From the first byte of a request to the last; requests have 128 kB at most.
    timeout_s: ClassVar[float] = 15.0
    most: ClassVar[int] = 256
    # The connections of this process whose request has not arrived whole, the oldest first.
    unfinished: ClassVar[dict[BoundedProtocol, asyncio.TimerHandle]] = {}

    # Whether a request has begun and not ended, whether its head has, and the bytes of its head.
    _is_partial = _is_head = False
    _num_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit; it also holds for the first byte."""
        super().connection_made(transport)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        """Receive a piece of a request."""
        self._num_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._num_bytes > MAX_HEADER_BYTES:
            self._give_up()
        is_answering = not getattr(self.cycle, "response_complete", True)  # None before the first
        self._limit(is_waiting=self._is_partial or not is_answering)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        self._forget()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Count from here; what is left of this piece of data counts for nothing."""
        super().on_message_begin()
        self._is_partial = self._is_head = True
        self._num_bytes = 0

    def on_headers_complete(self) -> None:
        """Answer, whatever is still missing of the body."""
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request has arrived whole."""
        self._is_partial = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Limit a request that has arrived meanwhile; else uvicorn's keep-alive limit holds."""
        super().on_response_complete()
        self._limit(is_waiting=self._is_partial)

    def _limit(self, *, is_waiting: bool) -> None:
        """Start or cancel the time limit, by whether the rest of a request is waited for."""
        if is_waiting:
            self._await_request()
        else:
            self._forget()

    def _await_request(self) -> None:
        if self in self.unfinished or self.transport.is_closing():
            return
        while len(self.unfinished) >= self.most:
            next(iter(self.unfinished))._give_up()
        self.unfinished[self] = self.loop.call_later(self.timeout_s, self._give_up)

    def _forget(self) -> None:
        timer = self.unfinished.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self) -> None:
        self._forget()
        self.transport.close()


MOST_OPEN_FILES = 65_536
_WATCH_EVERY_S = 1.0
_SHUTDOWN_S = 3
# A request takes several turns with a thread that reads a large run: 5 ms each would be too long.
_SWITCH_S = 0.001


class _Server(uvicorn.Server):
    """Ends event streams on shutdown: uvicorn waits for open responses forever."""

    def __init__(self, config: uvicorn.Config, *, app: App, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.close_streams()
        await super().shutdown(sockets)


class TlsFiles(NamedTuple):
    """The files of a certificate, with its chain, and of its key."""

    certificate: str
    key: str


def allow_open_files(most: int = MOST_OPEN_FILES) -> None:
    """Have as many files open as the system lets this process; 1,024 is usual unless it asks.

    Each sender has a connection, and each large run that grows a file of columns.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_server(
    app: App,
    listening: socket.socket,
    *,
    tls: TlsFiles | None = None,
    on_ready: Callable[[], None] = lambda: None,
    parent: int | None = None,
    linger_s: float = 60.0,
) -> None:
    """Serve on a socket that listens; with ``parent`` until ``linger_s`` after that process ended.

    Returns when stopped; a signal that stopped it is raised again.
    """
    config = uvicorn.Config(
        app.asgi,
        http=BoundedProtocol,
        lifespan="on",
        ws="none",
        access_log=False,  # a token may stand in a URL
        log_config=None,
        log_level="critical",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = _Server(config, app=app, on_ready=on_ready)
    allow_open_files()
    sys.setswitchinterval(_SWITCH_S)
    # Lists of runs are many long-lived objects without cycles. At the default rate the garbage
    # collector takes a third of the time of a first list of ten thousand runs.
    gc.freeze()
    gc.enable()
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
