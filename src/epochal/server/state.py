"""The server's shared state, which every handler reads from its request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.base.guard import Fault, Guard
from epochal.journal.boards import StoredBoard
from epochal.server.control import Controls
from epochal.server.page import Page
from epochal.server.reader import Reader
from epochal.server.responses import json_response, run_id_of
from epochal.server.streams import EventStreams
from epochal.shipping.offering import PartCounts
from epochal.store.run import RunView
from epochal.store.store import Store

# Writes runs and boards as one HTML file; whether it opens on the first board. The layer above the
# server supplies it.
WriteArchive = Callable[[Sequence[RunView], TextIO, Sequence[StoredBoard], bool], None]


def server_guard() -> Guard:
    """The fault boundary of a server: it writes each member's first fault to stderr."""

    def to_stderr(fault: Fault) -> None:
        sys.stderr.write(f"epochal: internal error in {fault.member}\n{fault.traceback}")

    return Guard(to_stderr)


class ServerState(msgspec.Struct, frozen=True):
    """The parts of one server."""

    reader: Reader
    streams: EventStreams
    guard: Guard
    page: Page
    open_store: Callable[[], Store]
    controls: Controls | None
    write_archive: WriteArchive
    folders: str = ""
    part_counts: PartCounts = msgspec.field(default_factory=PartCounts)


def server_state(request: Request) -> ServerState:
    """The state of the server that received a request."""
    return cast(ServerState, request.app.state.server)


async def run_response(request: Request, query: Callable[[RunView], Any]) -> Response:
    """The result of a query of the run in a request's path, as JSON."""
    found = await server_state(request).reader.query_run(run_id_of(request), query)
    return await json_response(request, found)
