"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from epochal.api.serving import ServerAddress, write_archive
from epochal.errors import UsageError
from epochal.health.rule_settings import reader_rules
from epochal.hub.audit import AuditMiddleware
from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.ledger import Ledger, Links
from epochal.hub.limits import Budget, GuessLimitMiddleware
from epochal.hub.retention import Retention, RetentionRules
from epochal.journal.layout import SearchBounds
from epochal.server.access import Access, Principal, TrustedProxy
from epochal.server.address import folders_digest
from epochal.server.app import App, create_inner_app, with_access
from epochal.server.process import TlsFiles, run_server
from epochal.server.responses import error_response
from epochal.settings import cache_folder
from epochal.store.catalog import Trash
from epochal.store.local.catalog import FolderCatalog
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.store import Store

Charge = Callable[[str, int], None]
# Folders of a hub, and of the runs in them those that are shown; None for all.
Part: TypeAlias = tuple[tuple[Path, ...], frozenset[str] | None]


class HubRuns:
    """The runs in the folder of a hub: how they are received, and how they are read.

    ``charge`` is called before bytes of a run are stored; see ``Inbox``. ``whole`` is the part of
    the runs that has all of them.
    """

    def __init__(self, root: Path, charge: Charge = lambda *_: None) -> None:
        self.root = root
        self.inbox = FolderInbox(root, charge=charge)
        self.whole: Part = ((root,), None)
        self._bounds = SearchBounds(root)

    def part_of(self, who: Principal) -> Part | None:
        """Which part of the runs a person may see; None for nothing."""
        if who.runs is None:
            folders = [self.root / name for name in sorted(who.projects or ())]
            paths = self._bounds.chosen(folders)
        else:
            found = (self.inbox.folder_of(run_id) for run_id in sorted(who.runs))
            paths = [path for path in found if path is not None]
        return (tuple(paths), who.runs) if paths else None


class NotingTrash:
    """The trash of a hub: what is deleted is noted, so that no sender brings it back.

    ``on_restore`` is called when a run is back: it is received again.
    """

    def __init__(self, trash: Trash, ledger: Ledger, on_restore: Callable[[], None]) -> None:
        self._trash = trash
        self._ledger = ledger
        self._on_restore = on_restore
        self.runs, self.find, self.erase = trash.runs, trash.find, trash.erase

    def put(self, run: RunView) -> TrashedRun:
        """Move a run here."""
        # Noted before the move, so that its sender cannot bring it back even if this process is
        # killed in between. For a run that is still here the note has no effect.
        listed = run.info
        self._ledger.note_removed(listed.id, listed.project)
        try:
            moved = self._trash.put(run)
        except UsageError:
            self._ledger.forget_removed(listed.id)
            raise
        if moved.id != listed.id:  # a copy, or a run whose file could not be read
            self._ledger.note_removed(moved.id, listed.project)
        return moved

    def restore(self, run: TrashedRun) -> str:
        """Move a run back, and let the hub find it."""
        place = self._trash.restore(run)
        self._on_restore()
        return place


def open_noting(runs: HubRuns, ledger: Ledger, part: Part) -> Store:
    """The store over a part of the runs of a hub."""
    folders, only = part
    catalog = FolderCatalog(*folders, cache=cache_folder(), rules=reader_rules(), only=only)
    return Store(catalog, NotingTrash(catalog.trash, ledger, runs.inbox.rescan))


# Gives each request to an application over just the runs that its sender may see.
#
# A sender with some projects, or with a link to some runs, is served by an application of its own
# whose store was opened on these. No endpoint can return what its store does not hold.

# Parts that are served at once; the one that was used least recently is closed.
_MOST_APPS = 64
# Where the hub's own endpoints are: they check the sender themselves.
_HUB_PATHS = "/api/hub/"


class ByPrincipal:
    """An ASGI application: the whole hub for those who may see all of it, else a part."""

    def __init__(
        self,
        whole: App,
        *,
        part_of: Callable[[Principal], Part | None],
        create: Callable[[Part], App],
        most: int = _MOST_APPS,
    ) -> None:
        self._whole = whole
        self._part_of = part_of
        self._create = create
        self._most = most
        self._lock = asyncio.Lock()
        self._apps: OrderedDict[Part, tuple[App, contextlib.AsyncExitStack]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request over; end the other applications with this one."""
        if scope["type"] != "http":
            try:
                await self._whole.asgi(scope, receive, send)
            finally:
                await self._close_all()
            return
        app = await self._app(scope["state"]["principal"], scope["path"])
        if app is None:
            answer = error_response(404, "this link leads to no run that is still here.")
            await answer(scope, receive, send)
        else:
            await app(scope, receive, send)

    def close_streams(self) -> None:
        """End the event streams of every application."""
        self._whole.close_streams()
        for app, _ in self._apps.values():
            app.close_streams()

    async def _app(self, principal: Principal, path: str) -> ASGIApp | None:
        if path.startswith(_HUB_PATHS) or (principal.projects is None and principal.runs is None):
            return self._whole.asgi
        # The runs of a link may have to be looked for.
        part = await asyncio.to_thread(self._part_of, principal)
        if part is None:
            return None
        async with self._lock:
            found = self._apps.get(part)
            if found is None:
                app = await asyncio.to_thread(self._create, part)
                stack = contextlib.AsyncExitStack()
                await stack.enter_async_context(app.running())
                found = self._apps[part] = (app, stack)
            self._apps.move_to_end(part)
            while len(self._apps) > self._most:
                _, (old, old_stack) = self._apps.popitem(last=False)
                old.close_streams()
                await old_stack.aclose()
        return found[0].asgi

    async def _close_all(self) -> None:
        while self._apps:
            _, (app, stack) = self._apps.popitem()
            app.close_streams()
            await stack.aclose()


def create_hub(
    runs: HubRuns,
    ledger: Ledger,
    server: ServerAddress,
    *,
    proxy: TrustedProxy | None = None,
    allow_control: bool = False,
    clock: Callable[[], float] = time.time,
) -> App:
    """The application of a hub."""
    controls = HubControls(ledger, is_allowed=allow_control, clock=clock)
    receiving = Receiving(runs.inbox, ledger, controls)
    links = Links(ledger.documents, clock=clock)

    def create(part: Part) -> App:
        is_whole = part == runs.whole
        return create_inner_app(
            partial(open_noting, runs, ledger, part),
            write_archive=write_archive,
            folders=folders_digest([runs.root]),
            more_routes=receiving.routes() if is_whole else (),
            on_close=receiving.close if is_whole else None,
            controls=controls,
        )

    def find(token: str) -> Principal | None:
        return ledger.principal(token) or links.principal(token)

    whole = create(runs.whole)
    parts = ByPrincipal(whole, part_of=runs.part_of, create=create)
    app = replace(whole, asgi=parts, close_streams=parts.close_streams)
    access = Access(
        hosts=server.names, port=server.port, find=find, proxy=proxy, refused=links.refused
    )
    guarded = with_access(app, access)
    audited = AuditMiddleware(guarded.asgi, ledger, proxy=proxy)
    return replace(guarded, asgi=GuessLimitMiddleware(audited, proxy=proxy))


def serve_hub(
    runs: HubRuns,
    ledger: Ledger,
    server: ServerAddress,
    budget: Budget,
    *,
    proxy: TrustedProxy | None = None,
    tls: TlsFiles | None = None,
    allow_control: bool = False,
    retention: RetentionRules,
    tell: Callable[[str], object],
    on_ready: Callable[[], None],
) -> None:
    """Serve until stopped; ``tell`` prints a line about runs that go by the retention rules."""
    assert server.listening is not None
    app = create_hub(runs, ledger, server, proxy=proxy, allow_control=allow_control)
    open_store = partial(open_noting, runs, ledger, runs.whole)
    keeping = Retention(retention, open_store, ledger, budget, locked=runs.inbox.locked, tell=tell)
    with server.listening, keeping.running():
        run_server(app, server.listening, on_ready=on_ready, tls=tls)
