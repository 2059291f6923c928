"""Connections to PostgreSQL, and transactions that are tried again.

A transaction is a function of a cursor. It may run several times: after a serialization failure or
a deadlock, and when the answer of COMMIT was lost on the way, for example because the primary
failed. So it must be harmless to run it again after it has succeeded.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from epochal.errors import EpochalError, MissingPackageError, UsageError
from epochal.store.cluster.schema import PARTITIONS, STEPS, TABLES, VERSION

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
    Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")
_TRIES = 4
_FIRST_PAUSE_S = 0.05
_CLOCK_EVERY_S = 60.0
# A request that finds no connection for so long is told that the database is busy.
_WAIT_S = 10.0
# Where several hosts are named, the one that takes writes is meant. A connection whose other end
# is gone is noticed after a few seconds.
_OPTIONS: dict[str, Any] = {
    "target_session_attrs": "read-write",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "epochal",
}
_LOCK = 0x45504F43  # of whoever makes tables or partitions


class CatalogAwayError(EpochalError):
    """The database cannot be reached, or is too busy: what was asked may be tried again later."""


class Database:
    """A PostgreSQL database; several threads may use it, each transaction has its connection."""

    def __init__(self, address: str, *, most_connections: int = 8) -> None:
        self._conninfo = _checked(address)
        self.address = shown(address)
        self._free = threading.BoundedSemaphore(most_connections)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._is_closed = False
        # How far the clock of the database is ahead of ours, which only goes forward.
        self._ahead_s, self._clock_due_s = 0.0, -math.inf

    def close(self) -> None:
        """Close the connections that are not in use; the others close after their use."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def run(self, work: Callable[[Cursor], T]) -> T:
        """Run a transaction; raises ``CatalogAwayError`` where it cannot be brought to its end.

        Raises ``UsageError`` for values that no column takes, such as a text with a NUL.
        """

        def transaction(connection: Connection) -> T:
            with connection.transaction():
                return work(connection.cursor(binary=True))

        return self._tried(transaction)

    def rows(self, text: str, asked: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """The rows of a statement that is a transaction by itself, which takes half the time.

        Raises ``CatalogAwayError`` as ``run`` does.
        """

        def statement(connection: Connection) -> list[Row]:
            cursor = connection.cursor(binary=True).execute(text, asked)
            return cursor.fetchall() if cursor.description else []

        return self._tried(statement)

    def _tried(self, work: Callable[[Connection], T]) -> T:
        import psycopg

        again = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
        lost = (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            psycopg.errors.ReadOnlySqlTransaction,
        )
        pause_s, problem = _FIRST_PAUSE_S, ""
        for left in reversed(range(_TRIES)):
            try:
                with self._connection() as connection:
                    return work(connection)
            except psycopg.DataError as error:
                raise UsageError(
                    f"the database refuses this: {_first_line(str(error))}."
                ) from error
            except again as error:
                problem = str(error)
            except lost as error:
                self._drop_idle()  # after a failover none of them leads to the new primary
                problem = str(error)
            if left:
                time.sleep(pause_s * random.uniform(0.5, 1.5))
                pause_s *= 3
        raise CatalogAwayError(f"{self.address} cannot be used now: {_first_line(problem)}.")

    def now(self) -> float:
        """The time in Unix seconds by the clock of the database, which is that of all hubs.

        It is asked once a minute; raises ``CatalogAwayError`` where it never answered.
        """
        text = "select extract(epoch from clock_timestamp())::float8"
        if time.monotonic() >= self._clock_due_s:
            try:
                row = self.run(lambda cursor: cursor.execute(text).fetchone())
            except CatalogAwayError:
                if not self._ahead_s:
                    raise
            else:
                assert row is not None
                self._ahead_s = row[0] - time.monotonic()
            self._clock_due_s = time.monotonic() + _CLOCK_EVERY_S
        return time.monotonic() + self._ahead_s

    def prepare(self) -> None:
        """Make the tables of an empty database, and the partitions of the next days.

        Raises ``UsageError`` for tables of another version.
        """

        def make(cursor: Cursor) -> None:
            cursor.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            version = _version(cursor)
            if version is None:
                _execute(cursor, TABLES.replace("%(version)s", str(VERSION)))
            elif problem := self._problem_of(version):
                raise UsageError(problem)
            for (statement,) in cursor.execute(PARTITIONS, binary=False).fetchall():
                cursor.execute(statement)

        self.run(make)

    def upgrade(self) -> Iterator[int]:
        """Bring older tables to the version of this program; each version that is reached.

        Every step is a transaction, and whoever upgrades at the same time waits for it. Raises
        ``UsageError`` for a database without tables, and for tables of a newer version.
        """

        def step(cursor: Cursor) -> int | None:
            cursor.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            version = _version(cursor)
            if version is None or version > VERSION:
                raise UsageError(self._problem_of(version))
            if version == VERSION:
                return None
            _execute(cursor, STEPS[version + 1])
            cursor.execute("update epochal.version set version = %s", (version + 1,))
            return version + 1

        while (reached := self.run(step)) is not None:
            yield reached

    def version_problem(self) -> str:
        """Why the tables cannot be used by this program; empty where they can."""
        return self._problem_of(self.run(_version))

    def _problem_of(self, version: int | None) -> str:
        if version is None:
            return f"{self.address} has no tables yet: the first hub makes them."
        tables = f"the tables of {self.address} have the version {version}, and this program needs"
        if version < VERSION:
            return (
                f"{tables} {VERSION}: stop the hubs, make a backup, and run 'epochal hub upgrade"
                f" --catalog {self.address}'."
            )
        return f"{tables} {VERSION}: 'pip install -U epochal'." if version > VERSION else ""

    def has_standby(self) -> bool:
        """Whether a commit returns only when a synchronous standby has it as well.

        Raises ``CatalogAwayError`` where nothing can be committed.
        """
        text = (
            "select current_setting('transaction_read_only') = 'off',"
            " current_setting('synchronous_standby_names') <> ''"
            " and current_setting('synchronous_commit') not in ('off', 'local')"
        )
        row = self.run(lambda cursor: cursor.execute(text).fetchone())
        if row is None or not row[0]:
            raise CatalogAwayError(f"{self.address} takes no changes now.")
        return bool(row[1])

    def servers(self) -> Iterator[tuple[str, str, bool]]:
        """The servers of the address: the name, why it does not answer, and if it is primary."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        asked = conninfo_to_dict(self._conninfo)
        hosts, ports = str(asked.get("host", "")).split(","), str(asked.get("port", "")).split(",")
        for number, host in enumerate(hosts):
            port = ports[min(number, len(ports) - 1)]
            single = {"host": host, "port": port or None, "target_session_attrs": "any"}
            name = ":".join(filter(None, (host, port))) or "the server"
            try:
                with psycopg.connect(make_conninfo(self._conninfo, **single)) as connection:
                    row = connection.execute("select not pg_is_in_recovery()").fetchone()
                yield name, "", row == (True,)
            except psycopg.OperationalError as error:
                yield name, _first_line(str(error)), False

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection for one transaction; one that has failed is closed."""
        if not self._free.acquire(timeout=_WAIT_S):
            raise CatalogAwayError(f"{self.address} is busy: try again later.")
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._open()
            try:
                yield connection
            except BaseException:  # also an interrupt leaves no connection behind
                if connection.broken or connection.closed:
                    connection.close()
                else:
                    self._give_back(connection)
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _open(self) -> Connection:
        import psycopg

        # Nothing is prepared: poolers hand each transaction to another connection.
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)


def _execute(cursor: Cursor, statements: str) -> None:
    for statement in statements.split(";\n"):
        if statement.strip():
            cursor.execute(statement, binary=False)


def _version(cursor: Cursor) -> int | None:
    """The version of the tables; None in a database without any."""
    exists = cursor.execute("select to_regclass('epochal.version') is not null").fetchone()
    if exists is None or not exists[0]:
        return None
    row = cursor.execute("select version from epochal.version").fetchone()
    return None if row is None else int(row[0])


def _checked(address: str) -> str:
    """The address with our options; raises ``UsageError`` for one that is none."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ModuleNotFoundError as error:
        raise MissingPackageError("a hub over PostgreSQL", error, extra="hub") from error
    if not address.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            f"a catalog has an address such as postgresql://db/epochal, not {address!r}."
        )
    try:
        return make_conninfo("", **(_OPTIONS | dict(conninfo_to_dict(address))))
    except psycopg.ProgrammingError as error:
        raise UsageError(f"--catalog: {_first_line(str(error))}.") from error


def shown(address: str) -> str:
    """An address without its password and options."""
    rest = address.partition("://")[2].partition("?")[0]
    user, at, hosts = rest.rpartition("@")
    return f"postgresql://{user.partition(':')[0]}{at}{hosts}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")
