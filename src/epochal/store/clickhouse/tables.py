"""What a hub stores in ClickHouse and reads from it: lines of parts, facts, files, readings."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from epochal.errors import FormatError, UsageError
from epochal.store.clickhouse.batches import INSERT_EVERY_S, Batches
from epochal.store.clickhouse.blobs import PIECE_BYTES, Blobs, open_blobs
from epochal.store.clickhouse.connection import (
    Address,
    ClickHouseError,
    HttpServer,
    Server,
    Via,
    connect,
    literal,
)
from epochal.store.clickhouse.numbers import LINE, TAKEN_APART, WHOLE, check_reading, takes_apart
from epochal.store.clickhouse.schema import (
    CHANGES,
    FACTS,
    FILES,
    LINES,
    LIVE,
    PARTS,
    RUNS,
    TABLES,
    Table,
    counted_parts,
    has_lines_apart,
    set_up,
    stored,
)

# The time of a cluster: what hubs store is ordered and found by it, not by the clocks of hubs.

# A server says whole seconds: a clock that differs by less is taken as it is.
_EQUAL_S = 2.0
_MEASURE_EVERY_S = 10.0


class ClusterClock:
    """``ask`` returns the Unix time of a server, in whole seconds; ``own`` that of this machine."""

    def __init__(self, ask: Callable[[], float], own: Callable[[], float] = time.time) -> None:
        self._ask = ask
        self._own = own
        self._lock = threading.Lock()
        self._measured_s = 0.0
        # What has to be added to the monotonic time, and to which this machine's clock added then.
        self._from_monotonic_s = self._own_from_monotonic_s = 0.0
        self.measure()

    def now(self) -> float:
        """The time of the cluster in Unix seconds."""
        return time.monotonic() + self._from_monotonic_s

    def measure(self) -> None:
        """Ask a server for its time; raises ``ClickHouseError``."""
        asked_s = time.monotonic()
        there_s = self._ask() + 0.5
        now_s = time.monotonic()
        if now_s - asked_s > _EQUAL_S and self._measured_s:
            return  # too slow to say anything
        here_s = self._own()
        time_s = here_s if abs(there_s - here_s) <= _EQUAL_S else there_s
        with self._lock:
            self._measured_s = now_s
            self._from_monotonic_s = time_s - now_s
            self._own_from_monotonic_s = here_s - now_s

    def follow(self) -> None:
        """Measure again when that was some time ago, or this machine's clock was set or slept."""
        now_s = time.monotonic()
        shift_s = self._own() - now_s - self._own_from_monotonic_s
        if now_s - self._measured_s > _MEASURE_EVERY_S or abs(shift_s) > 1.0:
            self.measure()


# Lines that the first query of a part returns, and at most; about so many bytes in between.
_FIRST_WINDOW, _MOST_WINDOW = 1 << 9, 1 << 16
_WINDOW_BYTES = 16 << 20
_DELETED_WITHIN_S = 60.0
_ORDINAL = struct.Struct("<Q").pack
_COLUMNS = struct.Struct("<ddq").pack
_NUMBERS = struct.Struct("<QQQ")
_ROWS_AT_ONCE = 2000
IDENTITY, LABELS, DELETED, SEALED = "identity", "labels", "deleted", "sealed/"
_BLOBS = "blobs"


class PartCount(NamedTuple):
    """How many lines of a part are stored; ``changed`` is when the last came, in Unix seconds."""

    run: str
    part: str
    lines: int
    changed: int


class Fact(NamedTuple):
    """Something about a run that may change; the highest version counts."""

    run: str
    key: str
    value: str
    version: int


class StoredRow(NamedTuple):
    """The row of a run as some hub derived it, and what from: lines, and a version of identity."""

    run: str
    lines: int
    identity: int
    version: int
    row: bytes


class RowColumns(NamedTuple):
    """What people find in the table of runs without reading a row; JSON in the last two."""

    project: str
    name: str
    created: float
    updated: float
    step: int
    config: str
    last: str


class Change(NamedTuple):
    """A change that a hub tells the others."""

    id: str
    value: str
    version: int


class Tables:
    """The tables of one database; threads may share it.

    ``blobs`` is a folder or a bucket for the blobs of runs; the first hub says it for all. Inserts
    into one table start at least ``every_s`` seconds after each other. ``clock`` is this machine's.
    """

    def __init__(
        self,
        address: Address,
        *,
        blobs: str | None = None,
        every_s: float = INSERT_EVERY_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.address = address
        self._server = connect(address)
        self._batches = Batches(self._insert, every_s=every_s)
        self._lock = threading.Lock()
        self._last_version = 0
        self.blobs: Blobs = TableBlobs(self)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.clock = ClusterClock(self._time, clock)
            set_up(address, self._server)
            self._is_apart = bool(has_lines_apart(address, self._server))
            self._via: Via | None = None
            if self._is_apart:
                check_reading(self._server)
                self._via = TAKEN_APART if takes_apart(self._server) else WHOLE
            self._place_blobs(blobs)
            undo.pop_all()

    @property
    def server_version(self) -> tuple[int, int]:
        """The version of the server."""
        return self._server.version

    def close(self) -> None:
        """Close every connection."""
        self._server.close()

    def _place_blobs(self, given: str | None) -> None:
        """Have the blobs where all hubs have them."""
        known = next((fact.value for fact in self.facts("") if fact.key == _BLOBS), None)
        if given is not None and given != known:
            if known is not None:
                raise UsageError(f"--blobs: the blobs of {self.address} are in {known}.")
            self.put_fact("", _BLOBS, given)
        place = given or known
        if place is not None:
            self.blobs = open_blobs(place)

    # -- lines ------------------------------------------------------------------------------------

    def append(self, run_id: str, part: str, *, first: int, lines: bytes) -> None:
        """Store whole lines of a part; returns when they are stored."""
        prefix = _text(run_id) + _text(part)
        rows = b"".join(
            [
                b"".join((prefix, _ORDINAL(ordinal), _length(len(line)), line))
                for ordinal, line in enumerate(lines[:-1].split(b"\n"), first)
            ]
        )
        self.insert(LINES, run_id, rows)

    def lines(self, run_id: str, part: str, *, first: int, end: int) -> Iterator[bytes]:
        """The lines of a part from an ordinal to another, in blocks of whole lines.

        Raises ``FormatError`` where some are missing.
        """
        window = _FIRST_WINDOW
        while first < end:
            until = min(first + window, end)
            block = self.ask(
                f"SELECT {LINE if self._is_apart else 'line'} FROM {self.name(LINES)}"
                f" WHERE run = {literal(run_id)}"
                f" AND part = {literal(part)} AND ordinal >= {first} AND ordinal < {until}"
                " ORDER BY ordinal LIMIT 1 BY ordinal FORMAT TabSeparatedRaw"
            )
            if block.count(b"\n") != until - first:
                raise FormatError(
                    f"{self.address} has {block.count(bytes([10])):,} of the"
                    f" {until - first:,} lines of {part} from {first:,} on, of the run {run_id}."
                )
            yield block
            line_bytes = -(-len(block) // (until - first))
            window = min(_MOST_WINDOW, 8 * window, 1 + _WINDOW_BYTES // line_bytes)
            first = until

    def parts(self, run_id: str | None = None, *, since: int = 0) -> list[PartCount]:
        """The parts of a run, or of all; only those that changed since a time."""
        where = "1" if run_id is None else f"run = {literal(run_id)}"
        answer = self.ask(
            "SELECT run, part, max(lines), toUInt32(max(changed)) AS newest"
            f" FROM {self.name(PARTS)} WHERE {where} AND changed >= toDateTime({since})"
            " GROUP BY run, part FORMAT JSONEachRow"
        )
        return [
            PartCount(run, part, int(lines), int(changed))
            for run, part, lines, changed in _rows(answer)
        ]

    # -- facts ------------------------------------------------------------------------------------

    def put_fact(
        self, run_id: str, key: str, value: str, *, after: int = 0, version: int | None = None
    ) -> int:
        """Store something about a run in place of what was there; its version.

        Unless given, it is higher than ``after``, that of what was there: clocks of hubs differ.
        """
        version = self.next_version(after=after) if version is None else version
        rows = _text(run_id) + _text(key) + _text(value) + _ORDINAL(version)
        self.insert(FACTS, run_id, rows)
        return version

    def facts(self, run_id: str | None = None, *, since: int = 0) -> list[Fact]:
        """What is known of a run, or of all; only what was stored since a version."""
        where = "1" if run_id is None else f"run = {literal(run_id)}"
        answer = self.ask(
            "SELECT run, key, argMax(value, version), max(version) AS newest"
            f" FROM {self.name(FACTS)} WHERE {where} AND version >= {since}"
            " GROUP BY run, key FORMAT JSONEachRow"
        )
        return [Fact(run, key, value, int(version)) for run, key, value, version in _rows(answer)]

    # -- rows -------------------------------------------------------------------------------------

    def put_rows(self, kind: str, rows: Iterable[tuple[StoredRow, RowColumns]]) -> None:
        """Store derived rows of runs in place of what was there, in one insert."""
        data: list[bytes] = []
        for row, columns in rows:
            data += (
                *map(_text, (row.run, columns.project, columns.name)),
                _COLUMNS(columns.created, columns.updated, columns.step),
                *map(_text, (columns.config, columns.last, kind)),
                _ORDINAL(row.lines),
                _ORDINAL(row.identity),
                _bytes(row.row),
                _ORDINAL(row.version),
            )
        if data:
            self.insert(RUNS, "", b"".join(data))

    def row_versions(self, kind: str, *, since: int = 0) -> dict[str, int]:
        """The version of the newest row of each run; only of those stored since a version."""
        answer = self.ask(
            f"SELECT run, max(version) AS newest FROM {self.name(RUNS)}"
            f" WHERE kind = {literal(kind)} AND version >= {since} GROUP BY run FORMAT JSONEachRow"
        )
        return {run: int(version) for run, version in _rows(answer)}

    def rows(self, kind: str, run_ids: Sequence[str]) -> Iterator[StoredRow]:
        """The newest rows of some runs, a few thousand at a time."""
        for at in range(0, len(run_ids), _ROWS_AT_ONCE):
            some = ", ".join(map(literal, run_ids[at : at + _ROWS_AT_ONCE]))
            answer = self.ask(
                "SELECT run, argMax(lines, version), argMax(identity, version),"
                " max(version) AS newest, argMax(row, version)"
                f" FROM {self.name(RUNS)} WHERE kind = {literal(kind)} AND run IN ({some})"
                " GROUP BY run FORMAT RowBinary"
            )
            place = 0
            while place < len(answer):
                run_id, place = _read_bytes(answer, place)
                lines, identity, version = _NUMBERS.unpack_from(answer, place)
                row, place = _read_bytes(answer, place + _NUMBERS.size)
                yield StoredRow(run_id.decode(), lines, identity, version, row)

    # -- readings ---------------------------------------------------------------------------------

    def put_live(self, run_id: str, name: str, value: bytes) -> None:
        """Store the newest readings of a machine."""
        version = _ORDINAL(int(self.clock.now() * 1e6))
        self.insert(LIVE, run_id, _text(run_id) + _text(name) + _bytes(value) + version)

    def live(self, run_id: str) -> dict[str, str]:
        """The newest readings of the machines of a run, by name."""
        answer = self.ask(
            f"SELECT name, argMax(value, version) FROM {self.name(LIVE)}"
            f" WHERE run = {literal(run_id)} GROUP BY name FORMAT JSONEachRow"
        )
        return dict(_rows(answer))

    # -- changes ----------------------------------------------------------------------------------

    def put_change(self, change_id: str, value: str) -> None:
        """Tell the other hubs of a change."""
        rows = _text("") + _text(change_id) + _text(value) + _ORDINAL(self.next_version())
        self.insert(CHANGES, "", rows)

    def changes(self, *, since: int) -> list[Change]:
        """The changes that hubs have told since a version, in order."""
        answer = self.ask(
            f"SELECT id, any(value), min(version) AS first FROM {self.name(CHANGES)}"
            f" WHERE run = '' AND version >= {since} GROUP BY id ORDER BY first FORMAT JSONEachRow"
        )
        return [Change(one, value, int(version)) for one, value, version in _rows(answer)]

    # -- all of a run -----------------------------------------------------------------------------

    def erase(self, run_id: str) -> None:
        """Delete everything of a run for ever, on every server that the address names."""
        self.blobs.erase(run_id)
        for server in self._each_server():
            for table in (LINES, PARTS, FILES, LIVE, RUNS):
                server.query(
                    f"ALTER TABLE {stored(table, self.address)} DELETE"
                    f" WHERE run = {literal(run_id)}"
                )
            self._wait_for_deletions(server)

    def optimize(self) -> None:
        """Have the servers merge what they would merge by and by."""
        for server in self._each_server():
            for table in TABLES:
                server.query(f"OPTIMIZE TABLE {stored(table, self.address)} FINAL")

    def num_rows(self) -> int:
        """How many rows of lines are stored, those included that are stored twice."""
        statement = f"SELECT count() FROM {self.name(LINES)} FORMAT TabSeparatedRaw"
        return int(self.ask(statement))

    def reindex(self) -> list[str]:
        """Make the derived tables again from the lines; a sentence for each part with a gap."""
        faults: list[str] = []
        for server in self._each_server():
            lines, parts = stored(LINES, self.address), stored(PARTS, self.address)
            answer = server.query(
                f"SELECT run, part, max(lines) FROM {parts} GROUP BY run, part FORMAT JSONEachRow"
            )
            known = {(run, part): int(num) for run, part, num in _rows(answer)}
            answer = server.query(
                "SELECT run, part, max(ordinal) + 1, uniqExact(ordinal)"
                f" FROM {lines} GROUP BY run, part FORMAT JSONEachRow"
            )
            for run, part, *numbers in _rows(answer):
                end, num = map(int, numbers)
                if num != end:
                    faults.append(f"{part} of the run {run} has {num:,} of {end:,} lines.")
                if known.get((run, part), 0) > end:
                    server.query(
                        f"ALTER TABLE {parts} DELETE"
                        f" WHERE run = {literal(run)} AND part = {literal(part)}"
                    )
                    self._wait_for_deletions(server)
            server.query(f"INSERT INTO {parts} {counted_parts(lines)}")
        return faults

    def next_version(self, *, after: int = 0) -> int:
        """A number higher than another and all in this process: the cluster's time, if possible."""
        with self._lock:
            now = int(self.clock.now() * 1e6)
            self._last_version = max(now, self._last_version + 1, after + 1)
            return self._last_version

    # -- statements -------------------------------------------------------------------------------

    def name(self, table: Table) -> str:
        """The name of a table in statements."""
        return f"{self.address.database}.{table.name}"

    def ask(self, statement: str) -> bytes:
        """The answer to a query, in the format that it names."""
        return self._server.query(statement)

    def insert(self, table: Table, run_id: str, rows: bytes) -> None:
        """Store rows of a run together with those of others; returns when they are stored."""
        self._batches.put(table, run_id, rows)

    def _insert(self, table: Table, rows: bytes) -> None:
        via = self._via if table is LINES else None
        try:
            self._server.insert(self.name(table), table.columns, rows, via=via)
        except ClickHouseError as error:
            if via is not TAKEN_APART or not error.code or error.is_passing:
                raise
            self._server.insert(self.name(table), table.columns, rows, via=WHOLE)

    def _time(self) -> float:
        return float(self.ask("SELECT toUnixTimestamp(now()) FORMAT TabSeparatedRaw"))

    def _wait_for_deletions(self, server: Server) -> None:
        """Return when deleted rows are gone: a run that is sent again must not meet them."""
        deadline_s = time.monotonic() + _DELETED_WITHIN_S
        while time.monotonic() < deadline_s:
            left = server.query(
                "SELECT count() FROM system.mutations WHERE is_done = 0"
                f" AND database = {literal(self.address.database)} FORMAT TabSeparatedRaw"
            )
            if not int(left):
                return
            time.sleep(0.1)

    def _each_server(self) -> Iterator[Server]:
        if self.address.cluster is None:
            yield self._server
            return
        for host in self.address.hosts:
            with contextlib.closing(HttpServer(self.address, [host])) as server:
                yield server


class TableBlobs:
    """Blobs in pieces in the table ``files``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def put(self, run_id: str, name: str, path: Path) -> None:
        """Store a file, piece by piece."""
        start, size = 0, path.stat().st_size
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(PIECE_BYTES), b""):
                rows = (_text(run_id), _text(name), _ORDINAL(start), _ORDINAL(size), _bytes(piece))
                self._tables.insert(FILES, run_id, b"".join(rows))
                start += len(piece)

    def sizes(self, run_id: str) -> dict[str, int]:
        """The blobs of a run that are whole, with their sizes in bytes."""
        answer = self._tables.ask(
            "SELECT name, max(size), sum(piece) FROM (SELECT name, start, max(size) AS size,"
            f" max(length(data)) AS piece FROM {self._tables.name(FILES)}"
            f" WHERE run = {literal(run_id)} GROUP BY name, start)"
            " GROUP BY name FORMAT JSONEachRow"
        )
        found = ((name, int(size), int(stored)) for name, size, stored in _rows(answer))
        return {name: size for name, size, stored in found if size == stored}

    def pieces(self, run_id: str, name: str, *, size: int) -> Iterator[bytes]:
        """The contents of a blob."""
        have = 0
        while have < size:
            piece = self._tables.ask(
                f"SELECT data FROM {self._tables.name(FILES)} WHERE run = {literal(run_id)}"
                f" AND name = {literal(name)} AND start = {have} LIMIT 1 FORMAT RowBinary"
            )
            if not piece:
                raise FormatError(f"{name} of the run {run_id} is not whole in the tables.")
            data, _ = _read_bytes(piece, 0)
            yield data
            have += len(data)

    def erase(self, run_id: str) -> None:
        """Nothing: the rows of a run are deleted together."""


def _rows(answer: bytes) -> Iterator[list[Any]]:
    return (list(msgspec.json.decode(line).values()) for line in answer.splitlines())


def _length(number: int) -> bytes:
    """A length as RowBinary writes it."""
    if number < 1 << 14:
        return _SHORT[number]
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def _read_bytes(data: bytes, place: int) -> tuple[bytes, int]:
    """A string that begins at a place, behind its length, and where it ends."""
    number = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return data[place : place + number], place + number
        shift += 7
    raise FormatError("ClickHouse's answer ends within a length.")


_SHORT = [
    bytes((number,)) if number < 128 else bytes((number & 127 | 128, number >> 7))
    for number in range(1 << 14)
]


def _bytes(data: bytes) -> bytes:
    return _length(len(data)) + data


def _text(text: str) -> bytes:
    return _bytes(text.encode())
