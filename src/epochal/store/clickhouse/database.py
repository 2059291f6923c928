"""An open ClickHouse store: its tables, its documents, and where it keeps files that were read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from epochal.settings import cache_folder
from epochal.store.clickhouse.connection import Address, connect, parse_address
from epochal.store.clickhouse.documents import ClickHouseDocuments
from epochal.store.clickhouse.schema import set_up
from epochal.store.clickhouse.tables import Tables


class Database:
    """One database of a server or a cluster; several stores and an inbox share it."""

    def __init__(self, address: str | Address) -> None:
        self.address = parse_address(address) if isinstance(address, str) else address
        self.server = connect(self.address)
        set_up(self.address, self.server)
        self.tables = Tables(self.address, self.server)
        self.documents = ClickHouseDocuments(self.address, self.server)

    @property
    def cache(self) -> Path:
        """Where blobs are kept that were read; it can be deleted at any time."""
        digest = hashlib.blake2b(str(self.address).encode(), digest_size=8).hexdigest()
        return cache_folder() / "clickhouse" / digest

    def close(self) -> None:
        """Close every connection."""
        self.server.close()
