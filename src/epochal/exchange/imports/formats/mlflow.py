"""MLflow's SQLite files (``mlflow.db``): experiments are projects, runs are runs.

Parameters become the configuration, tags stay facts, metrics keep step and time. Artifacts become
samples and files. MLflow stores an infinity as the largest float and nan as 0 with a flag; both
are turned back.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from epochal.errors import FormatError
from epochal.exchange.imports.foreign import (
    BATCH_RECORDS,
    Batch,
    FileRun,
    FileSignature,
    Identity,
    Problems,
    RecordList,
    batches_of,
)
from epochal.exchange.imports.media import MediaReader
from epochal.exchange.imports.sqlite_file import SqliteFile, SqliteFiles
from epochal.exchange.imports.values import (
    OWN_PREFIX,
    SUMMARY_PREFIX,
    SummaryReader,
    json_value,
    number_of_text,
    own_facts,
    unix_seconds,
)
from epochal.journal.blobs import TABLE
from epochal.journal.layout import SearchBounds
from epochal.records import Record
from epochal.records.format import format_bytes

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
        super().rewind()
        self._last_row = 0
        self._has_finished = False
        self._seen: set[str] = set()
        self._summary = SummaryReader()
        # Parameters and tags may be added while a run goes on.
        self._identity: Identity | None = None
        self._identified: object = None

    def learn(self, row: Mapping[str, Any], /) -> None:
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
            self._said.say(str(error))
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
            self._said.say(
                f"{self.path} is damaged after row {self._last_row} of its metrics: {error}"
            )
            return
        yield from batches_of(self._artifacts(latest))
        yield from batches_of(summary_records(self._summary, self.identity, latest))
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
        sizes = {
            path.relative_to(root).as_posix(): path.stat().st_size
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        new = [file for file in importable(sizes, self._said) if file not in self._seen]
        self._seen.update(new)
        yield from artifact_records(MediaReader(root, self._blobs), new, t)


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


def importable(sizes: Mapping[str, int], problems: Problems) -> Iterator[str]:
    """The artifacts that are not too large; the others are problems."""
    for file, size in sizes.items():
        if size <= _MAX_ARTIFACT_BYTES:
            yield file
        else:
            limit = format_bytes(_MAX_ARTIFACT_BYTES)
            problems.say(
                f"the artifact {file} is not imported: it has {format_bytes(size)}, and the limit"
                f" is {limit}."
            )


def artifact_records(media: MediaReader, files: Iterable[str], t: float) -> Iterator[Record]:
    """The records of artifacts; ``t`` is the time of those that have none.

    A file that MLflow named by key, step and time is a sample, and so is a table. Any other is a
    file that the user kept.
    """
    for file in files:
        if file.startswith(_TABLE_IMAGES) or file.endswith(_SMALL_COPY):
            continue
        at: Record = {"t": t, "step": 0}
        named = _SAMPLE_FILE.fullmatch(file)
        if named is not None:
            at = {"t": int(named["ms"]) / 1000, "step": int(named["step"])}
        name = file if named is None else named["key"].replace("#", "/")
        if named is not None and file.startswith("texts/"):
            yield media.text(name, file, at)
            continue
        kind = "plotly-file" if file.endswith(".plotly.json") else "file"
        kind = "table-file" if file.endswith(".json") and kind == "file" else kind
        for record in media.records(name, {"_type": kind, "path": file}, at):
            is_sample = named is not None or record.get("media_type") == TABLE
            is_kept = record["log"] == "blob" and not is_sample
            yield {**record, "log": "file"} if is_kept else record


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
    own = {k: v for k, v in tags.items() if not k.startswith(("mlflow.", OWN_PREFIX))}
    if f"{OWN_PREFIX}run_id" in tags:  # our sink gives each tag this value
        own = {key: "" if value == "true" else value for key, value in own.items()}
    return Identity(
        id=run_id,
        name=str(name or tags.get("mlflow.runName") or run_id),
        project=str(experiment or "mlflow"),
        created=unix_seconds(start),
        config={key: _number_or_text(value) for key, value in params.items()},
        tags=tuple(f"{key}={value}" if value else key for key, value in own.items()),
        notes=tags.get("mlflow.note.content"),
        facts={**facts, **own_facts(tags), "mlflow_tags": dict(tags)},
    )


def summary_records(reader: SummaryReader, identity: Identity, t: float) -> Iterator[Record]:
    """The values of the summary that our sink set as tags, in JSON."""
    named = {}
    for key, text in identity.facts["mlflow_tags"].items():
        if key.startswith(SUMMARY_PREFIX):
            try:
                named[key] = json_value(str(text))
            except (ValueError, RecursionError):
                named[key] = str(text)
    return reader.records(named, t)


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
    number = number_of_text(value)
    return number if number is not None and abs(number) < 2**63 else value
