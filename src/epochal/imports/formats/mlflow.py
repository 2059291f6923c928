"""MLflow's SQLite files (``mlflow.db``): experiments are projects, runs are runs.

Parameters become the configuration, tags stay facts, metrics keep step and time. Artifacts become
samples and files. MLflow stores an infinity as the largest float and nan as 0 with a flag; both
are turned back.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import unquote

from epochal.errors import EpochalError, FormatError
from epochal.format import format_bytes
from epochal.imports.foreign import (
    BATCH_RECORDS,
    Batch,
    FileRun,
    FileSignature,
    Identity,
    Problems,
    RecordList,
    batches_of,
)
from epochal.imports.sqlite_file import SqliteFile, SqliteFiles
from epochal.imports.values import json_safe, json_value, unix_seconds
from epochal.journal.line import encode_json
from epochal.journal.regular_file import read_regular
from epochal.journal.search_bounds import SearchBounds
from epochal.media.files import PLOTLY, TABLE, blob_record, media_type_of_name
from epochal.records import Record

ORDER = 30
_MAX_ARTIFACT_BYTES = 128 * 1024 * 1024
# How MLflow names the pictures of steps; its small copies of them are left out.
_SAMPLE_FILE = re.compile(
    r"(?:[^/]+/)?(?P<key>[^/]+)[+%]step[+%](?P<step>\d+)[+%]timestamp[+%](?P<ms>\d+)[+%][^/]*"
)
_SMALL_COPY = ("+compressed.webp", "%compressed.webp")
_TABLE_IMAGES = "table_images/"
_FINISH = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "terminated"}
_NAMES = ("mlflow.db", "mlruns.db")
_RUNS = """
SELECT run_uuid, runs.name, status, start_time, end_time, experiments.name, runs.artifact_uri
FROM runs LEFT JOIN experiments USING (experiment_id)
WHERE runs.lifecycle_stage = 'active' ORDER BY start_time, run_uuid
"""
_COLUMNS = ("name", "status", "start", "end", "experiment", "artifacts")
_METRICS = """
SELECT rowid, key, value, is_nan, step, timestamp FROM metrics
WHERE run_uuid = ? AND rowid > ? ORDER BY rowid
"""


class MlflowRun(FileRun):
    """One run of the database."""

    def __init__(self, file: SqliteFile, key: str) -> None:
        self._file = file
        self._row: Mapping[str, Any] = {}
        super().__init__(file.path, key)

    def rewind(self) -> None:
        """Begin at the first row again."""
        super().rewind()
        self._last_row = 0
        self._has_finished = False
        self._seen: set[str] = set()
        # Parameters and tags may be added while a run goes on.
        self._identity: Identity | None = None
        self._identified: object = None

    def learn(self, row: Mapping[str, Any], /) -> None:
        """Take the row of the run."""
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
        pairs: dict[str, dict[str, Any]] = {"params": {}, "tags": {}}
        try:
            with self._file.opened() as connection:
                for table, found in pairs.items():
                    statement = f"SELECT key, value FROM {table} WHERE run_uuid = ?"
                    found.update((str(k), v) for k, v in connection.execute(statement, (self.key,)))
        except (FormatError, OSError) as error:
            self._said.say_once(str(error))
        return identity_of(
            self.key,
            name=self._row.get("name"),
            experiment=self._row.get("experiment"),
            start=self._row.get("start"),
            **pairs,
            facts={"source": str(self.path)},
        )

    def read_new(self) -> Iterator[Batch]:
        """Metrics and artifacts that were added since; the end of the run once it has ended."""
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
            self._said.say_once(
                f"{self.path} is damaged after row {self._last_row} of its metrics: {error}"
            )
            return
        yield from batches_of(self._artifacts(latest))
        record = finish_record(self._row.get("status"), end=self._row.get("end"), latest=latest)
        if record is not None and not self._has_finished:
            self._has_finished = True
            yield Batch([record])

    def _artifacts(self, t: float) -> Iterator[Record]:
        """The files in MLflow's folder of the run, which its database names."""
        root = Path(unquote(str(self._row.get("artifacts") or "").removeprefix("file://")))
        # Only a folder of MLflow's own layout: a database must not have any folder copied.
        if root.parts[-2:] != (self.key, "artifacts") or not root.is_dir():
            return
        place = root.resolve()
        listed = sorted(path for path in place.rglob("*") if path.is_file())
        files = {
            path.relative_to(place).as_posix(): path
            for path in listed
            if path.resolve().is_relative_to(place)
        }
        artifacts = ArtifactReader(
            {file: path.stat().st_size for file, path in files.items()},
            lambda file: read_regular(files[file]),
            self._blobs,
            self._said,
        )
        new = files.keys() - self._seen
        self._seen |= new
        yield from artifacts.records(sorted(new), t)


class MlflowFile(SqliteFiles[MlflowRun]):
    """An MLflow database, or the one in a folder."""

    label = "MLflow"
    tables: ClassVar = {
        "experiments": {"experiment_id", "name"},
        "runs": {"run_uuid", "status", "experiment_id", "lifecycle_stage", "artifact_uri"},
        "metrics": {"key", "value", "run_uuid", "step", "is_nan"},
        "params": {"key", "value", "run_uuid"},
        "tags": {"key", "value", "run_uuid"},
    }
    run_type = MlflowRun

    def __init__(self, path: Path, bounds: SearchBounds | None = None) -> None:
        named = (bounds or SearchBounds(path)).chosen(path / name for name in _NAMES)
        super().__init__(next((file for file in named if file.is_file()), path), bounds)

    def listed(self) -> Iterator[tuple[tuple[SqliteFile, str], Mapping[str, Any]]]:
        """Every run that is not deleted."""
        for file in self.files():
            with file.opened() as connection:
                rows = connection.execute(_RUNS).fetchall()
            for key, *row in rows:
                yield (file, str(key)), dict(zip(_COLUMNS, row, strict=True))


find = MlflowFile.find


# What MLflow's words mean in ours, in a database and from a server.


class ArtifactReader:
    """Makes records of the artifacts of a run.

    A file that MLflow named by key, step and time is a sample, and so is a table. Any other is a
    file that the user kept. ``sizes`` has the size of each, and ``read`` returns its bytes.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        read: Callable[[str], bytes],
        blobs: dict[str, Path | bytes],
        problems: Problems,
    ) -> None:
        self._sizes = sizes
        self._read = read
        self._blobs = blobs
        self._problems = problems

    def records(self, files: Iterable[str], t: float) -> Iterator[Record]:
        """The records of some of the files; ``t`` is the time of those that have none."""
        for file in files:
            if not file.startswith(_TABLE_IMAGES) and not file.endswith(_SMALL_COPY):
                record = self._record(file, t)
                if record is not None:
                    yield record

    def _record(self, file: str, t: float) -> Record | None:
        data = self._content(file)
        if data is None:
            return None
        named = _SAMPLE_FILE.fullmatch(file)
        media_type = media_type_of_name(file)
        if named is None:
            if (table := self._table(file, data)) is not None:
                return self._kept(file.rpartition(".")[0], table, t=t, step=0, media_type=TABLE)
            return {**self._kept(file, data, t=t, step=0, media_type=media_type), "log": "file"}
        name, step, t = named["key"].replace("#", "/"), int(named["step"]), int(named["ms"]) / 1000
        if file.startswith("texts/"):
            markdown = {"format": "markdown"} if file.endswith(".md") else {}
            text = data.decode(errors="replace")
            return {"log": "text", "t": t, "step": step, "name": name, "text": text, **markdown}
        if (table := self._table(file, data)) is not None:
            return self._kept(name, table, t=t, step=step, media_type=TABLE)
        media_type = PLOTLY if file.endswith(".plotly.json") else media_type
        return self._kept(name, data, t=t, step=step, media_type=media_type)

    def _kept(self, name: str, data: Any, *, t: float, step: int, media_type: str) -> Record:
        files: dict[str, None] = {}
        if media_type == TABLE:
            rows = [[self._cell(cell, files) for cell in row] for row in data["data"]]
            data = encode_json({"columns": [str(c) for c in data["columns"]], "data": rows})
        record = blob_record(name, data, t=t, step=step, media_type=media_type)
        self._blobs[record["file"]] = data
        return {**record, "files": list(files)} if files else record

    def _table(self, file: str, data: bytes) -> Mapping[str, Any] | None:
        """A table as ``log_table`` stores it; None for any other file."""
        if not file.endswith(".json") or b'"columns"' not in data:
            return None
        try:
            found = json_value(data)
        except (ValueError, RecursionError):
            return None
        rows = found.get("data") if isinstance(found, dict) else None
        is_table = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
        is_table = is_table and isinstance(found.get("columns"), list)  # type: ignore[attr-defined]
        return cast("Mapping[str, Any]", found) if is_table else None

    def _cell(self, cell: Any, files: dict[str, None]) -> Any:
        path = cell.get("filepath") if isinstance(cell, dict) else None
        data = self._content(path) if isinstance(path, str) and path in self._sizes else None
        if data is None:
            return json_safe(cell)
        kept = self._kept("", data, t=0.0, step=0, media_type=media_type_of_name(str(path)))
        files[kept["file"]] = None
        return {key: kept[key] for key in ("file", "media_type", "bytes")}

    def _content(self, file: str) -> bytes | None:
        size = self._sizes.get(file) or 0
        if size > _MAX_ARTIFACT_BYTES:
            self._problems.say_once(
                f"the artifact {file} is not imported: it has {format_bytes(size)}, and"
                f" {format_bytes(_MAX_ARTIFACT_BYTES)} is the limit."
            )
            return None
        try:
            return self._read(file)
        except (OSError, EpochalError) as error:
            self._problems.say_once(f"the artifact {file} is not imported: {error}")
            return None


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
    t = unix_seconds(end) or latest
    return None if finish is None else {"log": "finish", "t": t, "status": finish}


def restored(value: Any) -> float:
    """A value as it was logged: MLflow's databases keep infinities as the largest floats."""
    number = float(value)
    return math.copysign(math.inf, number) if abs(number) >= sys.float_info.max else number


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
