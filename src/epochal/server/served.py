"""What all handlers share: the store's threads, the streams, the page, and what was passed in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TextIO, cast

from starlette.requests import Request

from epochal.guard import Fault, Guard
from epochal.page.loader import Page
from epochal.server.hub import Hub
from epochal.server.reader import Reader
from epochal.server.words import WordBook
from epochal.store.store import RunView, Store


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A file format that runs can be downloaded in; formats are made above the server."""

    ending: str
    media_type: str
    write: Callable[[RunView, TextIO], None]


def server_guard() -> Guard:
    """The fault boundary of a server: what goes wrong in each member is on stderr once."""
    return Guard(_to_stderr)


def _to_stderr(fault: Fault) -> None:
    sys.stderr.write(f"epochal: internal error in {fault.member}\n{fault.traceback}")


@dataclass(frozen=True, slots=True)
class Served:
    """One server's parts."""

    reader: Reader
    hub: Hub
    guard: Guard
    page: Page
    open_store: Callable[[], Store]
    folders: str = ""
    exports: Mapping[str, ExportFormat] = field(default_factory=dict)
    words: WordBook = field(default_factory=WordBook)

    @property
    def num_faults(self) -> int:
        """How often something went wrong here that should not have."""
        return sum(fault.count for fault in list(self.guard.faults.values()))


def served(request: Request) -> Served:
    """The server that a request came to."""
    return cast(Served, request.app.state.served)
