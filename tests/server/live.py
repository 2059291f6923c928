"""A real server on loopback for tests, and clients that read it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from epochal.api.serving import write_archive
from epochal.server.access import LOOPBACK, Access
from epochal.server.app import App, create_app
from epochal.server.process import BoundedProtocol
from epochal.server.state import WriteArchive
from epochal.store.local.catalog import folder_store
from epochal.store.store import Store

WAIT_S = 120.0
_TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Event:
    name: str
    data: Any
    id: str | None


@dataclass(slots=True)
class Server:
    """One server in a thread of this process."""

    port: int

    def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            given = headers or {}
            connection.putrequest(
                method,
                target,
                skip_host="Host" in given,
                skip_accept_encoding="Accept-Encoding" in given,
            )
            sent = {} if body is None else {"Content-Length": str(len(body))}
            for name, value in {**sent, **given}.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    def patch(self, path: str, body: Any, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(
            path,
            method="PATCH",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **named},
        )

    @contextlib.contextmanager
    def listen(
        self, path: str = "/api/events", *, headers: dict[str, str] | None = None, **query: Any
    ) -> Iterator[Iterator[Event]]:
        """The events of a stream, as they come; an end or a long silence raises."""
        target = f"{path}?{urlencode(query, doseq=True)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with contextlib.closing(connection):
            connection.request("GET", target, headers=headers or {})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield events_of(response)


def events_of(response: http.client.HTTPResponse) -> Iterator[Event]:
    event = Event("message", None, None)
    while line := response.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event.name = value
        elif name == "id":
            event.id = value
        elif name == "data":
            event.data = json.loads(value)
        elif not line.strip() and event.data is not None:
            yield event
            event = Event("message", None, None)


def until(
    events: Iterator[Event], name: str, where: Callable[[Any], bool] = lambda data: True
) -> Event:
    """The next event of this name, with data of which ``where`` is true."""
    others = []
    for event in events:
        if event.name == name and where(event.data):
            return event
        others.append(event.name)
        # Heartbeats come whatever happens: six in a row are a minute and a half without the event.
        assert others[-6:] != ["heartbeat"] * 6, f"no {name!r} after {others}"
    raise AssertionError(f"the stream ended after {others}")


def until_added(events: Iterator[Event]) -> list[str]:
    """The ids of the next runs that join the list; changes of others may be told before."""
    added = until(events, "runs", lambda data: bool(data["added"])).data["added"]
    return [row["id"] for row in added]


class QuickServer(uvicorn.Server):
    """A server of uvicorn that looks a hundred times a second, not ten, whether it is to end."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(_TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state, deadline = self.server_state, time.monotonic() + WAIT_S
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and time.monotonic() < deadline:
            await asyncio.sleep(_TICK_S)
        await self.lifespan.shutdown()


@contextlib.contextmanager
def serving(
    *folders: Path,
    token: str | None = None,
    hosts: frozenset[str] = LOOPBACK,
    write_archive: WriteArchive = write_archive,
    open_store: Callable[[], Store] | None = None,
    protocol: type[BoundedProtocol] | None = None,
) -> Iterator[Server]:
    def create(port: int) -> App:
        return create_app(
            open_store or (lambda: folder_store(*folders)),
            access=Access(hosts=hosts, token=token, port=port),
            write_archive=write_archive,
            folders="test",
        )

    with serving_app(create, protocol=protocol) as server:
        yield server


@contextlib.contextmanager
def serving_app(
    create: Callable[[int], App], *, protocol: type[BoundedProtocol] | None = None
) -> Iterator[Server]:
    """Any application, made for the port that it is served on."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app = create(port)
    config = uvicorn.Config(
        app.asgi,
        http=protocol or BoundedProtocol,
        log_config=None,
        log_level="critical",
        access_log=False,
        ws="none",
        lifespan="on",
    )
    server = QuickServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Server(port)
    finally:
        app.close_streams()
        server.should_exit = True
        thread.join(WAIT_S)
        listening.close()
        assert not thread.is_alive()
