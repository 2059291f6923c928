"""Runs a hub in this process: the page and the API of ``serve``, and the receiving endpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from epochal.hub.endpoints import Receiving
from epochal.hub.inbox import Inbox
from epochal.hub.ledger import Ledger
from epochal.server.app import App, create_app
from epochal.serving import ServerAddress, export_formats


def create_hub(root: Path, ledger: Ledger, server: ServerAddress) -> App:
    """The application of a hub over one folder."""
    from epochal.health.rule_settings import reader_rules
    from epochal.server.access import Access
    from epochal.server.address import folders_digest
    from epochal.settings import cache_folder
    from epochal.store.local.store import LocalStore

    inbox = Inbox(root, charge=lambda run_id, _project, size: ledger.add_bytes(run_id, size))
    rules = reader_rules()
    return create_app(
        lambda: LocalStore(root, cache=cache_folder(), build=True, rules=rules),
        access=Access(hosts=server.names, port=server.port, find=ledger.principal),
        exports=export_formats(),
        folders=folders_digest([root]),
        more_routes=Receiving(inbox, ledger).routes(),
    )


def serve_hub(
    root: Path, ledger: Ledger, server: ServerAddress, *, on_ready: Callable[[], None]
) -> None:
    """Serve until stopped."""
    from epochal.server.process import run_server

    assert server.listening is not None
    app = create_hub(root, ledger, server)
    with server.listening:
        run_server(app, server.listening, on_ready=on_ready)
