"""The rows of runs in the table ``runs``: each hub stores those that it made, and all read them."""

from __future__ import annotations

import contextlib
import itertools
import math
import struct
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from epochal import query as q
from epochal.store.clickhouse.connection import literal
from epochal.store.clickhouse.database import Database
from epochal.store.clickhouse.rows import length, text, unpacked, whole
from epochal.store.clickhouse.schema import RUNS, one_of
from epochal.store.local.index import TEXT_COLUMNS, VERSION, IndexedRun, is_exact, narrowed
from epochal.store.packed import pack, packed_decoder
from epochal.store.row import RowDetails, StoredRow

_ROWS_AT_ONCE = 1024
_MOST_DETAILS = 20_000
# Before a text of the configuration: one without it is of another type.
_TEXT = "'"
_decode_row = packed_decoder(StoredRow).decode
_decode_details = packed_decoder(RowDetails).decode


class ClickHouseIndex:
    """The rows of runs that a version of Epochal made with some rules; see ``RowIndex``."""

    def __init__(self, database: Database, *, rules: str) -> None:
        self.notices: Counter[str] = Counter()
        self._database = database
        self._rules = f"{VERSION}-{rules}"
        self._where = f"rules = {literal(self._rules)}"
        self._lock = threading.RLock()
        self._depth = 0
        self._put: list[bytes] = []
        # The newest version of each row that is known here; an older one is out of date.
        self._versions: dict[str, int] = {}
        # The places of the last list in its order, and summaries that a query needed.
        self._listed: dict[str, int] = {}
        self._details: dict[str, tuple[int, bytes]] = {}

    def _query(self, columns: str, where: str, rest: str, types: str) -> Iterator[Any]:
        statement = (
            f"SELECT {columns} FROM {self._database.address.database}.{RUNS.name}"
            f" WHERE {self._where} AND ({where}) {rest} FORMAT RowBinary"
        )
        return unpacked(self._database.server.query(statement), types)

    def known(self) -> Iterator[IndexedRun]:
        """Every run of which there is a row."""
        newest = ", ".join(
            f"argMax({column}, version)"
            for column in ("signature", "own_id", "created", "length(details) > 0")
        )
        found = self._query(f"run, max(version), {newest}", "1", "GROUP BY run", "sQssdB")
        for run, version, signature, own_id, created, is_whole in found:
            self._versions[run.decode()] = version
            yield IndexedRun(
                run.decode(), signature.decode(), None, own_id.decode(), created, 1 + is_whole
            )

    def get(self, place: str, signature: str) -> tuple[StoredRow, RowDetails | None] | None:
        """The row of a run with this signature; None where there is none."""
        if place not in self._versions:
            return None  # no hub had a row of it when this one asked for all
        where = f"run = {literal(place)} AND signature = {literal(signature)}"
        newest = "ORDER BY length(details) > 0 DESC, version DESC LIMIT 1"
        for version, row, details in self._query("version, row, details", where, newest, "Qss"):
            self._versions[place] = max(version, self._versions.get(place, 0))
            return _decode_row(row), _decode_details(details) if details else None
        return None

    def details(self, place: str) -> RowDetails | None:
        """The summaries of a run; None where its row is partial.

        A query that needs them needs those of a whole list: they are read some hundreds at a time.
        """
        version = self._versions.get(place, 0)
        with self._lock:
            known = self._details.get(place)
            if known is None or known[0] < version:
                self._read_details(place)
                known = self._details.get(place)
        return _decode_details(known[1]) if known is not None and known[1] else None

    def _read_details(self, place: str) -> None:
        self.commit()
        at = self._listed.get(place, 0)
        behind = itertools.islice(self._listed, at, at + _ROWS_AT_ONCE)
        wanted = [place, *(one for one in behind if one not in self._details)]
        if len(self._details) > _MOST_DETAILS:
            self._details.clear()
        newest = "ORDER BY run, version DESC LIMIT 1 BY run"
        found = self._query("run, version, details", one_of("run", wanted), newest, "sQs")
        self._details.update((run.decode(), (version, said)) for run, version, said in found)

    def rows(self, condition: q.Condition | None = None) -> Iterator[tuple[str, StoredRow]]:
        """The places and rows of runs, at least those that a query selects, the newest first."""
        self.commit()
        where = "1" if condition is None else narrowed(condition, _compared)[0]
        order = "ORDER BY created DESC, run, version DESC LIMIT 1 BY run"
        found = self._query("run, version, row", where, order, "sQs")
        current = {
            run.decode(): row
            for run, version, row in found
            if version >= self._versions.get(run.decode(), 0)
        }
        self._listed = {place: number for number, place in enumerate(current)}
        return ((place, _decode_row(row)) for place, row in current.items())

    def projects(self) -> Sequence[str]:
        """The projects of all rows."""
        return [name.decode() for (name,) in self._query("DISTINCT project", "1", "", "s")]

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Have rows that are put meanwhile stored together."""
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
        stored: StoredRow,
        details: RowDetails | None,
        *,
        signature: str,
        stamp: str | None,
    ) -> bool:
        """Keep a row, and say whether it is kept."""
        assert stamp is None
        row, version = stored.row, time.time_ns()
        names = (row.project, row.name, row.owner or "", row.group or "")
        try:
            config = _columns_of(row.config)
            packed = pack(stored), b"" if details is None else pack(details)
            data = text(place) + text(self._rules) + whole(version) + text(signature)
            data += text(row.id) + _double(row.created or 0.0) + b"".join(map(text, names))
        except (RecursionError, OverflowError, UnicodeEncodeError):
            self.notices["a run whose configuration cannot be stored is not in the index."] += 1
            return False
        with self._lock:
            self._put.append(data + config + text(packed[0]) + text(packed[1]))
            self._versions[place] = version
            is_due = not self._depth or len(self._put) >= _ROWS_AT_ONCE
        if is_due:
            self.commit()
        return True

    def forget(self, places: Collection[str]) -> None:
        """Forget runs that are gone from here; other hubs may show them."""
        for place in places:
            self._versions.pop(place, None)

    def commit(self) -> None:
        """Store what was put."""
        with self._lock:
            rows, self._put = self._put, []
            if rows:
                table = f"{self._database.address.database}.{RUNS.name}"
                self._database.server.insert(table, RUNS.columns, b"".join(rows))

    def close(self) -> None:
        """Store what was put."""
        self.commit()


def _columns_of(config: Mapping[str, Any]) -> bytes:
    """The configuration as the arrays ``config_keys``, ``config_numbers`` and ``config_texts``."""
    keys = [key for key, value in config.items() if is_exact(value)]
    numbers = [math.nan if isinstance(config[key], str) else float(config[key]) for key in keys]
    texts = [_TEXT + config[key] if isinstance(config[key], str) else "" for key in keys]
    columns = (map(text, keys), map(_double, numbers), map(text, texts))
    return b"".join(length(len(keys)) + b"".join(column) for column in columns)


def _double(number: float) -> bytes:
    return struct.pack("<d", number)


def _compared(path: Sequence[str], operator: str, value: Any) -> tuple[str, tuple[Any, ...]] | None:
    if len(path) == 1 and path[0] in TEXT_COLUMNS and isinstance(value, str):
        return f"{TEXT_COLUMNS[path[0]]} {operator} {literal(value)}", ()
    if len(path) != 2 or path[0] != "config" or not is_exact(value):
        return None
    place = f"indexOf(config_keys, {literal(path[1])})"
    # A key that SQL does not find, or finds with another type, is left to the evaluator.
    if isinstance(value, str):
        kept = f"config_texts[{place}]"
        return f"{place} = 0 OR {kept} = '' OR {kept} {operator} {literal(_TEXT + value)}", ()
    kept = f"config_numbers[{place}]"
    return f"{place} = 0 OR isNaN({kept}) OR {kept} {operator} {float(value)!r}", ()
