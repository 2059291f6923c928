"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from epochal.health.rule_settings import reader_rules
from epochal.hub.audit import AuditMiddleware
from epochal.hub.budget import Budget
from epochal.hub.by_principal import ByPrincipal
from epochal.hub.control import HubControls
from epochal.hub.endpoints import Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.hub.limits import LimitMiddleware
from epochal.hub.links import Links
from epochal.hub.retention import Retention
from epochal.hub.retention_rules import RetentionRules
from epochal.server.access import Access, Principal, TrustedProxy
from epochal.server.address import folders_digest
from epochal.server.app import App, create_inner_app, with_access
from epochal.server.process import TlsFiles, run_server
from epochal.serving import ServerAddress, export_formats
from epochal.settings import cache_folder
from epochal.store.answers import TrashedRun
from epochal.store.local.store import LocalStore
from epochal.store.store import RunView


class HubStore(LocalStore):
    """The runs of a hub; it notes which ones are deleted, so that no sender brings them back."""

    ledger: Ledger

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run to the trash."""
        removed = super().remove(run)
        self.ledger.note_removed(removed.id)
        return removed


def open_hub_store(folders: Sequence[Path], ledger: Ledger) -> HubStore:
    """The runs of some folders of a hub."""
    store = HubStore(*folders, cache=cache_folder(), build=True, rules=reader_rules())
    store.ledger = ledger
    return store


def create_hub(
    root: Path,
    ledger: Ledger,
    server: ServerAddress,
    inbox: Inbox,
    *,
    proxy: TrustedProxy | None = None,
    allow_control: bool = False,
) -> App:
    """The application of a hub over one folder."""
    controls = HubControls(ledger, is_allowed=allow_control)
    receiving = Receiving(inbox, ledger, controls)
    links = Links(root)

    def create(folders: Sequence[Path]) -> App:
        return create_inner_app(
            lambda: open_hub_store(folders, ledger),
            exports=export_formats(),
            folders=folders_digest(folders),
            more_routes=receiving.routes() if folders == [root] else (),
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
    app = replace(whole, asgi=AuditMiddleware(parts, ledger), close_streams=parts.close_streams)
    access = Access(hosts=server.names, port=server.port, find=find, proxy=proxy)
    guarded = with_access(app, access)
    return replace(guarded, asgi=LimitMiddleware(guarded.asgi, proxy=proxy))


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
        retention,
        lambda: open_hub_store([root], ledger),
        ledger,
        budget,
        held=inbox.held,
        tell=tell,
    )
    with server.listening, contextlib.closing(budget), keeping.running():
        run_server(app, server.listening, on_ready=on_ready, tls=tls)
