"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.hub.audit import AuditMiddleware
from epochal.hub.budget import Budget
from epochal.hub.by_principal import ByPrincipal
from epochal.hub.control import HubControls
from epochal.hub.endpoints import THREADS, Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.hub.limits import GuessLimitMiddleware, RequestLimitMiddleware
from epochal.hub.links import Links
from epochal.hub.retention import Retention
from epochal.hub.retention_rules import RetentionRules
from epochal.hub.store import HubStore, open_hub_store
from epochal.server.access import Access, Principal, TrustedProxy
from epochal.server.address import folders_digest
from epochal.server.app import App, create_inner_app, with_access
from epochal.server.process import TlsFiles, run_server
from epochal.serving import ServerAddress, export_formats

if TYPE_CHECKING:
    from epochal.hub.cluster import Cluster

OpenStore = Callable[[Sequence[Path], Ledger], HubStore]


def create_hub(
    root: Path,
    ledger: Ledger,
    server: ServerAddress,
    inbox: Inbox,
    *,
    open_store: OpenStore = open_hub_store,
    proxy: TrustedProxy | None = None,
    allow_control: bool = False,
    threads: int = THREADS,
    clock: Callable[[], float] = time.time,
) -> App:
    """The application of a hub over one folder; ``threads`` receive at once.

    ``clock`` is one that all hubs share which have the same ledger.
    """
    controls = HubControls(ledger, is_allowed=allow_control, clock=clock)
    receiving = Receiving(inbox, ledger, controls, threads=threads)
    links = Links(root, clock=clock)

    def create(folders: Sequence[Path]) -> App:
        is_whole = folders == [root]
        return create_inner_app(
            lambda: open_store(folders, ledger),
            exports=export_formats(),
            folders=folders_digest(folders),
            more_routes=receiving.routes() if is_whole else (),
            on_close=receiving.close if is_whole else None,
            controls=controls,
        )

    def folders_of(principal: Principal) -> list[Path]:
        if principal.runs is None:
            return [root / name for name in sorted(principal.projects or ())]
        places = (inbox.place_of(run_id) for run_id in sorted(principal.runs))
        return [place for place in places if place is not None]

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
    cluster: Cluster | None = None,
    retention: RetentionRules,
    tell: Callable[[str], object],
    on_ready: Callable[[], None],
) -> None:
    """Serve until stopped; ``tell`` prints a line about runs that go by the retention rules."""
    assert server.listening is not None
    clock = time.time if cluster is None else cluster.copies.tables.clock.now
    inbox = Inbox(
        root,
        charge=budget.charge,
        upstream=None if cluster is None else cluster.upstream,
        # Files of other hubs have the cluster's time, those of this one its own.
        clock=lambda: min(time.time(), clock()),
    )
    open_store = open_hub_store if cluster is None else cluster.open_store
    app = create_hub(
        root,
        ledger,
        server,
        inbox,
        open_store=open_store,
        proxy=proxy,
        allow_control=allow_control,
        threads=THREADS if cluster is None else cluster.num_threads,
        clock=clock,
    )
    keeping = Retention(
        retention,
        lambda: open_store([root], ledger),
        ledger,
        budget,
        held=inbox.held,
        tell=tell,
        clock=clock,
    )
    following = contextlib.nullcontext() if cluster is None else cluster.running()
    with server.listening, contextlib.closing(budget), following, keeping.running():
        run_server(app, server.listening, on_ready=on_ready, tls=tls)
