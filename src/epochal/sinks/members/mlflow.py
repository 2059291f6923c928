"""MLflow, through its own client: any tracking server, file or database that it can write to."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from epochal.sinks.keys import keyed_scalars
from epochal.sinks.sink import NUMBERS, Entry, Sink, SinkContext, SinkOptions, option, require
from epochal.values import flat_items

# The server refuses more in one call, and longer values.
_METRICS_PER_CALL, _PARAMS_PER_CALL = 1000, 100
_PARAM_CHARACTERS = 500
_NAME_CHARACTERS = 250
_ID_TAG = "epochal.run_id"
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")
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
    holds = (*NUMBERS, "histogram", "text", "option", "graph", "blob:*")

    _context: SinkContext

    def __init__(self) -> None:
        self._mlflow: Any = None
        self._client: Any = None
        self._run_id = ""
        self._params: dict[str, str] = {}
        self._collected: list[Any] = []

    def open(self, context: SinkContext) -> bool:
        """Create the MLflow run, or go on with it."""
        options: MlflowOptions = context.options
        self._mlflow = require("mlflow", self)
        self._context = context
        self._client = self._mlflow.MlflowClient(tracking_uri=options.mlflow_tracking_uri)
        run = self._found(context) or self._created(context)
        self._run_id = run.info.run_id
        self._params = dict(run.data.params)
        self._log_config(dict(flat_items(context.config)))
        if run.info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        return True

    def write(self, entry: Entry) -> None:
        """Collect numbers, log everything else."""
        if entry.kind == "text":
            self._log_text(entry, str(entry.record.get("text", "")), "texts", "txt")
        elif entry.kind == "graph":
            self._log_text(entry, str(entry.record.get("svg", "")), "graphs", "svg")
        elif entry.kind == "blob":
            self._log_blob(entry)
        elif entry.kind == "option":
            self._log_config({str(entry.record.get("name")): entry.record.get("value")})
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

    def _found(self, context: SinkContext) -> Any:
        """The run that was created before: by its id, else by ours in its tags."""
        if known := context.state.get("run_id"):
            return self._client.get_run(known)
        experiment = self._client.get_experiment_by_name(_experiment(context))
        own_id = context.identity.get("id")
        if experiment is None or not own_id:
            return None
        query = f"tags.`{_ID_TAG}` = '{own_id}'"
        runs = self._client.search_runs([experiment.experiment_id], query, max_results=1)
        return runs[0] if runs else None

    def _created(self, context: SinkContext) -> Any:
        name = _experiment(context)
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            experiment_id = self._client.create_experiment(name)
        else:
            experiment_id = experiment.experiment_id
        options: MlflowOptions = context.options
        return self._client.create_run(
            experiment_id,
            start_time=int(context.created * 1000) or None,
            run_name=options.mlflow_name or context.fact("name", context.folder.path.name),
            tags={_ID_TAG: context.fact("id", ""), **_tags(context)},
        )

    def _log_config(self, config: Mapping[str, Any]) -> None:
        """Parameters never change in MLflow: what did change becomes a tag."""
        fresh: list[Any] = []
        for key, value in config.items():
            name, text = _name(key), _param_text(value)
            if name not in self._params:
                fresh.append(self._mlflow.entities.Param(name, text))
                self._params[name] = text
            elif self._params[name] != text:
                self._client.set_tag(self._run_id, f"config.{name}", text)
        for start in range(0, len(fresh), _PARAMS_PER_CALL):
            chunk = fresh[start : start + _PARAMS_PER_CALL]
            self._client.log_batch(self._run_id, params=chunk)

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
            yield self._mlflow.entities.Metric(_name(name), float(value), moment_ms, entry.step)

    def _log_text(self, entry: Entry, text: str, folder: str, suffix: str) -> None:
        file = f"{folder}/{_name(str(entry.record.get('name')))}/{entry.step:08d}.{suffix}"
        self._client.log_text(self._run_id, text, file)

    def _log_blob(self, entry: Entry) -> None:
        path = self._context.file(entry.record)
        folder = f"blobs/{_name(str(entry.record.get('name')))}/{entry.step:08d}"
        self._client.log_artifact(self._run_id, str(path), folder)


def _experiment(context: SinkContext) -> str:
    options: MlflowOptions = context.options
    return options.mlflow_experiment or context.fact("project", "epochal")


def _tags(context: SinkContext) -> dict[str, str]:
    tags = {str(tag): "true" for tag in context.identity.get("tags") or ()}
    notes = context.identity.get("notes")
    return {**tags, "mlflow.note.content": notes} if isinstance(notes, str) else tags


def _name(name: str) -> str:
    """A name as MLflow takes them; one that had to be changed much ends in a digest of it."""
    plain = posixpath.normpath(_NOT_IN_NAMES.sub("_", name)).strip("/.") or "_"
    if len(plain) <= _NAME_CHARACTERS:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: _NAME_CHARACTERS - 9]}-{digest}"


def _param_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:_PARAM_CHARACTERS]
