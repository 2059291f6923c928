"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from epochal.health.rule_settings import reader_rules
from epochal.hub.audit import AuditMiddleware
from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.hub.limits import Budget, GuessLimitMiddleware, RequestLimitMiddleware
from epochal.hub.links import Links
from epochal.hub.retention import Retention, RetentionRules
from epochal.server.access import Access, Principal, TrustedProxy
from epochal.server.address import folders_digest
from epochal.server.app import App, create_inner_app, with_access
from epochal.server.process import TlsFiles, run_server
from epochal.server.responses import error_response
from epochal.serving import ServerAddress, write_archive
from epochal.settings import cache_folder
from epochal.store.answers import TrashedRun
from epochal.store.local.store import LocalStore
from epochal.store.local.trash import check_removable
from epochal.store.store import RunView


class HubStore(LocalStore):
    """The runs in some folders of a hub; deleted runs are noted, so no sender brings them back."""

    def __init__(self, folders: Sequence[Path], ledger: Ledger) -> None:
        super().__init__(*folders, cache=cache_folder(), rules=reader_rules())
        self._ledger = ledger

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run to the trash."""
        check_removable(run.info)
        # Before the move, so that its sender cannot bring it back even if this process is killed
        # in between. For a run that is still here the note has no effect.
        self._ledger.note_removed(run.info.id)
        return super().remove(run)


# Gives each request to an application over just the folders that its sender may see.
#
# A sender with some projects, or with a link to some runs, is served by an application of its own
# whose store was opened on these folders. No endpoint can return what its store does not hold.

# Sets of folders that are served at once; the one that was used least recently is closed.
_MOST_APPS = 64
# Where the hub's own endpoints are: they check the sender themselves.
_HUB_PATHS = "/api/hub/"


class ByPrincipal:
    """An ASGI application: the whole hub for those who may see all of it, else a part."""

    def __init__(
        self,
        whole: App,
        *,
        folders_of: Callable[[Principal], Sequence[Path]],
        create: Callable[[Sequence[Path]], App],
        most: int = _MOST_APPS,
    ) -> None:
        self._whole = whole
        self._folders_of = folders_of
        self._create = create
        self._most = most
        self._lock = asyncio.Lock()
        self._apps: OrderedDict[tuple[Path, ...], tuple[App, contextlib.AsyncExitStack]] = (
            OrderedDict()
        )

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
        folders = tuple(await asyncio.to_thread(self._folders_of, principal))
        if not folders:
            return None
        async with self._lock:
            found = self._apps.get(folders)
            if found is None:
                app = await asyncio.to_thread(self._create, folders)
                stack = contextlib.AsyncExitStack()
                await stack.enter_async_context(app.running())
                found = self._apps[folders] = (app, stack)
            self._apps.move_to_end(folders)
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
    root: Path,
    ledger: Ledger,
    server: ServerAddress,
    inbox: Inbox,
    *,
    proxy: TrustedProxy | None = None,
    allow_control: bool = False,
    clock: Callable[[], float] = time.time,
) -> App:
    """The application of a hub over one folder."""
    controls = HubControls(ledger, is_allowed=allow_control, clock=clock)
    receiving = Receiving(inbox, ledger, controls)
    links = Links(root, clock=clock)

    def create(folders: Sequence[Path]) -> App:
        is_whole = folders == [root]
        return create_inner_app(
            lambda: HubStore(folders, ledger),
            write_archive=write_archive,
            folders=folders_digest(folders),
            more_routes=receiving.routes() if is_whole else (),
            on_close=receiving.close if is_whole else None,
            controls=controls,
        )

    def folders_of(principal: Principal) -> list[Path]:
        if principal.runs is None:
            return [root / name for name in sorted(principal.projects or ())]
        paths = (inbox.folder_of(run_id) for run_id in sorted(principal.runs))
        return [path for path in paths if path is not None]

    def find(token: str) -> Principal | None:
        return ledger.principal(token) or links.principal(token)

    whole = create([root])
    parts = ByPrincipal(whole, folders_of=folders_of, create=create)
    limited = RequestLimitMiddleware(parts, proxy=proxy)
    app = replace(whole, asgi=limited, close_streams=parts.close_streams)
    access = Access(
        hosts=server.names, port=server.port, find=find, proxy=proxy, refused=links.refused
    )
    guarded = with_access(app, access)
    audited = AuditMiddleware(guarded.asgi, ledger, proxy=proxy)
    return replace(guarded, asgi=GuessLimitMiddleware(audited, proxy=proxy))


def serve_hub(
    root: Path,
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
    inbox = Inbox(root, charge=budget.charge)
    app = create_hub(root, ledger, server, inbox, proxy=proxy, allow_control=allow_control)
    keeping = Retention(
        retention, lambda: HubStore([root], ledger), ledger, budget, locked=inbox.locked, tell=tell
    )
    with server.listening, contextlib.closing(budget), keeping.running():
        run_server(app, server.listening, on_ready=on_ready, tls=tls)
