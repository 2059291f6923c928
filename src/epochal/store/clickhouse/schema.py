"""The tables of a ClickHouse store, which each hub creates where they are missing.

The lines of a journal are in ``records`` as they were written, and their numbers in ``points``,
where a series can be read without its records. ``parts`` says how much of a part was received, and
its row is written last: what it counts can be read. ``runs`` has one row of each run, which hubs
keep in an index. Identities, labels, boards, tokens and all else that is small and changes are
rows of ``documents``, where the highest version counts.

All rows of a run are on one shard. A batch that is sent twice is stored twice: its copies have one
key, and queries leave copies out. Merges remove them from all tables but ``points``, whose merges
would cost a quarter more.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epochal.store.clickhouse.connection import (
    Address,
    ClickHouseError,
    HttpServer,
    Server,
    literal,
)

# Codecs and LowCardinality, indexes that skip rows, and fsync after an insert came after 18.16.
_CODECS = (20, 1)
_FSYNC = (21, 1)
_DELETED_S, _POLL_S = 600.0, 0.05


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the columns that are inserted, its key, and which of two rows of a key stays.

    ``more`` are columns and indexes that servers fill in themselves. ``codecs`` and ``skips`` are
    for servers that know them.
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    newest: str = ""
    engine: str = "ReplacingMergeTree"
    # A query reads so many rows together: few where rows are large.
    granularity: int = 8192
    shard_by: str = "run"
    more: str = ""
    codecs: Mapping[str, str] | None = None
    skips: str = ""


_RECEIVED = ", received DateTime DEFAULT now()"
# ``place`` is attempt, part and ordinal of the record in one number; ``axis`` is a place in
# ``rows.AXES``.
POINTS = Table(
    "points",
    {
        "run": "String",
        "name": "String",
        "axis": "UInt8",
        "writer": "String",
        "place": "UInt64",
        "step": "Int64",
        "t": "Float64",
        "value": "Float64",
    },
    ("run", "name", "axis", "writer", "step", "place"),
    engine="MergeTree",
    codecs={
        "place": "DoubleDelta, ZSTD(1)",
        "step": "DoubleDelta, ZSTD(1)",
        "t": "DoubleDelta, ZSTD(1)",
        "value": "ZSTD(1)",
    },
    # Who follows a live run asks for the newest points of all its series.
    skips=", INDEX places place TYPE minmax GRANULARITY 1",
)
# ``said`` has the lines of a batch that have the same kind and label, and ``lines`` their numbers.
# ``line`` is the first of them, ``last`` the last one; the ordinal of a record is the number of its
# line without ``shift`` damaged lines before it. A damaged line has an empty kind.
RECORDS = Table(
    "records",
    {
        "run": "String",
        "kind": "String",
        "writer": "String",
        "attempt": "UInt32",
        "part": "UInt32",
        "line": "UInt32",
        "last": "UInt32",
        "shift": "UInt32",
        "label": "String",
        "lines": "Array(UInt32)",
        "said": "String",
    },
    ("run", "kind", "writer", "attempt", "part", "line", "last"),
    granularity=64,
    codecs={"lines": "ZSTD(3)", "said": "ZSTD(3)"},
)
# Each hub that has received something of a part has a row of its own. ``step`` and ``t`` are the
# highest ones, and ``kinds`` those of the records, with commas between. All of it only grows.
PARTS = Table(
    "parts",
    {
        "run": "String",
        "writer": "String",
        "attempt": "UInt32",
        "part": "UInt32",
        "hub": "UInt64",
        "lines": "UInt64",
        "records": "UInt64",
        "damaged": "UInt64",
        "bytes": "UInt64",
        "step": "Int64",
        "t": "Float64",
        "kinds": "String",
    },
    ("run", "writer", "attempt", "part", "hub"),
    newest="lines",
    more=_RECEIVED,
)
# Which series a part has; ``place`` is that of the first point.
SERIES = Table(
    "series",
    {
        "run": "String",
        "writer": "String",
        "attempt": "UInt32",
        "part": "UInt32",
        "name": "String",
        "axis": "UInt8",
        "place": "UInt64",
        "number": "UInt16",
    },
    ("run", "writer", "attempt", "part", "name", "axis"),
)
BLOBS = Table(
    "blobs",
    {
        "run": "String",
        "name": "String",
        "sha256": "String",
        "offset": "UInt64",
        "size": "UInt64",
        "length": "UInt64",
        "data": "String",
    },
    ("run", "name", "sha256", "offset"),
    granularity=1,
)
RUNS = Table(
    "runs",
    {
        "run": "String",
        "rules": "String",
        "version": "UInt64",
        "signature": "String",
        "row": "String",
        "details": "String",
    },
    ("run", "rules"),
    newest="version",
    granularity=64,
    codecs={"row": "ZSTD(3)", "details": "ZSTD(3)"},
)
DOCUMENTS = Table(
    "documents",
    {
        "kind": "String",
        "key": "String",
        "version": "UInt64",
        "is_deleted": "UInt8",
        "body": "String",
    },
    ("kind", "key"),
    newest="version",
    shard_by="key",
    more=_RECEIVED,
    granularity=64,
)
TABLES = (POINTS, RECORDS, PARTS, SERIES, BLOBS, RUNS, DOCUMENTS)
# What is erased with a run.
RUN_TABLES = (POINTS, RECORDS, PARTS, SERIES, BLOBS, RUNS)


def set_up(address: Address, server: Server) -> None:
    """Create the database and the tables on each server of an address, where they are missing."""
    if address.cluster is None or address.folder is not None:
        _create(address, server)
        return
    for host in address.hosts:
        with contextlib.closing(HttpServer(address, [host])) as one:
            _create(address, one)


def _create(address: Address, server: Server) -> None:
    server.query(f"CREATE DATABASE IF NOT EXISTS {address.database}")
    for table in TABLES:
        for statement in _statements(table, address, server.version):
            server.query(statement)


def _statements(table: Table, address: Address, version: tuple[int, int]) -> list[str]:
    name, is_new = f"{address.database}.{table.name}", version >= _CODECS
    local = f"{name}_local" if address.cluster is not None else name
    codecs = table.codecs if is_new and table.codecs else {}
    columns = ", ".join(
        f"{column} {_type(column, kind, is_new)}{_codec(codecs.get(column))}"
        for column, kind in table.columns.items()
    )
    settings = ", fsync_after_insert = 1, fsync_part_directory = 1" if version >= _FSYNC else ""
    create = (
        f"CREATE TABLE IF NOT EXISTS {local}"
        f" ({columns}{table.more}{table.skips if is_new else ''})"
        f" ENGINE = {table.engine}({table.newest}) ORDER BY ({', '.join(table.key)})"
        f" SETTINGS index_granularity = {table.granularity}{settings}"
    )
    if address.cluster is None:
        return [create]
    place = f"{address.cluster}, {address.database}, {table.name}_local"
    return [
        create,
        f"CREATE TABLE IF NOT EXISTS {name} AS {local}"
        f" ENGINE = Distributed({place}, cityHash64({table.shard_by}))",
    ]


def _type(column: str, kind: str, is_new: bool) -> str:
    is_repeated = column in ("run", "name", "writer", "kind") and kind == "String"
    return f"LowCardinality({kind})" if is_new and is_repeated else kind


def _codec(codec: str | None) -> str:
    return f" CODEC({codec})" if codec else ""


def delete(address: Address, server: Server, condition: str) -> None:
    """Delete rows of runs from every table; returns when no query finds them any more."""
    if address.cluster is None or address.folder is not None:
        _delete_at(address, server, condition)
        return
    for host in address.hosts:
        with contextlib.closing(HttpServer(address, [host])) as one:
            _delete_at(address, one, condition)


def _delete_at(address: Address, server: Server, condition: str) -> None:
    local = "_local" if address.cluster is not None else ""
    names = [f"{table.name}{local}" for table in RUN_TABLES]
    for name in names:
        # Lightweight deletes are on by default since 23.3. Other versions rewrite what has rows.
        table = f"{address.database}.{name}"
        is_new = server.version >= (23, 3)
        statement = f"DELETE FROM {table}" if is_new else f"ALTER TABLE {table} DELETE"
        server.query(f"{statement} WHERE {condition}")
    waiting = (
        f"SELECT count() FROM system.mutations WHERE database = {literal(address.database)}"
        f" AND {one_of('table', names)} AND NOT is_done FORMAT TabSeparatedRaw"
    )
    until = time.monotonic() + _DELETED_S
    while int(server.query(waiting)):
        if time.monotonic() > until:
            raise ClickHouseError("the servers have not finished deleting yet: try again later.")
        time.sleep(_POLL_S)


def one_of(column: str, values: Sequence[str]) -> str:
    """A condition that is true where a column has one of some values."""
    return f"{column} IN ({', '.join(map(literal, values))})" if values else "0"
