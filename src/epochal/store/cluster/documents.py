"""Small documents that the hubs of a cluster share: tokens, boards, requests, the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from epochal.store.cluster.database import Database

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor


class ClusterDocuments:
    """The documents that the hubs of a cluster share, in a table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        """The database is closed by whoever opened it."""

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        text = "select key, body from epochal.documents where kind = %s and key = %s"
        rows = self._rows(text, kind, key)
        return rows[0][1] if rows else None

    def all(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        text = (
            "select key, body from epochal.documents where kind = %s and starts_with(key, %s)"
            " order by key desc limit %s"
        )
        return self._rows(text, kind, prefix, limit)

    def put(self, kind: str, key: str, body: dict[str, Any] | None) -> None:
        delete = "delete from epochal.documents where kind = %s and key = %s"
        insert = (
            "insert into epochal.documents (kind, key, body) values (%s, %s, %s)"
            " on conflict (kind, key) do update set body = excluded.body"
        )

        def work(cursor: Cursor) -> None:
            if body is None:
                cursor.execute(delete, (kind, key))
            else:
                cursor.execute(insert, (kind, key, msgspec.json.encode(body)))

        self._database.run(work)

    def _rows(self, text: str, *values: object) -> list[tuple[str, dict[str, Any]]]:
        rows = self._database.run(lambda cursor: cursor.execute(text, values).fetchall())
        return [(key, msgspec.json.decode(body)) for key, body in rows]
