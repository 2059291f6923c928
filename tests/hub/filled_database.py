"""A database that has received the runs of a folder, as a hub receives them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.hub.clickhouse_inbox import ClickHouseInbox
from epochal.journal.layout import run_folders
from epochal.shipping.client import HubClient
from epochal.shipping.protocol import FileKind, RunState
from epochal.shipping.worker import ship_now
from epochal.store.clickhouse.tables import Database


class InboxClient(HubClient):
    """Sends to an inbox of this process, without a server between."""

    def __init__(self, inbox: ClickHouseInbox) -> None:
        super().__init__("http://inbox")
        self.inbox = inbox

    def register(
        self, run_id: str, identity: Mapping[str, Any], *, unless_removed: bool = False
    ) -> RunState:
        return self.inbox.register(run_id, identity)

    def state(self, run_id: str) -> RunState:
        return self.inbox.state(run_id)

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        return self.inbox.append(run_id, stem, first=first, lines=lines)

    def put_file(
        self,
        run_id: str,
        kind: FileKind,
        name: str,
        chunk: bytes,
        *,
        offset: int = 0,
        size: int,
        sha256: str,
    ) -> int:
        return self.inbox.put_file(
            run_id, kind, name, chunk, offset=offset, size=size, sha256=sha256
        )

    def merge_labels(
        self, run_id: str, labels: Mapping[str, Any], base: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self.inbox.put_labels(run_id, labels, base)


def fill(database: Database, root: Path) -> None:
    """Send every run below a folder."""
    inbox = ClickHouseInbox(database)
    with contextlib.closing(inbox):
        for folder in run_folders(root):
            ship_now(folder, InboxClient(inbox))
