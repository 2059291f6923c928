"""Speaks to ClickHouse: to servers over HTTP, or to its engine in this process (chdb).

Statements are limited to what servers since 18.16 understand. Both ways have two functions: a query
returns bytes in the format that it names, an insert sends rows in the format RowBinary.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import ssl
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from epochal.errors import EpochalError, MissingPackageError, UsageError

PASSWORD_VARIABLE = "EPOCHAL_CLICKHOUSE_PASSWORD"
_CONNECT_S = 5.0
_ANSWER_S = 300.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_CODE = re.compile(rb"Code: (\d+)")
_REASON = re.compile(r"Exception: (.*?)(?:, e\.what\(\)| \(version |$)")
_AWAY = (209, 210, 279)
# An insert returns when every shard has stored its rows, whatever the user's profile says. Rows
# that were deleted may be stored again. Of these, a server gets those that it knows.
_SETTINGS: Mapping[str, int | str] = {
    "async_insert": 0,
    "insert_deduplicate": 0,
    "insert_distributed_sync": 1,
    "max_insert_threads": 1,
    "max_query_size": 1 << 24,  # conditions name runs and parts
    "optimize_skip_unused_shards": 1,
    "skip_unavailable_shards": 0,
}


class ClickHouseError(EpochalError, OSError):
    """ClickHouse cannot be reached, or refuses; ``code`` is its number of the error, else 0."""

    def __init__(self, sentence: str, *, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True, slots=True)
class Address:
    """Where the tables are: ``clickhouse://user@host:8123,host/database?cluster=NAME``.

    ``clickhouses://`` speaks TLS. ``chdb:///folder`` is the engine in this process.
    """

    hosts: tuple[tuple[str, int], ...]
    database: str
    user: str = "default"
    password: str = ""
    cluster: str | None = None
    is_tls: bool = False
    folder: str | None = None

    def __str__(self) -> str:
        """The address without its password."""
        if self.folder is not None:
            return f"chdb://{self.folder}?database={self.database}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        more = "" if self.cluster is None else f"?cluster={self.cluster}"
        scheme = "clickhouses" if self.is_tls else "clickhouse"
        return f"{scheme}://{quote(self.user)}@{hosts}/{self.database}{more}"


def is_address(text: str) -> bool:
    """Whether a text is meant as the address of a store, and not as a folder."""
    return text.startswith(("clickhouse://", "clickhouses://", "chdb://"))


def parse_address(text: str) -> Address:
    """The parts of an address; raises ``UsageError``."""
    parts = urlsplit(text)
    if not is_address(text):
        raise UsageError("write the store as clickhouse://user@host:8123/database.")
    options = dict(parse_qsl(parts.query))
    if unknown := options.keys() - {"cluster", "database"}:
        raise UsageError(f"an address has the option cluster, not {', '.join(sorted(unknown))}.")
    if parts.scheme == "chdb":
        if not parts.path.strip("/"):
            raise UsageError("chdb:///FOLDER needs a folder.")
        database = _checked("database", options.get("database", "epochal"))
        return Address((), database, folder=unquote(parts.path))
    is_tls = parts.scheme == "clickhouses"
    account, _, places = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    cluster = options.get("cluster")
    return Address(
        tuple(_host(one, 8443 if is_tls else 8123) for one in places.split(",")),
        _checked("database", parts.path.strip("/") or "epochal"),
        user=unquote(user) or "default",
        password=unquote(password) or os.environ.get(PASSWORD_VARIABLE, ""),
        cluster=None if cluster is None else _checked("cluster", cluster),
        is_tls=is_tls,
    )


def _checked(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a {what}: use letters, digits and _.")
    return name


def _host(text: str, default: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(default)
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is no host: write name or name:port.")
    return host.strip("[]"), int(port)


class Server(Protocol):
    """ClickHouse, as its own package and all others here see it; several threads share it."""

    version: tuple[int, int]

    def query(self, statement: str) -> bytes:
        """The answer to a statement, in the format that it names; raises ``ClickHouseError``."""

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        """Insert rows of some columns, by name and type; returns when they are stored."""

    def close(self) -> None:
        """Close every connection."""


class HttpServer:
    """Servers that hold the same tables; when one cannot be reached, the next is asked."""

    def __init__(self, address: Address, hosts: Sequence[tuple[str, int]] | None = None) -> None:
        self._address = address
        self._hosts = list(address.hosts if hosts is None else hosts)
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._settings: dict[str, int | str] = {"wait_end_of_query": 1}
        account = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
        self._headers = {"authorization": f"Basic {account}"}
        major, minor = self.query("SELECT version() FORMAT TabSeparatedRaw").split(b".")[:2]
        self.version = (int(major), int(minor))
        known = self.query("SELECT name FROM system.settings FORMAT TabSeparatedRaw").decode()
        names = set(known.split())
        self._settings |= {name: value for name, value in _SETTINGS.items() if name in names}

    def query(self, statement: str) -> bytes:
        """The answer to a statement, in the format that it names."""
        return self._send(f"/?{urlencode(self._settings)}", statement.encode(), may_repeat=True)

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        """Insert rows; returns when every shard has stored its own."""
        statement = f"INSERT INTO {table} ({', '.join(columns)}) FORMAT RowBinary"
        target = f"/?{urlencode({'query': statement, **self._settings})}"
        # Without an answer the rows may be stored all the same: the caller has to know that.
        self._send(target, rows, may_repeat=False)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _send(self, target: str, body: bytes, *, may_repeat: bool) -> bytes:
        idle = self._idle_connection()
        if idle is not None:
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                return self._ask(idle, target, body, may_repeat)
            self.close()
        for number in range(len(self._hosts)):
            host, port = self._hosts[0]
            try:
                return self._ask(self._connected(host, port), target, body, may_repeat)
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ClickHouseError):
                    raise
                with self._lock:  # others ask the next one first from now on
                    if self._hosts[0] == (host, port):
                        self._hosts.append(self._hosts.pop(0))
                if number == len(self._hosts) - 1:
                    reason = getattr(error, "strerror", None) or error
                    raise ClickHouseError(
                        f"cannot reach ClickHouse at {host}:{port}: {reason}."
                    ) from error
        raise AssertionError("an address has a host")

    def _idle_connection(self) -> http.client.HTTPConnection | None:
        """A connection that waits, and was not closed at the other end meanwhile."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not wait([connection.sock], 0):
                return connection
            connection.close()

    def _connected(self, host: str, port: int) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._address.is_tls:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
        connection.connect()
        connection.sock.settimeout(_ANSWER_S)
        return connection

    def _ask(
        self, connection: http.client.HTTPConnection, target: str, body: bytes, may_repeat: bool
    ) -> bytes:
        place = f"ClickHouse at {connection.host}:{connection.port}"
        try:
            connection.request("POST", target, body=body, headers=self._headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException as error:
            connection.close()
            if may_repeat or not isinstance(error, (OSError, http.client.HTTPException)):
                raise
            raise ClickHouseError(f"{place} went away without an answer.") from error
        with self._lock:
            self._idle.append(connection)
        if response.status != 200:
            raise _refusal(answer, place)
        return answer


class ChdbServer:
    """ClickHouse's engine in this process, over one folder that no other process uses."""

    _shared_lock = threading.Lock()
    _shared: ClassVar[dict[str, ChdbServer]] = {}

    def __init__(self, folder: str) -> None:
        try:
            from chdb import session
        except ModuleNotFoundError as error:
            raise MissingPackageError("a store at chdb://", error) from None
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = threading.Lock()
        self._num_users = 0
        sessions: Any = session  # it has no types
        self._session: Any = sessions.Session(folder)
        major, minor = self.query("SELECT version() FORMAT TabSeparatedRaw").split(b".")[:2]
        self.version = (int(major), int(minor))

    @classmethod
    def at(cls, folder: str) -> ChdbServer:
        """The engine over a folder; it ends when all who asked for it have closed it."""
        with cls._shared_lock:
            found = cls._shared.get(folder) or cls._shared.setdefault(folder, cls(folder))
            found._num_users += 1
            return found

    def query(self, statement: str) -> bytes:
        """The answer to a statement, in the format that it names."""
        body, _, form = statement.rpartition(" FORMAT ")
        with self._lock:
            try:
                found: bytes = self._session.query(body or statement, form or "Null").bytes()
            except RuntimeError as error:
                raise _refusal(str(error).encode(), f"chdb://{self._folder}") from error
        return found or b""

    def insert(self, table: str, columns: Mapping[str, str], rows: bytes) -> None:
        """Insert rows: the engine reads them from a file."""
        structure = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        with tempfile.NamedTemporaryFile(prefix="epochal-rows-") as file:
            file.write(rows)
            file.flush()
            source = f"file('{file.name}', 'RowBinary', '{structure}')"
            self.query(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM {source}")

    def close(self) -> None:
        """End the engine, unless others in this process use it."""
        with self._shared_lock:
            self._num_users -= 1
            if self._num_users == 0:
                del self._shared[self._folder]
                with self._lock:
                    self._session.close()


def _refusal(answer: bytes, where: str) -> ClickHouseError:
    found = _CODE.search(answer)
    code = int(found[1]) if found else 0
    said = " ".join(answer.decode("utf-8", "replace").split())
    reason = _REASON.search(said)
    said = (reason[1] if reason else said).rstrip(". ")[:300]
    if code in _AWAY:
        return ClickHouseError(f"{where} cannot reach another server of its cluster.", code=code)
    return ClickHouseError(f"{where} answers: {said}.", code=code)


def connect(address: Address) -> Server:
    """The server, or the engine, of an address; raises ``ClickHouseError``."""
    return HttpServer(address) if address.folder is None else ChdbServer.at(address.folder)


def literal(text: str) -> str:
    """A text as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
