"""Speaks to ClickHouse: to servers over plain HTTP, or to the engine in this process (chdb).

Only what servers since 18.16 understand is used: a statement, a body, settings in the address.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from epochal.errors import EpochalError, MissingPackageError, UsageError

PASSWORD_VARIABLE = "EPOCHAL_CLICKHOUSE_PASSWORD"
_PORT, _TLS_PORT = 8123, 8443
_CONNECT_S = 5.0
_ANSWER_S = 300.0
# How long a connection lives without a sign of the other machine, in seconds and milliseconds.
_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
_OPTIONS = ("cluster",)
_DATABASE = "epochal"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_CODE = re.compile(rb"Code: (\d+)")
_REASON = re.compile(r"Exception: (.*?)(?:, e\.what\(\)| \(version |$)")
_ROWS = "{rows}"
# The rows of an insert are one block, which is stored whole or not at all, whatever the profile of
# the user says. Servers from 26.8 on would have several threads store blocks in any order.
_ONE_BLOCK = {
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 1 << 20,
    "min_insert_block_size_bytes": 256 << 20,
}
# Whatever the profile of the user and the defaults of the server say: an insert returns when its
# rows are stored, and rows that were there once are stored again after they were deleted. Of these,
# those are sent that the server knows.
_DURABLE: Mapping[str, int | str] = {
    "async_insert": 0,
    "deduplicate_insert": "disable",
    "deduplicate_insert_select": "disable",
    "insert_deduplicate": 0,
    "insert_distributed_sync": 1,
}
# A shard that is away is an error, never an answer without its rows.
_WHOLE: Mapping[str, int | str] = {"skip_unavailable_shards": 0}
_KNOWN_SETTINGS = b"SELECT name FROM system.settings FORMAT TabSeparatedRaw"
_NO_SPACE = 243
_AWAY = (209, 210, 279)
_NO_ACCESS = (192, 193, 194, 497, 516)
SCHEMES = ("clickhouse://", "clickhouses://", "chdb://")


class ClickHouseError(EpochalError, OSError):
    """ClickHouse cannot be reached, or refuses; ``code`` is its number of the error, else 0.

    ``is_final``: trying again does not help.
    """

    def __init__(self, sentence: str, *, code: int = 0, is_final: bool = False) -> None:
        super().__init__(sentence)
        self.code = code
        self.is_final = is_final

    @property
    def is_passing(self) -> bool:
        """Whether a server or a disk is in the way, not the statement."""
        return self.code in (_NO_SPACE, *_AWAY)


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
            more = "" if self.database == _DATABASE else f"?database={self.database}"
            return f"chdb://{self.folder}{more}"
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        scheme = "clickhouses" if self.is_tls else "clickhouse"
        more = "" if self.cluster is None else f"?cluster={self.cluster}"
        return f"{scheme}://{quote(self.user)}@{hosts}/{self.database}{more}"


def parse_address(text: str) -> Address:
    """The parts of an address; raises ``UsageError``."""
    parts = urlsplit(text)
    if parts.scheme == "chdb":
        if not parts.path.strip("/"):
            raise UsageError("chdb:///FOLDER needs a folder.")
        database = dict(parse_qsl(parts.query)).get("database", _DATABASE)
        return Address((), _checked("database", database), folder=unquote(parts.path))
    if parts.scheme not in ("clickhouse", "clickhouses"):
        raise UsageError(
            f"{_without_password(text)!r} is no address of a store:"
            " write clickhouse://user@host:8123/database."
        )
    is_tls = parts.scheme == "clickhouses"
    account, _, places = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    database = parts.path.strip("/") or _DATABASE
    options = dict(parse_qsl(parts.query))
    for option in options:
        if option not in _OPTIONS:
            raise UsageError(f"{option!r} is no option of an address; use {', '.join(_OPTIONS)}.")
    cluster = options.get("cluster")
    hosts = tuple(_host(one, _TLS_PORT if is_tls else _PORT) for one in places.split(","))
    return Address(
        hosts,
        _checked("database", database),
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


def _without_password(text: str) -> str:
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:…@", text)


@dataclass(frozen=True, slots=True)
class Via:
    """What becomes of rows that are inserted: columns of a table, from a query over the rows.

    ``query`` has ``{rows}`` in the place of the table that it reads. ``settings`` are for it.
    """

    columns: Sequence[str]
    query: str
    settings: Mapping[str, int] = field(default_factory=dict)


class Server(Protocol):
    """One server, or several that answer alike; threads may share it."""

    version: tuple[int, int]

    def query(self, statement: str, **settings: Any) -> bytes:
        """The answer to a statement, in the format that it names."""

    def insert(
        self, table: str, columns: Mapping[str, str], rows: bytes, *, via: Via | None = None
    ) -> None:
        """Insert rows in the format RowBinary; returns when they are stored."""

    def close(self) -> None:
        """Close every connection."""


class HttpServer:
    """Servers that hold the same tables; when one cannot be reached, the next is asked."""

    def __init__(self, address: Address, hosts: Sequence[tuple[str, int]] | None = None) -> None:
        self._address = address
        self._hosts = tuple(address.hosts if hosts is None else hosts)
        self._lock = threading.Lock()
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        self._chosen = 0
        # By the number of a host, the names of the settings that it knows.
        self._known: dict[int, frozenset[str]] = {}
        account = f"{address.user}:{address.password}".encode()
        self._headers = {"authorization": f"Basic {base64.b64encode(account).decode()}"}
        try:
            answer = self.query("SELECT version()").decode()
        except ClickHouseError:
            self.close()
            raise
        major, minor = answer.split(".")[:2]
        self.version = (int(major), int(minor))

    def query(self, statement: str, **settings: Any) -> bytes:
        """The answer to a statement, in the format that it names."""
        return self._send(statement.encode(), {"wait_end_of_query": 1, **settings}, _WHOLE)

    def insert(
        self, table: str, columns: Mapping[str, str], rows: bytes, *, via: Via | None = None
    ) -> None:
        """Insert rows in the format RowBinary; returns when every shard has stored its rows."""
        if via is None:
            statement = f"INSERT INTO {table} ({', '.join(columns)}) FORMAT RowBinary"
            settings: Mapping[str, int] = {}
        else:
            query = via.query.replace(_ROWS, f"input('{_structure(columns)}')")
            statement = f"INSERT INTO {table} ({', '.join(via.columns)}) {query} FORMAT RowBinary"
            settings = {**_ONE_BLOCK, **via.settings}
        self._send(rows, {"query": statement, **settings}, _DURABLE)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _send(
        self, body: bytes, settings: Mapping[str, Any], known: Mapping[str, int | str]
    ) -> bytes:
        """The answer to a request with settings, and with those of ``known`` that a host knows."""
        fault: ClickHouseError | None = None
        # A connection that waited may have been closed at the other end: that is no fault, and the
        # others that waited were closed with it. Then each host is tried once.
        may_reuse = True
        for _ in range(1 + len(self._hosts)):
            number, connection, is_new = self._connection(may_reuse=may_reuse)
            try:
                names = self._names(number, connection)
                more = {name: value for name, value in known.items() if name in names}
                status, answer = self._ask(connection, f"/?{urlencode({**more, **settings})}", body)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._known.pop(number, None)  # it may come back with another version
                if is_new:
                    host, port = self._hosts[number]
                    fault = ClickHouseError(
                        f"cannot reach ClickHouse at {host}:{port}: {_reason(error)}."
                    )
                    self._chosen = (number + 1) % len(self._hosts)
                else:
                    self.close()
                may_reuse = False
                continue
            with self._lock:
                self._idle.append((number, connection))
            if status != 200:
                raise self._refused(answer, self._hosts[number])
            return answer
        raise fault or ClickHouseError(f"{self._address} closes every connection.")

    def _ask(
        self, connection: http.client.HTTPConnection, target: str, body: bytes
    ) -> tuple[int, bytes]:
        connection.request("POST", target, body=body, headers=self._headers)
        response = connection.getresponse()
        return response.status, response.read()

    def _names(self, number: int, connection: http.client.HTTPConnection) -> frozenset[str]:
        """Which of the settings that are sent where possible a host knows."""
        found = self._known.get(number)
        if found is None:
            status, answer = self._ask(connection, "/", _KNOWN_SETTINGS)
            if status != 200:
                connection.close()
                raise self._refused(answer, self._hosts[number])
            names = {*_DURABLE, *_WHOLE}
            found = self._known[number] = frozenset(names.intersection(answer.decode().split()))
        return found

    def _connection(self, *, may_reuse: bool) -> tuple[int, http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle and may_reuse:
                return (*self._idle.pop(), False)
            number = self._chosen
        host, port = self._hosts[number]
        if self._address.is_tls:
            context = ssl.create_default_context()
            return number, _TlsConnection(host, port, timeout=_ANSWER_S, context=context), True
        return number, _Connection(host, port, timeout=_ANSWER_S), True

    def _refused(self, answer: bytes, place: tuple[str, int]) -> ClickHouseError:
        found = _CODE.search(answer)
        code = int(found[1]) if found else 0
        where = f"ClickHouse at {place[0]}:{place[1]}"
        if code in _NO_ACCESS:
            user = self._address.user
            return ClickHouseError(
                f"{where} refuses the user {user!r}: check the name, and the password in"
                f" {PASSWORD_VARIABLE}.",
                code=code,
            )
        return _error(answer, where)


class _Connection(http.client.HTTPConnection):
    """Gives up sooner on a machine that does not answer than on a long query."""

    def connect(self) -> None:
        answer_s, self.timeout = self.timeout, _CONNECT_S
        try:
            super().connect()
        finally:
            self.timeout = answer_s
        self.sock.settimeout(answer_s)
        # A server behind a network that is cut answers nothing, not even that it is away.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if hasattr(socket, name):  # not on every system
                self.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same over TLS."""


class ChdbServer:
    """ClickHouse's engine in this process, over a folder that no other process uses.

    It has one folder at a time; stores in the same folder share it.
    """

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
        try:
            sessions: Any = session  # it has no types
            self._session: Any = sessions.Session(folder)
        except RuntimeError as error:
            raise _error(str(error).encode(), f"chdb://{folder}") from error
        major, minor = self._ask("SELECT version()", "TabSeparatedRaw").decode().split(".")[:2]
        self.version = (int(major), int(minor))

    @classmethod
    def at(cls, folder: str) -> ChdbServer:
        """The engine over a folder; it ends when each of those who asked has closed it."""
        with cls._shared_lock:
            found = cls._shared.get(folder)
            if found is None:
                found = cls._shared[folder] = cls(folder)
            found._num_users += 1
            return found

    def query(self, statement: str, **settings: Any) -> bytes:
        """The answer to a statement, in the format that it names."""
        body, _, form = statement.rpartition(" FORMAT ")
        return self._ask(body, form) if body else self._ask(statement, "Null")

    def insert(
        self, table: str, columns: Mapping[str, str], rows: bytes, *, via: Via | None = None
    ) -> None:
        """Insert rows in the format RowBinary: it reads them from a file."""
        via = via or Via(tuple(columns), f"SELECT {', '.join(columns)} FROM {_ROWS}")
        with _temporary(rows) as path:
            file = f"file('{path}', 'RowBinary', '{_structure(columns)}')"
            query = via.query.replace(_ROWS, file)
            settings = ", ".join(f"{k} = {v}" for k, v in {**_ONE_BLOCK, **via.settings}.items())
            into = f"INSERT INTO {table} ({', '.join(via.columns)}) SETTINGS {settings}"
            self.query(f"{into} {query}")

    def close(self) -> None:
        """End the engine, unless others in this process use it."""
        with self._shared_lock:
            self._num_users -= 1
            if self._num_users > 0:
                return
            self._shared.pop(self._folder, None)
            with self._lock:
                self._session.close()

    def _ask(self, statement: str, form: str) -> bytes:
        with self._lock:
            try:
                found: bytes = self._session.query(statement, form).bytes()
            except RuntimeError as error:
                raise _error(str(error).encode(), f"chdb://{self._folder}") from error
        return found or b""


def _structure(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


@contextlib.contextmanager
def _temporary(data: bytes) -> Iterator[str]:
    descriptor, path = tempfile.mkstemp(prefix="epochal-rows-")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        os.unlink(path)


def _error(answer: bytes, where: str) -> ClickHouseError:
    found = _CODE.search(answer)
    code = int(found[1]) if found else 0
    if code == _NO_SPACE:
        return ClickHouseError(f"the disk of {where} is full: free some of it there.", code=code)
    said = " ".join(answer.decode("utf-8", "replace").split())
    reason = _REASON.search(said)
    said = (reason[1] if reason else said).rstrip(". ")[:300]
    if code in _AWAY:
        return ClickHouseError(f"{where} cannot reach another server of the cluster.", code=code)
    return ClickHouseError(f"{where} answers: {said}.", code=code)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def connect(address: Address) -> Server:
    """The server, or the engine, of an address; raises ``ClickHouseError``."""
    return HttpServer(address) if address.folder is None else ChdbServer.at(address.folder)


def literal(text: str) -> str:
    """A text as SQL writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
