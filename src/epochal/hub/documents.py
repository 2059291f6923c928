"""What a hub knows beside the runs, as small documents: each has a kind, a key and a JSON object.

A hub over a folder has them in one SQLite file, ``.hub/hub.sqlite``; the hubs of a cluster share a
table. The runs are complete without them.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from epochal.base.atomic_file import folder_has_locks
from epochal.base.guard import settle
from epochal.errors import UsageError

FOLDER = ".hub"
_READ_AGAIN_S = 1.0
_LONGEST_WAIT_S = 1.0
_LAST = "\U0010ffff"  # it sorts behind all that keys have
_SCHEMA = """
create table if not exists documents (
  kind text not null, key text not null, body blob not null, primary key (kind, key))
  without rowid"""

Body: TypeAlias = dict[str, Any]


class Documents(Protocol):
    """The documents of a hub, which threads, processes and other hubs may share."""

    def close(self) -> None:
        """Close files and connections."""

    def get(self, kind: str, key: str) -> Body | None:
        """A document; None where there is none."""

    def all(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, Body]]:
        """The documents of a kind whose keys begin with a prefix, by key, the last ones first."""

    def kinds(self) -> list[str]:
        """The kinds of which there are documents."""

    def add(self, kind: str, bodies: Mapping[str, Body]) -> None:
        """Store documents by their keys; those that are there stay as they are."""

    def put(self, kind: str, key: str, body: Body | None) -> None:
        """Store a document in place of the one before, or delete it; it is durable then."""

    def swap(self, kind: str, key: str, before: Body | None, after: Body) -> bool:
        """Store a document unless it is another one than before; False then.

        Of several who swap the same one, at most one succeeds.
        """


class FolderDocuments:
    """The documents of the hub in a folder, in one file.

    Reads have a connection of their own, so that they do not wait for the disk. Raises
    ``UsageError`` for a file that cannot be used, and on a disk without file locks.
    """

    def __init__(self, root: Path) -> None:
        path = root / FOLDER / "hub.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        if not folder_has_locks(path.parent):
            raise UsageError(
                f"the disk of {root} has no file locks, which a hub needs: keep its"
                " folder on a local disk, or mount a network disk with locks."
            )
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._db = _connect(path)
        try:
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            self._db.close()
            raise UsageError(f"{path} cannot be used: {error}.") from error
        self._reading = _connect(path)

    def close(self) -> None:
        with self._read_lock, self._lock:
            self._reading.close()
            self._db.close()

    def get(self, kind: str, key: str) -> Body | None:
        rows = self._rows("select key, body from documents where kind=? and key=?", kind, key)
        return rows[0][1] if rows else None

    def all(
        self, kind: str, *, prefix: str = "", limit: int | None = None
    ) -> list[tuple[str, Body]]:
        query = (
            "select key, body from documents where kind=? and key>=? and key<? order by key desc"
            " limit ?"
        )
        return self._rows(query, kind, prefix, prefix + _LAST, -1 if limit is None else limit)

    def kinds(self) -> list[str]:
        with self._read_lock:
            rows = self._reading.execute("select distinct kind from documents order by kind")
            return [kind for (kind,) in rows]

    def add(self, kind: str, bodies: Mapping[str, Body]) -> None:
        rows = [(kind, key, msgspec.json.encode(body)) for key, body in bodies.items()]
        with self._lock, self._db:
            self._db.execute("begin immediate")
            self._db.executemany("insert or ignore into documents values (?,?,?)", rows)

    def put(self, kind: str, key: str, body: Body | None) -> None:
        with self._lock:
            if body is None:
                self._db.execute("delete from documents where kind=? and key=?", (kind, key))
            else:
                row = (kind, key, msgspec.json.encode(body))
                self._db.execute("insert or replace into documents values (?,?,?)", row)

    def swap(self, kind: str, key: str, before: Body | None, after: Body) -> bool:
        new = msgspec.json.encode(after)
        with self._lock:
            if before is None:
                query = "insert or ignore into documents values (?,?,?)"
                return self._db.execute(query, (kind, key, new)).rowcount == 1
            query = "update documents set body=? where kind=? and key=? and body=?"
            values = (new, kind, key, msgspec.json.encode(before))
            return self._db.execute(query, values).rowcount == 1

    def _rows(self, query: str, *values: object) -> list[tuple[str, Body]]:
        with self._read_lock:
            rows = self._reading.execute(query, values).fetchall()
        return [(key, msgspec.json.decode(body)) for key, body in rows]


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30.0, check_same_thread=False, isolation_level=None)


class Recent:
    """The documents of a kind, read again every second: other processes change them.

    A thread reads them, so that an event loop waits for a second at most, and not at all while
    they cannot be read: they are as they were last then.
    """

    def __init__(self, documents: Documents, kind: str) -> None:
        self._documents = documents
        self._kind = kind
        self._lock = threading.Lock()
        self._bodies: dict[str, Body] | None = None
        # When they were read last, or could not be.
        self._read_s, self._is_away = -math.inf, False
        self._reading: Future[dict[str, Body]] | None = None

    def bodies(self) -> dict[str, Body]:
        """The documents by their keys, as they were at most a second ago.

        Raises what reading them raises if they were never read.
        """
        with self._lock:
            last, is_away = self._bodies, self._is_away
            if last is not None and time.monotonic() - self._read_s <= _READ_AGAIN_S:
                return last
            reading = self._reading or self._start()
        if last is None:
            return reading.result()
        if is_away:
            return last
        if wait([reading], _LONGEST_WAIT_S).done and reading.exception() is None:
            return reading.result()
        with self._lock:
            self._is_away = self._reading is reading or self._is_away
        return last

    def put(self, key: str, body: Body | None) -> None:
        """Store or delete a document of this kind."""
        self._documents.put(self._kind, key, body)
        with self._lock:
            self._read_s, self._is_away, self._reading = -math.inf, False, None

    def _start(self) -> Future[dict[str, Body]]:
        self._reading = Future()
        thread = threading.Thread(
            target=self._read, args=(self._reading,), name="epochal-documents", daemon=True
        )
        thread.start()
        return self._reading

    def _read(self, reading: Future[dict[str, Body]]) -> None:
        found: Future[dict[str, Body]] = Future()
        settle(found, lambda: dict(self._documents.all(self._kind)))
        with self._lock:
            if self._reading is reading:  # else something was stored meanwhile
                self._reading, self._read_s = None, time.monotonic()
                self._is_away = found.exception() is not None
                if not self._is_away:
                    self._bodies = found.result()
        settle(reading, found.result)
