"""Small documents that change: who a run is, its labels, boards, tokens, the audit log.

Each has a kind and a key, and of its versions the highest counts. The newest versions are read
again at each question, so that any number of hubs give the same answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from epochal.store.clickhouse.connection import Address, Server, literal
from epochal.store.clickhouse.rows import text, unpacked, whole
from epochal.store.clickhouse.schema import DOCUMENTS, one_of

_NEWEST = "max(version) AS v, argMax(is_deleted, version) AS gone, argMax(body, version) AS said"


class Document(NamedTuple):
    """One document; ``body`` is None for one that was deleted."""

    kind: str
    key: str
    version: int
    body: dict[str, Any] | None


class ClickHouseDocuments:
    """The documents of one database."""

    def __init__(self, address: Address, server: Server) -> None:
        self._table = f"{address.database}.{DOCUMENTS.name}"
        self._server = server
        # Of this hub's own changes; two hubs that change one document in the same moment may not
        # see each other, and the later version counts.
        self.lock = threading.RLock()

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """A document; None where there is none."""
        found = self.find([kind], [key])
        return found[0].body if found else None

    def all(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """The documents of a kind whose keys begin with a prefix, by key, the last ones first."""
        where = f"kind = {literal(kind)}"
        if prefix:
            where += f" AND startsWith(key, {literal(prefix)})"
        most = "" if limit is None else f" LIMIT {limit}"
        found = self._select(where, more=f" HAVING gone = 0 ORDER BY key DESC{most}")
        return [(one.key, one.body) for one in found if one.body is not None]

    def find(
        self, kinds: Iterable[str], keys: Iterable[str] | None = None, *, since: int | None = None
    ) -> list[Document]:
        """The documents of some kinds: of some keys, or received since a time of the server."""
        where = one_of("kind", list(kinds))
        if keys is not None:
            where += f" AND {one_of('key', list(keys))}"
        if since is not None:
            where += f" AND received >= toDateTime({since})"
        return self._select(where)

    def put(
        self, kind: str, key: str, body: Mapping[str, Any] | None, *, after: int | None = None
    ) -> None:
        """Store a new version of a document, or delete it; returns when it is stored.

        ``after`` is the version that is there, 0 for none, where the caller knows it.
        """
        with self.lock:
            if after is None:
                after = max((one.version for one in self.find([kind], [key])), default=0)
            # A hub whose clock is behind replaces what it has seen all the same.
            version = max(time.time_ns(), after + 1)
            data = b"" if body is None else msgspec.json.encode(body)
            row = text(kind) + text(key) + whole(version) + bytes([body is None]) + text(data)
            self._server.insert(self._table, DOCUMENTS.columns, row)

    def _select(self, where: str, *, more: str = "") -> list[Document]:
        answer = self._server.query(
            f"SELECT kind, key, {_NEWEST} FROM {self._table} WHERE {where}"
            f" GROUP BY kind, key{more} FORMAT RowBinary"
        )
        rows = unpacked(answer, "ssQBs")
        return [
            Document(kind.decode(), key.decode(), v, None if gone else msgspec.json.decode(said))
            for kind, key, v, gone, said in rows
        ]
