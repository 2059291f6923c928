"""Trackio's SQLite files: one per project, rows of JSON.

Trackio keeps them as ``<project>.db`` in its own folder. Older files know runs by name only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import timezone
from typing import Any, ClassVar

from epochal.errors import FormatError
from epochal.exchange.imports.foreign import (
    Batch,
    FileRun,
    FileSignature,
    Identity,
    batches_of,
    stable_id,
)
from epochal.exchange.imports.media import MediaReader
from epochal.exchange.imports.sqlite_file import SqliteFile, SqliteFiles
from epochal.exchange.imports.values import (
    OWN_PREFIX,
    SummaryReader,
    iso_seconds,
    json_value,
    own_facts,
    sort_values,
)
from epochal.records import Record

ORDER = 40
_BATCH_ROWS = 8192

Take = Callable[[sqlite3.Row], Iterator[Record]]


class TrackioRun(FileRun):
    """One run of a database."""

    def __init__(self, file: SqliteFile, column: str, run_id: str) -> None:
        self._file = file
        self._column = column
        self._run_id = run_id
        super().__init__(file.path, f"{file.path.stem}/{run_id}")

    def rewind(self) -> None:
        super().rewind()
        self._last = dict.fromkeys(("metrics", "system_metrics", "alerts"), 0)
        self._latest = 0.0
        self._summary = SummaryReader()
        self._identity: Identity | None = None
        self._media = MediaReader(self.path.parent / "media", self._blobs)

    def learn(self, names: tuple[str, str], /) -> None:
        self._name, self._first = names

    def signature(self) -> FileSignature:
        return self._file.signature()

    @property
    def identity(self) -> Identity:
        """Names from the rows, the configuration from its table."""
        if self._identity is None:
            config = self._config()
            own = {name: value for name, value in config.items() if name.startswith("_")}
            has_id = self._column == "run_id"
            named = {n: config.pop(n) for n in list(config) if n.startswith(OWN_PREFIX)}
            tags, notes = (named.get(f"{OWN_PREFIX}{label}") for label in ("tags", "notes"))
            labels = own_facts({**named, f"{OWN_PREFIX}group": own.get("_Group")})
            self._identity = Identity(
                id=self._run_id if has_id else stable_id("trackio", self.path, self._run_id),
                name=self._name,
                project=self.path.stem,
                created=iso_seconds(str(own.get("_Created") or self._first), zone=timezone.utc),
                config={n: v for n, v in config.items() if not n.startswith("_")},
                tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
                notes=notes if isinstance(notes, str) else None,
                facts={"source": str(self.path), **labels, **({"trackio": own} if own else {})},
            )
        return self._identity

    def read_new(self) -> Iterator[Batch]:
        """Rows that were added since, of metrics, system metrics and alerts."""
        takers = {"metrics": self._metrics, "system_metrics": self._system, "alerts": self._alert}
        try:
            present = self._file.tables()
            for table, take in takers.items():
                if {self._column, "id", "timestamp"} <= present.get(table, set()):
                    yield from self._read_table(table, take)
            t = self._latest or self.identity.created or 0.0
            yield from batches_of(self._summary.records(self._config(), t))
        except (FormatError, OSError) as error:
            self._said.say(str(error))

    def _read_table(self, table: str, take: Take) -> Iterator[Batch]:
        statement = f"SELECT * FROM {table} WHERE {self._column} = ? AND id > ? ORDER BY id"
        with self._file.opened() as connection:
            connection.row_factory = sqlite3.Row
            cursor = connection.execute(statement, (self._run_id, self._last[table]))
            while rows := cursor.fetchmany(_BATCH_ROWS):
                records: list[Record] = []
                for row in rows:
                    try:
                        records += take(row)
                    except (ValueError, TypeError, RecursionError) as error:
                        self._said.say(
                            f"{self.path}: row {row['id']} of {table} is damaged: {error}."
                        )
                self._last[table] = int(rows[-1]["id"])
                self._latest = max(self._latest, _time(rows[-1]))
                if records:
                    yield Batch(records)

    def _metrics(self, row: sqlite3.Row) -> Iterator[Record]:
        at: Record = {"t": _time(row), "step": int(row["step"])}
        return self._media.row_records(_object(row["metrics"]), at)

    def _system(self, row: sqlite3.Row) -> Iterator[Record]:
        numbers = sort_values(_object(row["metrics"])).numbers
        named = {f"system/{name}": value for name, value in numbers.items()}
        if named:
            yield {"log": "system", "t": _time(row), "m": named}

    def _alert(self, row: sqlite3.Row) -> Iterator[Record]:
        names = {"title", "text", "level", "step"} & set(row.keys())
        given = {name: row[name] for name in sorted(names) if isinstance(row[name], (str, int))}
        yield {"log": "event", "t": _time(row), "name": "alert", **given}

    def _config(self) -> dict[str, Any]:
        try:
            if not {self._column, "config"} <= self._file.tables().get("configs", set()):
                return {}
            statement = f"SELECT config FROM configs WHERE {self._column} = ?"
            with self._file.opened() as connection:
                row = connection.execute(statement, (self._run_id,)).fetchone()
            return {} if row is None else dict(_object(row[0]))
        except (FormatError, OSError, ValueError, RecursionError) as error:
            self._said.say(f"{self.path}: the configuration of {self._name!r} is damaged: {error}")
            return {}


class TrackioFiles(SqliteFiles[TrackioRun]):
    """One database, or a folder of them."""

    label = "Trackio"
    patterns = ("*.db",)
    tables: ClassVar = {"metrics": {"id", "timestamp", "run_name", "step", "metrics"}}
    run_type = TrackioRun

    def listed(self) -> Iterator[tuple[tuple[SqliteFile, str, str], tuple[str, str]]]:
        """Every run of every project; raises ``FormatError``."""
        for file in self.files():
            column = "run_id" if "run_id" in file.tables()["metrics"] else "run_name"
            statement = (
                f"SELECT {column}, run_name, MIN(timestamp) FROM metrics"
                f" GROUP BY {column} ORDER BY 3"
            )
            with file.opened() as connection:
                rows = connection.execute(statement).fetchall()
            for run_id, name, first in rows:
                yield (file, column, str(run_id)), (str(name), str(first))


find = TrackioFiles.find


def _time(row: sqlite3.Row) -> float:
    return iso_seconds(str(row["timestamp"]), zone=timezone.utc) or 0.0


def _object(source: Any) -> Mapping[str, Any]:
    value = json_value(source if isinstance(source, (bytes, str)) else str(source))
    if isinstance(value, dict):
        return value
    raise ValueError("it holds no JSON object")
