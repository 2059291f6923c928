"""The ledger of hubs over one cluster: each has the file, and all exchange what changed.

A change is an operation of a fixed list, with its values. It is kept in the same transaction,
until the hub has stored it in the cluster. Changes of others are applied once, in the order of
their times.
Who can write to the cluster's tables can make tokens.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epochal.atomic_file import replaced_file
from epochal.hub.ledger import COPIES, FOLDER, Ledger, Operation, decode_change, encode_change
from epochal.hub.links import KEY_BYTES, LINKS_KEY
from epochal.store.clickhouse.tables import Change, Tables

_MARK = "shared"
_LINKS = "links"
_SCHEMA = """
create table if not exists unsent (id text primary key, change text not null);
create table if not exists applied (id text primary key);
create table if not exists kept (name text primary key, value text not null);
"""
# So far back is read again: clocks of servers differ, and inserts take their time.
_SLACK = 60 * 1_000_000
_WHOLE_EVERY_S = 300.0


class SharedLedger(Ledger):
    """A ledger whose changes other hubs see within about a second."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._links = root / FOLDER / LINKS_KEY
        self._db.executescript(_SCHEMA)
        self._seen = 0
        self._whole_s = 0.0
        self._mark = root / FOLDER / _MARK
        if not self._mark.exists():
            self._share_all()
            self._mark.touch()

    def exchange(self, tables: Tables) -> None:
        """Store the changes that were made here, and apply those of others.

        Raises ``ClickHouseError``; the next call goes on there.
        """
        self._send(tables)
        if time.monotonic() > self._whole_s:  # clocks may differ by more than the slack
            self._seen, self._whole_s = 0, time.monotonic() + _WHOLE_EVERY_S
        since = min(self._seen, int(tables.clock.now() * 1e6)) - _SLACK
        for change in tables.changes(since=max(0, since)):
            self._apply(change)
            self._seen = max(self._seen, change.version)
        self._exchange_key(tables)

    def leave(self) -> None:
        """Be the ledger of one hub from now on."""
        self._mark.unlink(missing_ok=True)

    def _change(self, operation: Operation, *values: Any) -> int:
        with self._lock, self._transaction():
            num_rows = self._db.execute(operation.statement, values).rowcount
            if num_rows:
                self._keep(operation, values)
            return num_rows

    def _share_all(self) -> None:
        """Tell the others of everything that is here: this was the ledger of one hub before."""
        for table, operation in COPIES.items():
            for row in list(self._rows(f"select * from {table}")):
                with self._lock:
                    self._keep(operation, row)

    def _keep(self, operation: Operation, values: Sequence[Any]) -> None:
        """Keep a change until it is sent."""
        change = encode_change(operation, values)
        self._db.execute("insert into unsent values (?,?)", (secrets.token_hex(16), change))

    def _send(self, tables: Tables) -> None:
        for change_id, change in list(self._rows("select id, change from unsent order by rowid")):
            tables.put_change(change_id, change)
            with self._lock, self._transaction():
                self._db.execute("insert or ignore into applied values (?)", (change_id,))
                self._db.execute("delete from unsent where id=?", (change_id,))

    def _apply(self, change: Change) -> None:
        decoded = decode_change(change.value)
        if decoded is None:
            return  # not one that hubs make, or one of a newer hub
        operation, values = decoded
        with self._lock, self._transaction():
            new = self._db.execute("insert or ignore into applied values (?)", (change.id,))
            if new.rowcount:
                # A token of the same name was made on two hubs at once: the first one stays.
                with contextlib.suppress(sqlite3.IntegrityError):
                    self._db.execute(operation.statement, values)

    def _exchange_key(self, tables: Tables) -> None:
        """Have one key of links on all hubs: the one that was made last."""
        kept = next((str(value) for (value,) in self._rows(_KEPT, _LINKS)), None)
        here = self._links.read_bytes().hex() if self._links.is_file() else None
        stored = next((one.value for one in tables.facts("") if one.key == _LINKS), None)
        # A hub that joins takes the key of the others.
        is_new = stored is None if kept is None else here not in (kept, None)
        if is_new:
            stored = here or secrets.token_hex(KEY_BYTES)
            tables.put_fact("", _LINKS, stored)
        if stored is not None and stored != here:
            with replaced_file(self._links, durable=True) as temporary:
                temporary.touch(0o600)
                temporary.write_bytes(bytes.fromhex(stored))
        if stored is not None and stored != kept:
            with self._lock:
                self._db.execute("insert or replace into kept values (?,?)", (_LINKS, stored))


_KEPT = "select value from kept where name=?"


def is_shared(root: Path) -> bool:
    """Whether the hub of a folder shares its ledger: it has reached a cluster before."""
    return (root / FOLDER / _MARK).exists()


def open_ledger(root: Path) -> Ledger:
    """The ledger of a hub's folder; changes of a shared one reach the other hubs through it."""
    return SharedLedger(root) if is_shared(root) else Ledger(root)


def is_received(place: Path, run_id: str) -> bool:
    """Whether the folder of a run is the copy that a hub received.

    Where a hub stores runs elsewhere, its folder is a working copy, which it seals itself.
    """
    for root in place.parents[:2]:
        if (root / FOLDER / "hub.sqlite").is_file() and not is_shared(root):
            with contextlib.closing(Ledger(root)) as ledger:
                return ledger.writer_of(run_id) is not None
    return False
