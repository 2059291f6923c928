"""The index of runs: one SQLite file per reader and folder of runs, in the cache folder.

A row is valid for files that are as they were when it was made, and the index can be deleted at any
time. Rows are written as a scan goes, so an interrupted scan keeps what it has learned. SQL only
narrows a list to a superset; the evaluator of the query language decides. The reasons are in
``docs/development/decisions.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from epochal.base.atomic_file import folder_has_locks
from epochal.journal.fold import RunMetrics
from epochal.journal.metrics import NOT_THERE, Metric, dig
from epochal.journal.row import RunRow
from epochal.query import filter as q
from epochal.series.summary import Summary
from epochal.store.row import pack, packed_decoder

# Part of the file's name: another build of Epochal has an index of its own.
VERSION = 16
_BUSY_S = 5.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
# A transaction is ended after so many rows, or after so long.
_ROWS_AT_ONCE = 256
_COMMIT_S = 1.0
_SCHEMA = """
create table if not exists runs (
    place text primary key, signature text, is_settled integer, own_id text, created real,
    project text, name text, owner text, run_group text, config text, numbers text,
    row blob, metrics blob
);
create table if not exists answers (
    asked text, place text, signature text, value real, answer blob, primary key (asked, place)
) without rowid;
"""
_PUT = f"insert or replace into runs values ({', '.join('?' * 13)})"
_KNOWN = "place, signature, is_settled, own_id, created"
_ONE = "select row from runs where place = ? and signature = ?"
# Fields of the query language that are columns, and those of them that are texts.
_TEXT_COLUMNS = {"project": "project", "name": "name", "owner": "owner", "group": "run_group"}
# Numbers that a double cannot hold are rounded in SQL, so a bound belongs to the superset.
_SQL_OPERATORS = {"==": "=", "<": "<=", "<=": "<=", ">": ">=", ">=": ">="}

_decode_row = packed_decoder(RunRow).decode
_decode_metrics = packed_decoder(RunMetrics).decode


def decoded_row(packed: bytes) -> RunRow | None:
    """A row of the index; None where it is damaged."""
    try:
        return _decode_row(packed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Answer(msgspec.Struct, array_like=True, gc=False):
    """What a run has under the name of a metric that is not among its headline."""

    metric: Metric | None
    summary: Summary | None


decode_answer = packed_decoder(Answer).decode


class Index:
    """The rows of the runs below one folder in SQLite; several threads may use it.

    A row is known with the signature of the files that it was made of; ``is_settled``: its
    beginning tells every change. Without a cache folder it is
    kept in memory. One that is damaged is kept as ``.damaged`` and made anew; one that another
    process has locked for long, or that a full disk does not take, is done without.
    """

    def __init__(self, cache: Path | None, root: Path) -> None:
        self._lock = threading.RLock()
        self._depth, self._num_changes, self._begun = 0, 0, 0.0
        self._path: str | None = None
        if cache is not None:
            digest = hashlib.blake2b(os.fsencode(root), digest_size=16).hexdigest()
            self._path = str(cache / f"index-{VERSION}" / f"{digest}.sqlite")
        self._connection = self._opened()

    def close(self) -> None:
        """End the transaction and close the file."""
        self.commit()
        with self._lock:
            self._connection.close()

    def known(self, *, is_unsettled: bool = False) -> list[tuple[str, str, int, str, float]]:
        """Place, signature, whether that is settled, id and creation of every run with a row.

        Or only of those that are not settled.
        """
        where = "where not is_settled" * is_unsettled
        return self._all(f"select {_KNOWN} from runs {where}", ()) or []

    def get(self, place: str, signature: str) -> RunRow | None:
        """The row of a run whose files have this signature; None where there is none."""
        found = self._all(_ONE, (place, signature)) or ()
        return next((decoded_row(packed) for (packed,) in found), None)

    def row(self, place: str) -> RunRow | None:
        """The row of a run, of whichever files; None where there is none."""
        found = self._all("select row from runs where place = ?", (place,)) or ()
        return next((decoded_row(packed) for (packed,) in found), None)

    def has(self, place: str) -> bool:
        """Whether there is a row of a run, of whichever files."""
        return bool(self._all("select 1 from runs where place = ?", (place,)))

    def metrics(self, place: str) -> RunMetrics | None:
        """The series of a run that does not carry them itself; None where nobody read them."""
        for (packed,) in self._all("select metrics from runs where place = ?", (place,)) or ():
            return None if packed is None else _decode_metrics(packed)
        return None

    def answers(self, asked: str) -> dict[str, bytes]:
        """By place, what was found in runs under the name of a metric, encoded."""
        text = "select place, answer from answers join runs using (place, signature)"
        return dict(self._all(f"{text} where asked = ?", (asked,)) or ())

    def put_answer(self, place: str, asked: str, signature: str, answer: Answer) -> bytes:
        """Keep what was found in files with a signature; returns it encoded."""
        last = None if answer.summary is None else answer.summary.last
        text, packed = "insert or replace into answers values (?, ?, ?, ?, ?)", pack(answer)
        self._change(text, (asked, place, signature, last, packed))
        return packed

    def rows(
        self, condition: q.Filter | None = None
    ) -> Iterator[tuple[str, str, int, str, float, bytes]]:
        """What is ``known`` of runs, and their packed rows: at least those that a query selects."""
        where, values = ("1", ()) if condition is None else _narrowed(condition)
        text = f"select {_KNOWN}, row from runs where {{}}"
        found = self._all(text.format(where), values)
        if found is None:  # an SQLite without JSON cannot narrow
            found = self._all(text.format("1"), ())
        yield from found or ()

    def count(self, *, is_unsettled: bool = False) -> int:
        """How many runs there are, or how many of them are not settled."""
        where = "where not is_settled" * is_unsettled
        return sum(num for (num,) in self._all(f"select count(*) from runs {where}", ()) or ())

    def projects(self) -> list[str]:
        return [name for (name,) in self._all("select distinct project from runs", ()) or ()]

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Have rows that are put meanwhile written together, some at a time."""
        with self._lock:
            self._depth += 1
        try:
            yield
        finally:
            with self._lock:
                self._depth -= 1
            self.commit()

    def put(
        self,
        place: str,
        row: RunRow,
        metrics: RunMetrics | None,
        *,
        signature: str,
        is_settled: bool,
    ) -> bool:
        """Keep a row, and say whether it is kept; ``metrics`` is None where the run has them."""
        try:
            config = msgspec.json.encode(row.config).decode("utf-8", "replace")
            numbers = msgspec.json.encode(_numbers_of(row)).decode("utf-8", "replace")
            values = (place, signature, is_settled, row.id, row.created, row.project)
            packed = None if metrics is None else pack(metrics)
            names = (row.name, row.owner, row.group, config, numbers)
            return self._change(_PUT, (*values, *names, pack(row), packed))
        except (RecursionError, OverflowError, UnicodeEncodeError):
            return False

    def forget(self, places: Collection[str]) -> None:
        """Remove the rows of runs that are gone."""
        with self.batch():
            for place in places:
                self._change("delete from runs where place = ?", (place,))
            if places:
                self._change("delete from answers where place not in (select place from runs)", ())

    def commit(self) -> None:
        """End the transaction: other processes see and write rows."""
        with self._lock:
            if not self._num_changes:
                return
            try:
                self._connection.commit()
            except sqlite3.Error as error:
                self._recover(error)
            self._num_changes = 0

    def _change(self, text: str, values: tuple[Any, ...]) -> bool:
        with self._lock:
            try:
                self._connection.execute(text, values)
            except (sqlite3.Error, UnicodeEncodeError) as error:
                self._recover(error)
                return False
            self._begun = self._begun if self._num_changes else time.monotonic()
            self._num_changes += 1
            is_old = time.monotonic() > self._begun + _COMMIT_S
            if self._num_changes >= _ROWS_AT_ONCE or is_old or not self._depth:
                self.commit()
            return True

    def _all(self, text: str, values: tuple[Any, ...]) -> list[Any] | None:
        """The answer to a query; None where the file cannot give one."""
        with self._lock:
            try:
                return self._connection.execute(text, values).fetchall()
            except (sqlite3.Error, UnicodeEncodeError) as error:
                self._recover(error)
                return None

    def _recover(self, error: Exception) -> None:
        """Replace a damaged file; another error, such as a lock or a full disk, leaves it."""
        if type(error) is sqlite3.DatabaseError and self._path is not None:
            self._connection = self._opened(is_damaged=True)

    def _opened(self, *, is_damaged: bool = False) -> sqlite3.Connection:
        if self._path is not None:
            try:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                if is_damaged:
                    os.replace(self._path, f"{self._path}.damaged")
                if folder_has_locks(os.path.dirname(self._path)):
                    return _connect(self._path)
            except (sqlite3.Error, OSError) as error:
                # A file that is no database raises the base class.
                if type(error) is sqlite3.DatabaseError and not is_damaged:
                    return self._opened(is_damaged=True)
        self._path = None
        return _connect(":memory:")


class _Connection(sqlite3.Connection):
    """Closes itself: nobody has to close a store that only reads, but Python 3.13 warns."""

    def __del__(self) -> None:
        self.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, check_same_thread=False, factory=_Connection
    )
    # Rollback journal: readers on other machines may share the cache folder. Nobody waits for the
    # disk: what a power cut damages is made anew.
    connection.execute("pragma synchronous = off")
    connection.executescript(_SCHEMA)
    _check_after_boot(connection)
    connection.commit()
    return connection


def _check_after_boot(connection: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` for a file that a power cut has damaged.

    SQLite itself does not notice all of it: a row may be there twice, or not be found. So every
    page is read when a machine first opens the file after it has started.
    """
    try:
        boot = _BOOT.read_text(encoding="ascii")
    except OSError:  # no Linux
        return
    connection.execute("create table if not exists boots (id text primary key)")
    if connection.execute("select 1 from boots where id = ?", (boot,)).fetchone() is not None:
        return
    (problem,) = connection.execute("pragma integrity_check(1)").fetchone()
    if problem != "ok":
        raise sqlite3.DatabaseError(problem)
    connection.execute("insert or ignore into boots values (?)", (boot,))


def _narrowed(condition: q.Filter) -> tuple[str, tuple[Any, ...]]:
    """An SQL condition that is true of every row that a query selects, and its values."""
    if isinstance(condition, q.Junction):
        parts = [_narrowed(operand) for operand in condition.operands]
        return f" {condition.word} ".join(f"({text})" for text, _ in parts), tuple(
            value for _, values in parts for value in values
        )
    if not isinstance(condition, q.Comparison) or not isinstance(condition.left, q.Field):
        return "1", ()
    operator, constant = _SQL_OPERATORS.get(condition.operator), condition.right
    if operator is None or not isinstance(constant, q.Constant):
        return "1", ()
    path, value = condition.left.path, constant.value
    if len(path) == 1 and path[0] in _TEXT_COLUMNS and isinstance(value, str):
        return f"{_TEXT_COLUMNS[path[0]]} {operator} ?", (value,)
    if len(path) == 2 and path[0] == "config" and _is_plain(path[1]) and _is_exact(value):
        # A key that SQL does not find is left to the evaluator.
        found = f"json_extract(config, '$.\"{path[1]}\"')"
        return f"{found} is null or {found} {operator} ?", (value,)
    # ``summary.loss.last`` and ``summary.loss`` are ``loss``; other statistics are not compared.
    name = ".".join(path[path[0] == "summary" :]).removesuffix(".last")
    if path[0] not in ("config", "best") and _is_plain(name) and isinstance(value, (int, float)):
        found = f"json_extract(numbers, '$.\"{name}\"')"
        same = "place = runs.place and signature = runs.signature and asked = ?"
        asked = f"select 1 from answers where {same} and not value {operator} ?"
        known = f"{found} is null and not exists ({asked})"
        return f"({known}) or {found} {operator} ?", (name, value, value)
    return "1", ()


def _numbers_of(row: RunRow) -> dict[str, float]:
    """The last values of the headline by name and by role, for SQL to compare.

    A name that the program set, or that is no number, is left to the evaluator.
    """
    found: dict[str, float] = {}
    for one in row.headline[::-1]:
        is_set = bool(row.summary) and dig(row.summary, one.name.split(".")) is not NOT_THERE
        if one.axis == "step" and one.last is not None and not is_set:
            found |= {one.role or one.name: one.last, one.name: one.last}
    if row.summary:
        return {n: v for n, v in found.items() if dig(row.summary, n.split(".")) is NOT_THERE}
    return found


def _is_plain(name: str) -> bool:
    return not set(name) & set("\"'\\") and name.isprintable()


def _is_exact(value: Any) -> bool:
    """Whether SQL compares a value as Python does."""
    return isinstance(value, (str, float)) or (type(value) is int and abs(value) < 2**53)
