"""Small documents that the hubs of a cluster share: tokens, boards, requests, the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from epochal.store.cluster.database import Database

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

_LAST = "\U0010ffff"  # it sorts behind all that keys have


class ClusterDocuments:
    """The documents that the hubs of a cluster share, in a table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        """The database is closed by whoever opened it."""

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        text = "select body from epochal.documents where kind = %s and key = %s"
        rows = self._database.rows(text, (kind, key))
        return msgspec.json.decode(rows[0][0]) if rows else None

    def all(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        found = self.bodies(kind, prefix=prefix, limit=limit)
        return [(key, msgspec.json.decode(body)) for key, body in found]

    def bodies(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, bytes]]:
        """The same, as they are stored."""
        text = (
            "select key, body from epochal.documents where kind = %s and key >= %s and key < %s"
            " order by key desc limit %s"
        )
        asked = (kind, prefix, prefix + _LAST, limit)
        return [(key, body) for key, body in self._database.rows(text, asked)]

    def kinds(self) -> list[str]:
        text = "select distinct kind from epochal.documents order by kind"
        rows = self._database.run(lambda cursor: cursor.execute(text).fetchall())
        return [kind for (kind,) in rows]

    def add(self, kind: str, bodies: Mapping[str, dict[str, Any]]) -> None:
        text = (
            "insert into epochal.documents (kind, key, body) values (%s, %s, %s)"
            " on conflict do nothing"
        )
        rows = [(kind, key, msgspec.json.encode(body)) for key, body in bodies.items()]
        self._database.run(lambda cursor: cursor.executemany(text, rows))

    def put(self, kind: str, key: str, body: dict[str, Any] | None) -> None:
        new = None if body is None else msgspec.json.encode(body)
        self._database.rows(*_putting(kind, key, new))

    def swap(
        self, kind: str, key: str, before: dict[str, Any] | None, after: dict[str, Any]
    ) -> bool:
        new = msgspec.json.encode(after)
        if before is None:
            text = "insert into epochal.documents values (%s, %s, %s) on conflict do nothing"
            values: tuple[object, ...] = (kind, key, new)
        else:
            text = (
                "update epochal.documents set body = %s where kind = %s and key = %s and body = %s"
            )
            values = (new, kind, key, msgspec.json.encode(before))
        return self._database.run(lambda cursor: cursor.execute(text, values).rowcount == 1)

    def edit(self, kind: str, key: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        """Store what ``edit`` makes of a document, None for one that is deleted or not there.

        No other change comes in between. What ``edit`` raises leaves the document as it was.
        """
        read = "select body from epochal.documents where kind = %s and key = %s for update"

        def work(cursor: Cursor) -> None:
            row = cursor.execute(read, (kind, key)).fetchone()
            new = edit(None if row is None else bytes(row[0]))
            cursor.execute(*_putting(kind, key, new))

        self._database.run(work)


def _putting(kind: str, key: str, body: bytes | None) -> tuple[str, tuple[Any, ...]]:
    """The statement that stores or deletes a document, and its values."""
    if body is None:
        return "delete from epochal.documents where kind = %s and key = %s", (kind, key)
    text = (
        "insert into epochal.documents (kind, key, body) values (%s, %s, %s)"
        " on conflict (kind, key) do update set body = excluded.body"
    )
    return text, (kind, key, body)
