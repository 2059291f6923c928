"""The tables, by version: what each hub makes when it is first there, and changes when it is newer.

Every table has a column ``run``; all rows of a run are on one shard. Rows that are there twice have
one key: readers take one of them, and merges remove the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from epochal.store.clickhouse import numbers
from epochal.store.clickhouse.connection import (
    Address,
    ClickHouseError,
    HttpServer,
    Server,
    literal,
)

# Codecs and LowCardinality, fsync after an insert, and TTL came after 18.16.
_CODECS = (20, 1)
_FSYNC = (21, 1)
_SCHEMA = "schema"
_PATH = "/clickhouse/tables/{shard}/epochal"


@dataclass(frozen=True, slots=True)
class Table:
    """A table: columns that are inserted, its key, and which of two rows with one key stays."""

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    newest: str = ""
    # Columns that the server fills in.
    more: str = ""
    by_month: str = ""
    ttl: str = ""
    codecs: Mapping[str, str] | None = None


LINES = Table(
    "lines",
    {"run": "String", "part": "String", "ordinal": "UInt64", "line": "String"},
    ("run", "part", "ordinal"),
    more=", received DateTime DEFAULT now()",
    by_month="received",
    # Higher levels make noisy numbers larger: they find short matches in place of digits.
    codecs={"ordinal": "DoubleDelta, ZSTD(1)", "line": "ZSTD(1)"},
)
# The same where the server takes lines apart.
LINES_APART = replace(
    LINES,
    columns={"run": "String", "part": "String", "ordinal": "UInt64", **numbers.COLUMNS},
    more=f", line String ALIAS {numbers.LINE}{LINES.more}",
    codecs={"ordinal": "DoubleDelta, ZSTD(1)", **numbers.CODECS},
)
# How many lines of each part there are: derived from ``lines`` by a view.
PARTS = Table(
    "parts",
    {"run": "String", "part": "String", "lines": "UInt64", "changed": "DateTime"},
    ("run", "part"),
    newest="lines",
)
# What changes: identity, labels, whether the run is deleted; the highest version counts.
FACTS = Table(
    "facts",
    {"run": "String", "key": "String", "value": "String", "version": "UInt64"},
    ("run", "key"),
    newest="version",
)
FILES = Table(
    "files",
    {"run": "String", "name": "String", "start": "UInt64", "size": "UInt64", "data": "String"},
    ("run", "name", "start"),
)
LIVE = Table(
    "live",
    {"run": "String", "name": "String", "value": "String", "version": "UInt64"},
    ("run", "name"),
    newest="version",
    more=", received DateTime DEFAULT now()",
    ttl="received + INTERVAL 1 DAY",
)
# What hubs tell each other: changes of tokens, requests and the audit log.
CHANGES = Table(
    "changes",
    {"run": "String", "id": "String", "value": "String", "version": "UInt64"},
    ("run", "version", "id"),
)
# A run in one row, derived from its lines and facts by some hub: what lists, filters and sums need.
# ``kind`` is the layout of ``row`` and the rules that judged the run, ``lines`` and ``identity``
# say what it was derived from. The columns before them are for people who query the table.
RUNS = Table(
    "runs",
    {
        "run": "String",
        "project": "String",
        "name": "String",
        "created": "Float64",
        "updated": "Float64",
        "step": "Int64",
        "config": "String",
        "last": "String",
        "kind": "String",
        "lines": "UInt64",
        "identity": "UInt64",
        "row": "String",
        "version": "UInt64",
    },
    ("run", "kind"),
    newest="version",
    codecs={"config": "ZSTD(3)", "last": "ZSTD(3)", "row": "ZSTD(3)"},
)
# The tables that each version has more than the one before; a new column would be a statement.
# The third may have lines apart, which a hub of the second could not insert.
_STEPS: tuple[tuple[Table, ...], ...] = ((LINES, PARTS, FACTS, FILES, LIVE, CHANGES), (RUNS,), ())
TABLES = tuple(table for tables in _STEPS for table in tables)
VERSION = len(_STEPS)


def set_up(address: Address, server: Server) -> None:
    """Make the tables, or bring them to this version; raises ``ClickHouseError``."""
    with contextlib.ExitStack() as opened:
        servers, faults = [server], list[ClickHouseError]()
        if address.cluster is not None and len(address.hosts) > 1:
            servers, faults = _reached(address, opened)
        versions = [_version_of(address, one) for one in servers]
        if min(versions, default=0) == VERSION:
            return  # a server that is away is no problem when the others have their tables
        if faults:
            raise faults[0]
        is_apart = _is_apart(address, servers)
        for one, known in zip(servers, versions, strict=True):
            _set_up_at(address, one, known, is_apart=is_apart)


def _reached(
    address: Address, opened: contextlib.ExitStack
) -> tuple[list[Server], list[ClickHouseError]]:
    """Each server of an address, and why others were not reached."""
    servers: list[Server] = []
    faults: list[ClickHouseError] = []
    for host in address.hosts:
        try:
            servers.append(opened.enter_context(contextlib.closing(HttpServer(address, [host]))))
        except ClickHouseError as error:
            if error.code or error.is_final:
                raise
            faults.append(error)
    return servers, faults


def _is_apart(address: Address, servers: Sequence[Server]) -> bool:
    """Whether all servers are to store lines apart: as those do that have lines already."""
    known = {has_lines_apart(address, server) for server in servers} - {None}
    if known == {False}:
        return False
    can = all(numbers.takes_apart(server) for server in servers)
    if True in known and (False in known or not can):
        raise ClickHouseError(
            f"the servers of {address} do not store lines in one way: each needs version"
            f" {'.'.join(map(str, numbers.SINCE))} or newer, and tables that one Epochal made.",
            is_final=True,
        )
    return can


def _set_up_at(address: Address, server: Server, known: int, *, is_apart: bool) -> None:
    """Make or change the tables of one server, which have a version that is known."""
    replicated = _is_replicated(server)
    for number in range(known + 1, VERSION + 1):
        for step in _STEPS[number - 1]:
            table = LINES_APART if step is LINES and is_apart else step
            for statement in _made(table, address, server, is_replicated=replicated):
                server.query(statement)
        if number == 1:
            server.query(_view(address))
        server.query(f"INSERT INTO {address.database}.{_SCHEMA} (version) VALUES ({number})")


def _version_of(address: Address, server: Server) -> int:
    """The version of the tables of one server, at most the one that is known here."""
    server.query(f"CREATE DATABASE IF NOT EXISTS {address.database}")
    server.query(
        f"CREATE TABLE IF NOT EXISTS {address.database}.{_SCHEMA}"
        " (version UInt32, applied DateTime DEFAULT now())"
        " ENGINE = ReplacingMergeTree ORDER BY version"
    )
    answer = server.query(
        f"SELECT max(version) FROM {address.database}.{_SCHEMA} FORMAT TabSeparatedRaw"
    )
    known = int(answer or 0)
    if known > VERSION:
        raise ClickHouseError(
            f"the tables in {address} have the version {known}, this Epochal knows {VERSION}:"
            " install a newer Epochal here.",
            is_final=True,
        )
    return known


def stored(table: Table, address: Address) -> str:
    """The name of the table that holds the rows of one server."""
    local = "_local" if address.cluster is not None else ""
    return f"{address.database}.{table.name}{local}"


def _made(table: Table, address: Address, server: Server, *, is_replicated: bool) -> list[str]:
    is_new = server.version >= _CODECS
    columns = ", ".join(
        f"{name} {_type(name, kind, is_new)}{_codec(table, name, is_new)}"
        for name, kind in table.columns.items()
    )
    kept = [table.newest] if table.newest else []
    engine = "ReplacingMergeTree"
    if is_replicated:
        path = f"{_PATH}/{address.database}/{table.name}"
        engine, kept = f"Replicated{engine}", [literal(path), "'{replica}'", *kept]
    statement = (
        f"CREATE TABLE IF NOT EXISTS {stored(table, address)} ({columns}{table.more})"
        f" ENGINE = {engine}({', '.join(kept)})"
    )
    if table.by_month:
        statement += f" PARTITION BY toYYYYMM({table.by_month})"
    statement += f" ORDER BY ({', '.join(table.key)})"
    if table.ttl and is_new:
        statement += f" TTL {table.ttl}"
    if server.version >= _FSYNC:
        statement += " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
    if address.cluster is None:
        return [statement]
    name = f"{address.database}.{table.name}"
    shards = (
        f"CREATE TABLE IF NOT EXISTS {name} AS {stored(table, address)} ENGINE ="
        f" Distributed({address.cluster}, {address.database}, {table.name}_local, cityHash64(run))"
    )
    return [statement, shards]


def _type(name: str, kind: str, is_new: bool) -> str:
    return "LowCardinality(String)" if is_new and name in ("run", "part") else kind


def _codec(table: Table, name: str, is_new: bool) -> str:
    codec = (table.codecs or {}).get(name)
    return f" CODEC({codec})" if codec and is_new else ""


def _view(address: Address) -> str:
    return (
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {address.database}.parts_of_lines"
        f" TO {stored(PARTS, address)} AS {counted_parts(stored(LINES, address))}"
    )


def counted_parts(lines: str) -> str:
    """The query that counts the lines of parts."""
    return (
        "SELECT run, part, max(ordinal) + 1 AS lines, max(received) AS changed"
        f" FROM {lines} GROUP BY run, part"
    )


def has_lines_apart(address: Address, server: Server) -> bool | None:
    """Whether the lines are stored as text with gaps and numbers; None where there are none."""
    database, _, table = stored(LINES, address).partition(".")
    answer = server.query(
        "SELECT count(), countIf(name = 'numbers') FROM system.columns WHERE"
        f" database = {literal(database)} AND table = {literal(table)} FORMAT TabSeparatedRaw"
    )
    num_columns, num_apart = map(int, answer.split())
    return num_apart > 0 if num_columns else None


def _is_replicated(server: Server) -> bool:
    """Whether the server says which shard and which replica it is."""
    try:
        answer = server.query(
            "SELECT count() FROM system.macros WHERE macro IN ('shard', 'replica')"
            " FORMAT TabSeparatedRaw"
        )
    except ClickHouseError as error:
        if not error.code:
            raise
        return False  # a version without that table
    return int(answer) == 2
