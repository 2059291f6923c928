"""MLflow's SQLite files (``mlflow.db``): experiments are projects, runs are runs.

Parameters become the configuration, tags stay facts, metrics keep step and time. MLflow stores an
infinity as the largest float and nan as 0 with a flag; both are turned back.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError
from epochal.imports.foreign import (
    BATCH_RECORDS,
    Batch,
    FileSignature,
    Identity,
    Problems,
    RecordList,
)
from epochal.imports.sqlite_file import SqliteFile, is_sqlite
from epochal.imports.values import unix_seconds
from epochal.journal.search_bounds import SearchBounds
from epochal.records import Record

ORDER = 30
_FINISH = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "terminated"}
_NAMES = ("mlflow.db", "mlruns.db")
_TABLES = {
    "experiments": {"experiment_id", "name"},
    "runs": {"run_uuid", "status", "start_time", "end_time", "experiment_id", "lifecycle_stage"},
    "metrics": {"key", "value", "timestamp", "run_uuid", "step", "is_nan"},
    "params": {"key", "value", "run_uuid"},
    "tags": {"key", "value", "run_uuid"},
}
_RUNS = """
SELECT run_uuid, runs.name, status, start_time, end_time, experiments.name
FROM runs LEFT JOIN experiments USING (experiment_id)
WHERE runs.lifecycle_stage = 'active' ORDER BY start_time, run_uuid
"""
_METRICS = """
SELECT rowid, key, value, is_nan, step, timestamp FROM metrics
WHERE run_uuid = ? AND rowid > ? ORDER BY rowid
"""


def find(path: Path, bounds: SearchBounds | None = None) -> MlflowFile | None:
    """The runs of an MLflow database, or of the one in a folder; None when it is not one."""
    if path.is_dir():
        named = (bounds or SearchBounds(path)).chosen(path / name for name in _NAMES)
        path = next((file for file in named if file.is_file()), path)
    if not is_sqlite(path):
        return None
    tables = SqliteFile(path).tables()
    is_ours = all(columns <= tables.get(name, set()) for name, columns in _TABLES.items())
    return MlflowFile(path) if is_ours else None


class MlflowFile:
    """An MLflow database."""

    label = "MLflow"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SqliteFile(path)
        self._runs: dict[str, MlflowRun] = {}

    def runs(self) -> Sequence[MlflowRun]:
        """Every run that is not deleted; raises ``FormatError``."""
        with self._file.opened() as connection:
            rows = connection.execute(_RUNS).fetchall()
        known: dict[str, MlflowRun] = {}
        for key, name, status, start, end, experiment in rows:
            run = self._runs.get(str(key)) or MlflowRun(self._file, str(key))
            run.learn(name=name, status=status, start=start, end=end, experiment=experiment)
            known[str(key)] = run
        self._runs = known
        return list(known.values())


class MlflowRun:
    """One run of the database."""

    def __init__(self, file: SqliteFile, key: str) -> None:
        self.key = key
        self.path = file.path
        self._file = file
        self._row: dict[str, Any] = {}
        self.rewind()

    def rewind(self) -> None:
        """Begin at the first row again."""
        self._last_row = 0
        self._has_finished = False
        self.problems = Problems(self.path)
        # Parameters and tags may be added while a run goes on.
        self._identity: Identity | None = None
        self._identified: object = None

    def learn(self, **row: Any) -> None:
        """Read the row of the run again."""
        self._row = row

    def signature(self) -> FileSignature:
        """Size and time of the database, and the run's status."""
        return (*self._file.signature(), (f"status {self._row.get('status')}", 0, 0))

    @property
    def identity(self) -> Identity:
        """Names from the tables of runs and experiments, parameters and tags."""
        seen = self.signature()
        if self._identity is None or self._identified != seen:
            self._identity, self._identified = self._read_identity(), seen
        return self._identity

    def _read_identity(self) -> Identity:
        parameters: dict[str, Any] = {}
        tags: dict[str, Any] = {}
        try:
            with self._file.opened() as connection:
                parameters = _pairs(connection, "params", self.key)
                tags = _pairs(connection, "tags", self.key)
        except (FormatError, OSError) as error:
            self.problems.say_once(str(error))
        return identity_of(
            self.key,
            name=self._row.get("name"),
            experiment=self._row.get("experiment"),
            start=self._row.get("start"),
            params=parameters,
            tags=tags,
            facts={"source": str(self.path)},
        )

    def read_new(self) -> Iterator[Batch]:
        """Metrics that were added since, and the end of the run once it has ended."""
        latest = unix_seconds(self._row.get("start")) or 0.0
        try:
            with self._file.opened() as connection:
                cursor = connection.execute(_METRICS, (self.key, self._last_row))
                while rows := cursor.fetchmany(BATCH_RECORDS):
                    records = RecordList()
                    for row, name, value, is_nan, step, t in rows:
                        number = math.nan if is_nan else restored(value)
                        records.add_point(str(name), number, step=int(step), t=t / 1000)
                        latest = max(latest, t / 1000)
                        self._last_row = int(row)
                    yield Batch(records)
        except (FormatError, OSError, TypeError, ValueError, OverflowError) as error:
            self.problems.say_once(
                f"{self.path} is damaged after row {self._last_row} of its metrics: {error}"
            )
            return
        record = finish_record(self._row.get("status"), end=self._row.get("end"), latest=latest)
        if record is not None and not self._has_finished:
            self._has_finished = True
            yield Batch([record])

    def blob(self, file: str) -> bytes:
        """There are none: artifacts lie outside the database."""
        raise KeyError(file)


def _pairs(connection: sqlite3.Connection, table: str, run: str) -> dict[str, Any]:
    statements: Mapping[str, str] = {
        "params": "SELECT key, value FROM params WHERE run_uuid = ?",
        "tags": "SELECT key, value FROM tags WHERE run_uuid = ?",
    }
    return {str(key): value for key, value in connection.execute(statements[table], (run,))}


# What MLflow's words mean in ours, in a database and from a server.


def identity_of(
    run_id: str,
    *,
    name: Any,
    experiment: Any,
    start: Any,
    params: Mapping[str, Any],
    tags: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Identity:
    """A run with its parameters as configuration; MLflow's own tags are facts."""
    own = {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
    return Identity(
        id=run_id,
        name=str(name or tags.get("mlflow.runName") or run_id),
        project=str(experiment or "mlflow"),
        created=unix_seconds(start),
        config={key: _number_or_text(value) for key, value in params.items()},
        tags=tuple(f"{key}={value}" if value else key for key, value in own.items()),
        notes=tags.get("mlflow.note.content"),
        facts={**facts, "mlflow_tags": dict(tags)},
    )


def finish_record(status: Any, *, end: Any, latest: float) -> Record | None:
    """The end of a run; None while it goes on."""
    finish = _FINISH.get(str(status))
    return None if finish is None else _finish(finish, unix_seconds(end) or latest)


def restored(value: Any) -> float:
    """A value as it was logged: MLflow's databases keep infinities as the largest floats."""
    number = float(value)
    return math.copysign(math.inf, number) if abs(number) >= sys.float_info.max else number


def _finish(status: str, t: float) -> Record:
    return {"log": "finish", "t": t, "status": status}


def _number_or_text(value: Any) -> Any:
    """A parameter, which MLflow keeps as text, as what it was."""
    if value in ("True", "False"):
        return value == "True"
    for kind in (int, float):
        try:
            number = kind(value)
        except (TypeError, ValueError):
            continue
        return number if abs(number) < 2**63 else value
    return value
