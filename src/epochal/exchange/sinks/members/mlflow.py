"""MLflow, through its own client: any tracking server, file or database that it can write to."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.exchange.imports.values import OWN_PREFIX, SUMMARY_PREFIX
from epochal.exchange.sinks.keys import keyed_scalars, path_name, sample_name
from epochal.exchange.sinks.sink import (
    NUMBERS,
    Entry,
    NotHeldError,
    Sink,
    SinkContext,
    SinkOptions,
    option,
    require,
)
from epochal.journal.blobs import TABLE
from epochal.records.values import flat_items

# The server refuses more in one call, and longer values.
_METRICS_PER_CALL, _PARAMS_PER_CALL = 1000, 100
_PARAM_CHARACTERS = 500
_NAME_BYTES = 250
_ID_TAG = f"{OWN_PREFIX}run_id"
_TAG_CHARACTERS = 5000
_HISTOGRAM_FIGURES = ("min", "max", "mean", "std")
_STATUSES = {"finished": "FINISHED", "failed": "FAILED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowOptions(SinkOptions):
    """An MLflow run in a store."""

    mlflow_tracking_uri: str | None = option(
        "a server, folder or database, as MLflow writes it; default: `MLFLOW_TRACKING_URI`"
    )
    mlflow_experiment: str | None = option("the experiment; default: the run's project")
    mlflow_name: str | None = option("the name of the MLflow run; default: the run's name")


class MlflowSink(Sink):
    """Logs numbers in batches, configuration as parameters, texts and files as artifacts.

    MLflow has no histograms: their least, largest and mean value and deviation are logged. A value
    that is sent again is the same row of its table.
    """

    name = "mlflow"
    summary = "An MLflow run: metrics, parameters, and all texts and files as artifacts."
    options = MlflowOptions
    extra = "mlflow"
    holds = (*NUMBERS, "histogram", "text", "option", "summary", "graph", "blob:*", "file:*")

    _context: SinkContext

    def __init__(self) -> None:
        self._mlflow: Any = None
        self._client: Any = None
        self._run_id = ""
        self._params: dict[str, str] = {}
        self._collected: list[Any] = []

    def open(self, context: SinkContext) -> bool:
        options: MlflowOptions = context.options
        self._mlflow = require("mlflow", self)
        self._context = context
        self._client = self._mlflow.MlflowClient(tracking_uri=options.mlflow_tracking_uri)
        run = self._found_or_created(context)
        self._run_id = run.info.run_id
        self._params = dict(run.data.params)
        self._log_config(dict(flat_items(context.config)))
        if run.info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        return True

    def write(self, entry: Entry) -> None:
        """Collect numbers, log everything else."""
        record, kind = entry.record, entry.kind
        if kind == "text":
            file = _sample_file(entry, "texts", "md" if record.get("format") else "txt")
            self._client.log_text(self._run_id, str(record.get("text", "")), file)
        elif kind == "graph":
            file = _sample_file(entry, "graphs", "svg")
            self._client.log_text(self._run_id, str(record.get("svg", "")), file)
        elif kind == "file":
            self._upload(self._context.file(record), path_name(str(record.get("name"))))
        elif record.get("media_type") == TABLE:
            self._log_table(entry)
        elif kind == "blob":
            path = self._context.file(record)
            folder = str(record.get("media_type")).partition("/")[0]
            folder = "images" if folder == "image" else folder
            self._upload(path, _sample_file(entry, folder, path.name.partition(".")[2]))
        elif kind == "summary":
            self._set_summary(record)
        elif kind == "option":
            self._log_config({str(record.get("name")): record.get("value")})
        else:
            self._collected += self._metrics(entry)

    def may_pass(self, error: Exception) -> bool:
        """Whether the server may accept the record later: it did not answer, or not with 4xx."""
        status = getattr(error, "get_http_status_code", None)
        return super().may_pass(error) or (status is not None and status() >= 500)

    def flush(self) -> dict[str, Any]:
        """Log the collected numbers; the id of the MLflow run."""
        metrics, self._collected = self._collected, []
        for start in range(0, len(metrics), _METRICS_PER_CALL):
            chunk = metrics[start : start + _METRICS_PER_CALL]
            self._client.log_batch(self._run_id, metrics=chunk)
        return {"run_id": self._run_id}

    def close(self, status: str | None) -> dict[str, Any]:
        """End the MLflow run, where it is known how it ended."""
        if self._client is None or not self._run_id:
            return {}
        if status is not None:
            self._client.set_terminated(self._run_id, status=_STATUSES.get(status, "KILLED"))
        self._client = None
        return {"run_id": self._run_id}

    def _found_or_created(self, context: SinkContext) -> Any:
        """The run that was created before, by its id or by ours in its tags; else a new one."""
        if known := context.state.get("run_id"):
            return self._client.get_run(known)
        options: MlflowOptions = context.options
        name = options.mlflow_experiment or context.fact("project", "epochal")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment and experiment.experiment_id
        experiment_id = experiment_id or self._client.create_experiment(name)
        if own_id := context.fact("id", ""):
            query = f"tags.`{_ID_TAG}` = '{own_id}'"
            for run in self._client.search_runs([experiment_id], query, max_results=1):
                return run
        tags = {str(tag): "true" for tag in context.identity.get("tags") or ()}
        if notes := context.fact("notes", ""):
            tags["mlflow.note.content"] = notes
        for label in ("group", "job_type"):
            if text := context.fact(label, ""):
                tags[f"{OWN_PREFIX}{label}"] = text
        return self._client.create_run(
            experiment_id,
            start_time=int(context.created * 1000) or None,
            run_name=options.mlflow_name or context.fact("name", context.folder.path.name),
            tags={_ID_TAG: own_id, **tags},
        )

    def _log_config(self, config: Mapping[str, Any]) -> None:
        """Parameters never change in MLflow: what did change becomes a tag."""
        fresh: list[Any] = []
        for key, value in config.items():
            text = value if isinstance(value, str) else json.dumps(value)
            name, text = path_name(key, limit=_NAME_BYTES), text[:_PARAM_CHARACTERS]
            if name not in self._params:
                fresh.append(self._mlflow.entities.Param(name, text))
                self._params[name] = text
            elif self._params[name] != text:
                self._client.set_tag(self._run_id, f"config.{name}", text)
        for start in range(0, len(fresh), _PARAMS_PER_CALL):
            chunk = fresh[start : start + _PARAMS_PER_CALL]
            self._client.log_batch(self._run_id, params=chunk)

    def _set_summary(self, record: Mapping[str, Any]) -> None:
        """Set a value of the summary, which may be a text and may change, as a tag in JSON."""
        name = path_name(f"{SUMMARY_PREFIX}{record.get('name')}", limit=_NAME_BYTES)
        if record.get("deleted"):
            if name in self._client.get_run(self._run_id).data.tags:
                self._client.delete_tag(self._run_id, name)
            return
        text = json.dumps(record.get("value"))
        if len(text) > _TAG_CHARACTERS:
            raise NotHeldError(f"MLflow's tags have at most {_TAG_CHARACTERS} characters.")
        self._client.set_tag(self._run_id, name, text)

    def _metrics(self, entry: Entry) -> Iterator[Any]:
        if entry.kind == "histogram":
            values = {
                f"{entry.record.get('name')}/{figure}": entry.record[figure]
                for figure in _HISTOGRAM_FIGURES
                if isinstance(entry.record.get(figure), (int, float))
            }
        else:
            values = keyed_scalars(entry)
        for name, value in values.items():
            moment_ms = int(entry.t * 1000)
            yield self._mlflow.entities.Metric(
                path_name(name, limit=_NAME_BYTES), float(value), moment_ms, entry.step
            )

    def _log_table(self, entry: Entry) -> None:
        """A table as MLflow's ``log_table`` stores it; pictures in cells are files of their own."""
        folder = f"table_images/{path_name(str(entry.record.get('name')))}"

        def cell(sample: Mapping[str, Any]) -> dict[str, Any]:
            path = self._context.file(sample)
            file = f"{folder}/{path.name}"
            self._upload(path, file)
            return {"type": "image", "filepath": file, "compressed_filepath": file}

        columns, rows = self._context.table(entry.record, cell)
        file = _sample_file(entry, "tables", "json")
        self._client.log_dict(self._run_id, {"columns": columns, "data": rows}, file)

    def _upload(self, path: Path, file: str) -> None:
        """Store a file under another name, which MLflow takes from the file itself."""
        folder, _, name = file.rpartition("/")
        with tempfile.TemporaryDirectory() as temporary:
            copy = shutil.copyfile(path, Path(temporary, name))
            self._client.log_artifact(self._run_id, str(copy), folder or None)


def _sample_file(entry: Entry, folder: str, suffix: str) -> str:
    """The path of a sample, in the form in which MLflow itself stores the pictures of steps."""
    key = path_name(sample_name(entry.record), limit=120).replace("/", "#")
    digest = hashlib.sha256(str(entry.position).encode()).hexdigest()[:8]
    return f"{folder}/{key}+step+{entry.step}+timestamp+{int(entry.t * 1000)}+{digest}.{suffix}"
