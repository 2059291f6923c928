"""A hub over a ClickHouse cluster: its folder is a working copy that follows the tables."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from epochal.health.rule_settings import reader_rules
from epochal.hub.ledger import Ledger
from epochal.hub.shared_ledger import SharedLedger
from epochal.hub.store import HubStore
from epochal.server.state import server_guard
from epochal.settings import cache_folder
from epochal.store.clickhouse.connection import ClickHouseError, parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Tables
from epochal.store.clickhouse.upstream import ClickHouseUpstream

# How soon one hub shows what another has received.
_LOOK_EVERY_S = 0.5
_RETRY_S = 5.0
# Requests that wait at once until their rows are stored.
_THREADS = 256


class _ClusterStore(HubStore, ClickHouseStore):
    """The runs of a cluster, as a hub serves them."""


class Cluster:
    """The tables behind a hub, and the copy of them in its folder."""

    num_threads = _THREADS

    def __init__(self, address: str, root: Path, *, blobs: str | None = None) -> None:
        self.address = parse_address(address)
        self.copies = Copies(Tables(self.address, blobs=blobs), root)
        self.upstream = ClickHouseUpstream(self.copies)
        self.ledger = SharedLedger(root)
        try:
            self.ledger.exchange(self.copies.tables)
        except ClickHouseError:
            if not self.ledger.tokens():  # a server is away, and nobody is known here yet
                raise

    def open_store(self, folders: Sequence[Path], ledger: Ledger) -> HubStore:
        """The runs of some folders of the working copy."""
        store = _ClusterStore(
            self.copies,
            *folders,
            cache=cache_folder(),
            build=True,
            rules=reader_rules(),
            is_followed=True,
        )
        store.ledger = ledger
        return store

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Follow the tables in a thread; close everything at the end."""
        stopping, guard = threading.Event(), server_guard()

        def work() -> None:
            pause_s = 0.0
            while not stopping.wait(pause_s):
                pause_s = guard.run("clickhouse", self._look) or _RETRY_S

        thread = threading.Thread(target=work, name="epochal-clickhouse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(5.0)
            self.copies.tables.close()

    def _look(self) -> float:
        """Copy what is new; how long to wait before the next look."""
        try:
            self.ledger.exchange(self.copies.tables)
            self.copies.fetch_changed()
        except ClickHouseError as error:
            self.copies.problems[""] = f"{error} The page shows what was copied before."
            return _RETRY_S
        self.copies.problems.pop("", None)
        return _LOOK_EVERY_S


def working_copy(address: str) -> Path:
    """Where the working copy of a hub lies, unless a folder is given."""
    digest = hashlib.sha256(str(parse_address(address)).encode()).hexdigest()[:16]
    return cache_folder() / "hubs" / digest
