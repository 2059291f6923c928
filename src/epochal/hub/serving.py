"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from epochal.api.serving import ServerAddress, write_archive
from epochal.errors import EpochalError, UsageError
from epochal.health.rule_settings import reader_rules
from epochal.hub.admission import Admission
from epochal.hub.audit import AuditMiddleware
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.counters import HubCounters
from epochal.hub.endpoints import HubControls, Receiving
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.health import HealthProbes
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger, Links
from epochal.hub.limits import GuessLimitMiddleware, Limits
from epochal.journal.layout import SearchBounds, slugify
from epochal.server.access import Access, Principal, TrustedProxy
from epochal.server.address import folders_digest
from epochal.server.app import App, create_inner_app, with_access
from epochal.server.process import TlsFiles, run_server
from epochal.server.responses import error_response
from epochal.settings import cache_folder
from epochal.store.catalog import Catalog, Trash
from epochal.store.cluster.catalog import ClusterCatalog
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.local.catalog import FolderCatalog
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.store import Store

# A part of the runs of a hub: what an application of its own is opened on.
Part: TypeAlias = Hashable


class HubRuns(Protocol):
    """The runs of a hub: how they are received, and how they are read."""

    @property
    def inbox(self) -> Inbox:
        """What receives them."""

    @property
    def counters(self) -> HubCounters:
        """What this hub counts of itself."""

    @property
    def name(self) -> str:
        """What tells this hub's runs from those of other hubs on this machine."""

    @property
    def whole(self) -> Part:
        """The part that has all of them."""

    def part_of(self, who: Principal) -> Part | None:
        """Which part of the runs a person may see; None for nothing."""

    def catalog(self, part: Part) -> Catalog:
        """The catalog over a part of the runs, and over nothing else."""

    def now(self) -> float:
        """The time in Unix seconds, by the clock that says when a run was received."""

    def received(self, run: RunView) -> float:
        """When anything of a run was received last."""

    def silent(self, store: Store, since: Mapping[str, float | None]) -> Iterator[RunView]:
        """Runs of which nothing was received since a moment.

        The moment may be another one for each project, ``since['']`` is that of all others. None:
        their runs are left out.
        """

    def locked(self, run_id: str) -> AbstractContextManager[object]:
        """Let nothing of a run be received meanwhile, where it would be lost."""

    def close(self) -> None:
        """Store what waits; no request follows."""


@dataclass(frozen=True, slots=True)
class FolderPart:
    """Folders of a hub, and of the runs in them those that are shown; None for all."""

    folders: tuple[Path, ...]
    only: frozenset[str] | None = None


class FolderRuns:
    """The runs in the folder of a hub.

    ``charge`` is called before bytes of a run are stored; see ``FolderInbox``.
    """

    def __init__(self, root: Path, charge: Callable[[str, int], None] = lambda *_: None) -> None:
        self.root = root
        self.counters = HubCounters()
        self.inbox = FolderInbox(root, charge=charge, on_commit=self.counters.commit)
        self.whole = FolderPart((root,))
        self._bounds = SearchBounds(root)

    @property
    def name(self) -> str:
        return folders_digest([self.root])

    def part_of(self, who: Principal) -> FolderPart | None:
        if who.runs is None:
            folders = [self.root / name for name in sorted(who.projects or ())]
            paths = self._bounds.chosen(folders)
        else:
            found = (self.inbox.folder_of(run_id) for run_id in sorted(who.runs))
            paths = [path for path in found if path is not None]
        return FolderPart(tuple(paths), who.runs) if paths else None

    def catalog(self, part: Part) -> FolderCatalog:
        assert isinstance(part, FolderPart)
        rules, cache = reader_rules(), cache_folder()
        return FolderCatalog(*part.folders, cache=cache, rules=rules, only=part.only)

    def now(self) -> float:
        return time.time()

    def received(self, run: RunView) -> float:
        try:
            run.refresh()
        except (OSError, EpochalError):
            return self.now()
        # By the clock of the disk: a run of last year that comes today is new here.
        return run.source.newest_s or run.created or self.now()

    def silent(self, store: Store, since: Mapping[str, float | None]) -> Iterator[RunView]:
        for run in store.runs():
            moment = since.get(slugify(run.outline().project), since[""])
            if moment is not None and self.received(run) <= moment:
                yield run

    def locked(self, run_id: str) -> AbstractContextManager[object]:
        return self.inbox.locked(run_id)

    def close(self) -> None:
        """Nothing waits."""


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Projects of a cluster by their slugs, or some runs; None for all."""

    projects: frozenset[str] | None = None
    only: frozenset[str] | None = None


class SharedRuns:
    """The runs of a cluster: in a database and a bucket, which several hubs share."""

    whole = SharedPart()

    def __init__(self, runs: ClusterRuns, *, cache: Path, limits: Limits | None = None) -> None:
        self._runs = runs
        self._cache = cache
        self.counters = HubCounters()
        self.inbox = ClusterInbox(runs, limits=limits, on_commit=self.counters.commit)

    @property
    def name(self) -> str:
        text = f"{self._runs.database.address} {self._runs.bucket.address}"
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def part_of(self, who: Principal) -> SharedPart | None:
        return SharedPart(only=who.runs) if who.runs is not None else SharedPart(who.projects)

    def catalog(self, part: Part) -> ClusterCatalog:
        assert isinstance(part, SharedPart)
        return ClusterCatalog(
            self._runs,
            cache=self._cache,
            projects=part.projects,
            only=part.only,
            rules=reader_rules(),
        )

    def now(self) -> float:
        return self._runs.database.now()

    def received(self, run: RunView) -> float:
        stored = self._runs.find(run.id)
        return self.now() if stored is None else stored.received

    def silent(self, store: Store, since: Mapping[str, float | None]) -> Iterator[RunView]:
        for run_id in self._runs.silent(since):
            run = store.find(run_id)
            if run is not None:
                yield run

    def locked(self, run_id: str) -> AbstractContextManager[object]:
        # A sender that goes on takes its run out of the trash, with all that is there.
        return contextlib.nullcontext()

    def close(self) -> None:
        self.inbox.close()


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
    catalog = runs.catalog(part)
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

    def num_streams(self) -> int:
        """How many event streams are open, of every application."""
        return self._whole.num_streams() + sum(app.num_streams() for app, _ in self._apps.values())

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
    admission: Admission | None = None,
    clock: Callable[[], float] | None = None,
) -> App:
    """The application of a hub."""
    controls = HubControls(ledger, is_allowed=allow_control, clock=clock or runs.now)
    receiving = Receiving(runs.inbox, ledger, controls, admission=admission, counters=runs.counters)
    probes = HealthProbes(runs.inbox, runs.counters)
    # A link holds for days, and the event loop checks it: it waits for no database.
    links = Links(ledger.documents, clock=clock or time.time)

    def close() -> None:
        receiving.close()
        probes.close()

    def create(part: Part) -> App:
        is_whole = part == runs.whole
        return create_inner_app(
            partial(open_noting, runs, ledger, part),
            write_archive=write_archive,
            folders=runs.name,
            more_routes=(*receiving.routes(), *probes.routes()) if is_whole else (),
            on_close=close if is_whole else None,
            controls=controls,
        )

    def find(token: str) -> Principal | None:
        return ledger.principal(token) or links.principal(token)

    whole = create(runs.whole)
    parts = ByPrincipal(whole, part_of=runs.part_of, create=create)
    app = replace(whole, asgi=parts, close_streams=parts.close_streams)
    about = "Event streams of pages that are open."
    runs.counters.gauge("event_streams", about, parts.num_streams)
    access = Access(
        hosts=server.names, port=server.port, find=find, proxy=proxy, refused=links.refused
    )
    guarded = with_access(app, access)
    audited = AuditMiddleware(guarded.asgi, ledger, proxy=proxy)
    return replace(guarded, asgi=GuessLimitMiddleware(audited, proxy=proxy))


class Task(Protocol):
    """What a hub does by itself, such as deleting old runs."""

    def running(self) -> AbstractContextManager[None]:
        """Do it in a thread, until the block ends."""


def serve_hub(
    runs: HubRuns,
    ledger: Ledger,
    server: ServerAddress,
    *,
    proxy: TrustedProxy | None = None,
    tls: TlsFiles | None = None,
    allow_control: bool = False,
    tasks: Sequence[Task] = (),
    on_ready: Callable[[], None],
) -> None:
    """Serve until stopped, and run what a hub does by itself meanwhile."""
    assert server.listening is not None
    app = create_hub(runs, ledger, server, proxy=proxy, allow_control=allow_control)
    with contextlib.ExitStack() as stack:
        stack.enter_context(server.listening)
        for task in tasks:
            stack.enter_context(task.running())
        run_server(app, server.listening, on_ready=on_ready, tls=tls)
