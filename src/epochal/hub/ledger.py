"""What a hub knows beside the runs: tokens, whose runs they are, requests, who changed what.

It is one SQLite file, ``.hub/hub.sqlite`` in the hub's folder. The runs themselves are complete
without it: a lost file costs the tokens and the audit log, and nothing that was recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import math
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.atomic_file import between_processes
from epochal.errors import UsageError
from epochal.server.access import ROLES, Principal, Role

FOLDER = ".hub"
_TOKEN_BYTES = 32  # 256 random bits
_PREFIX = "ep_"
_TOKENS_READ_EVERY_S = 1.0
_MOST_REQUESTS = 20
_REQUEST = "id, run, action, who, t, taken, outcome, is_done"  # the fields of RequestRow
_SCHEMA = """
create table if not exists tokens (
  name text primary key, role text not null, projects text, sha256 blob not null,
  created real not null, revoked real);
create table if not exists runs (
  id text primary key, project text not null, writer text not null, bytes integer not null);
create table if not exists removed (id text primary key, t real not null);
create table if not exists audit (
  t real not null, who text not null, what text not null, run text, details text);
create index if not exists audit_by_run on audit (run);
create table if not exists requests (
  id text primary key, run text not null, action text not null, who text not null, t real not null,
  taken real, outcome text, is_done integer not null default 0, taker text);
create index if not exists requests_by_run on requests (run, t);
"""


@contextlib.contextmanager
def only_hub(root: Path) -> Iterator[None]:
    """Be the only hub of a folder; another one raises ``UsageError``.

    A hub counts lines in memory: two that receive one run could store the same lines.
    """
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(between_processes(root / FOLDER / "lock", waits=False))
        except BlockingIOError:
            raise UsageError(
                f"another hub is running over {root}: stop it first, or give this one another"
                " folder."
            ) from None
        yield


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is listed: never the token itself."""

    name: str
    role: Role
    projects: frozenset[str] | None
    created: float
    revoked: float | None


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What someone asked of a training; ``taken`` is when its companion took it."""

    id: str
    run: str
    action: str
    who: str
    t: float
    taken: float | None = None
    outcome: str | None = None
    is_done: bool = False


class Ledger:
    """The file; safe to use from several threads, and from a command beside a running hub."""

    def __init__(self, root: Path) -> None:
        folder = root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        # Of changes. Reads have a connection of their own: requests do not wait for the disk.
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._valid: tuple[float, list[tuple[Principal, bytes]]] = (-math.inf, [])
        self._db = _connect(folder / "hub.sqlite")
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        self._db.executescript(_SCHEMA)
        self._reading = _connect(folder / "hub.sqlite")

    def close(self) -> None:
        """Close the file."""
        with self._read_lock:
            self._reading.close()
        with self._lock:
            self._db.close()

    # -- tokens -----------------------------------------------------------------------------------

    def add_token(self, name: str, role: Role, projects: Iterable[str] | None = None) -> str:
        """Make a token and return it; only its digest is stored.

        The name of a token that was revoked may be used again.
        """
        if role not in ROLES:
            raise UsageError(f"role must be one of {', '.join(ROLES)}, not {role!r}.")
        if not name or len(name) > 100 or not name.isprintable():
            raise UsageError("name must have 1 to 100 printable characters.")
        token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        joined = None if projects is None else "\n".join(sorted(projects))
        row = (role, joined, _digest(token), time.time())
        try:
            self._change(
                "insert into tokens (name, role, projects, sha256, created) values (?,?,?,?,?)",
                name,
                *row,
            )
        except sqlite3.IntegrityError:
            # A name that a revoked token had is used again: the same machine has a new token.
            if not self._change(
                "update tokens set role=?, projects=?, sha256=?, created=?, revoked=null"
                " where name=? and revoked is not null",
                *row,
                name,
            ):
                raise UsageError(
                    f"there is a token named {name!r} already: revoke it first, or take another"
                    " name."
                ) from None
        return token

    def revoke_token(self, name: str) -> None:
        """Refuse a token from now on; its name stays with what it did."""
        statement = "update tokens set revoked=? where name=? and revoked is null"
        if not self._change(statement, time.time(), name):
            raise UsageError(f"there is no valid token named {name!r}.")

    def tokens(self) -> list[TokenRow]:
        """Every token, the newest last."""
        query = "select name, role, projects, created, revoked from tokens order by created"
        return [
            TokenRow(name, role, _projects(projects), created, revoked)
            for name, role, projects, created, revoked in self._rows(query)
        ]

    def principal(self, token: str) -> Principal | None:
        """Whose token this is; None for one that is unknown or revoked."""
        given = _digest(token)
        found: Principal | None = None
        # Every digest is compared, each in constant time: the time says nothing about any of them.
        for principal, kept in self._valid_tokens():
            if hmac.compare_digest(given, kept):
                found = principal
        return found

    def _valid_tokens(self) -> list[tuple[Principal, bytes]]:
        """Read again every second: a token is revoked by another process."""
        now_s = time.monotonic()
        read_s, valid = self._valid
        if now_s - read_s > _TOKENS_READ_EVERY_S:
            query = "select name, role, projects, sha256 from tokens where revoked is null"
            valid = [
                (Principal(name, role, _projects(projects)), kept)
                for name, role, projects, kept in self._rows(query)
            ]
            self._valid = now_s, valid
        return valid

    # -- runs -------------------------------------------------------------------------------------

    def writer_of(self, run_id: str) -> str | None:
        """Who sent a run first."""
        for (writer,) in self._rows("select writer from runs where id=?", run_id):
            return str(writer)
        return None

    def claim(self, run_id: str, project: str, writer: str) -> None:
        """Note who sends a run; the first one stays while anything of it is stored."""
        self._change(
            "insert into runs values (?,?,?,0) on conflict (id) do update"
            " set project=excluded.project, writer=excluded.writer where bytes=0",
            run_id,
            project,
            writer,
        )

    def add_bytes(self, by_run: Mapping[str, int]) -> None:
        """Count what was stored for runs: all of them at once, which is one sync of the disk."""
        statement = "update runs set bytes = bytes + ? where id=?"
        with self._lock, self._transaction():
            self._db.executemany(statement, [(num, run_id) for run_id, num in by_run.items()])

    def bytes_by_writer(self) -> dict[str, int]:
        """How much each writer has sent."""
        return dict(self._rows("select writer, sum(bytes) from runs group by writer"))

    def run_ids(self) -> set[str]:
        """The runs of which something was counted."""
        return {str(run_id) for (run_id,) in self._rows("select id from runs where bytes > 0")}

    def clear_bytes(self, run_ids: Iterable[str]) -> None:
        """Count nothing of runs that are no longer stored."""
        with self._lock, self._transaction():
            self._db.executemany(
                "update runs set bytes = 0 where id=?", [(run_id,) for run_id in run_ids]
            )

    def note_removed(self, run_id: str) -> None:
        """Note that a run was deleted here, so that its sender does not bring it back."""
        self._change("insert or replace into removed values (?,?)", run_id, time.time())

    def removed_at(self, run_id: str) -> float | None:
        """When a run was deleted here; None for one that was not."""
        for (t,) in self._rows("select t from removed where id=?", run_id):
            return float(t)
        return None

    def forget_removed(self, run_id: str) -> None:
        """Receive a run again that was deleted here."""
        self._change("delete from removed where id=?", run_id)

    # -- requests to control a training -----------------------------------------------------------

    def add_request(self, run_id: str, action: str, who: str, *, now: float) -> RequestRow:
        """Keep what someone asks of a training, until its companion takes it."""
        row = RequestRow(secrets.token_hex(8), run_id, action, who, now)
        statement = "insert into requests (id, run, action, who, t) values (?,?,?,?,?)"
        self._change(statement, row.id, run_id, action, who, now)
        return row

    def take_requests(
        self, run_id: str, *, taker: str | None = None, now: float, since: float
    ) -> list[RequestRow]:
        """The requests made since a time that were not taken.

        ``taker`` gets those again that it took, until it has said what became of them: an answer
        may be lost on its way.
        """
        waiting = (
            f"select {_REQUEST} from requests where run=? and t>=? and outcome is null"
            " and (taken is null or taker=?) order by t"
        )
        if not any(self._rows(waiting, run_id, since, taker)):  # nearly always: no lock is taken
            return []
        with self._lock, self._transaction():
            rows = self._db.execute(waiting, (run_id, since, taker)).fetchall()
            self._db.executemany(
                "update requests set taken=?, taker=? where id=? and taken is null",
                [(now, taker, request_id) for request_id, *_ in rows],
            )
        return [RequestRow(*row) for row in rows]

    def end_request(self, run_id: str, request_id: str, outcome: str, *, is_done: bool) -> bool:
        """Note the outcome of a request that was taken; False where it has one, or is another's."""
        statement = (
            "update requests set outcome=?, is_done=?"
            " where id=? and run=? and taken is not null and outcome is null"
        )
        return self._change(statement, outcome, is_done, request_id, run_id) == 1

    def requests(self, run_id: str) -> list[RequestRow]:
        """The newest requests of a run, the newest first."""
        query = f"select {_REQUEST} from requests where run=? order by t desc, rowid desc limit ?"
        return [RequestRow(*row) for row in self._rows(query, run_id, _MOST_REQUESTS)]

    # -- audit ------------------------------------------------------------------------------------

    def note(self, who: str, what: str, *, run: str | None = None, details: str = "") -> None:
        """Add a line to the audit log."""
        self._change("insert into audit values (?,?,?,?,?)", time.time(), who, what, run, details)

    def audit(self, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The newest lines of the audit log, the newest first."""
        query = "select t, who, what, run, details from audit order by t desc, rowid desc limit ?"
        keys = ("t", "who", "what", "run", "details")
        return [dict(zip(keys, row, strict=True)) for row in self._rows(query, limit)]

    def _rows(self, query: str, *values: Any) -> Iterator[Any]:
        with self._read_lock:
            rows = self._reading.execute(query, values).fetchall()
        yield from rows

    def _change(self, statement: str, *values: Any) -> int:
        """Run a statement; the number of rows that it changed."""
        with self._lock, contextlib.closing(self._db.cursor()) as cursor:
            return cursor.execute(statement, values).rowcount

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Change everything within it, or nothing; the lock is held."""
        self._db.execute("begin immediate")
        with contextlib.ExitStack() as undo:
            undo.callback(self._db.rollback)
            yield
            # SQLite may leave the transaction of a failed commit open. What followed would then be
            # acknowledged as a part of it, and lost.
            self._db.execute("commit")
            undo.pop_all()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=30.0, check_same_thread=False, isolation_level=None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _projects(joined: str | None) -> frozenset[str] | None:
    return None if joined is None else frozenset(joined.split("\n")) - {""}


def is_received(folder: Path, run_id: str) -> bool:
    """Whether the folder of a run is the copy that a hub received."""
    for root in folder.parents[:2]:
        if (root / FOLDER / "hub.sqlite").is_file():
            with contextlib.closing(Ledger(root)) as ledger:
                return ledger.writer_of(run_id) is not None
    return False
