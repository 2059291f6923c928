"""What all handlers share: the store's thread, the streams, the page, and what was passed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TextIO, cast

from starlette.requests import Request

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


@dataclass(slots=True)
class Faults:
    """What went wrong that should not have; each was written to stderr."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Served:
    """One server's parts."""

    reader: Reader
    hub: Hub
    page: Page
    open_store: Callable[[], Store]
    folders: str = ""
    exports: Mapping[str, ExportFormat] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    words: WordBook = field(default_factory=WordBook)


def served(request: Request) -> Served:
    """The server that a request came to."""
    return cast(Served, request.app.state.served)
