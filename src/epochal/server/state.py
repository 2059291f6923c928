"""The server's shared state, which every handler reads from its request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO, cast

import msgspec
from starlette.requests import Request

from epochal.boards import StoredBoard
from epochal.guard import Fault, Guard
from epochal.page.loader import Page
from epochal.server.reader import Reader
from epochal.server.streams import EventStreams
from epochal.shipping.offering import PartCounts
from epochal.store.store import RunView, Store

if TYPE_CHECKING:
    from epochal.server.control import Controls


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
