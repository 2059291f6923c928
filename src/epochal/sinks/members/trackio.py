"""Trackio, into its local database; ``trackio sync`` sends that on to a Space.

Trackio's own ``log`` notes the time of the call and cannot be told that a row was sent before. Its
storage, which its importers use, takes both: rows keep their time, and a row's place in the journal
is its id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from epochal.media.files import TABLE
from epochal.sinks.keys import histogram_bins, keyed_scalars
from epochal.sinks.sink import NUMBERS, Entry, Sink, SinkContext, SinkOptions, option, require

_TELEMETRY = frozenset({"gpu", "system"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackioOptions(SinkOptions):
    """A run in Trackio's own folder (``TRACKIO_DIR``)."""

    trackio_project: str | None = option("the project; default: the run's project")
    trackio_name: str | None = option("the name of the Trackio run; default: the run's name")


class TrackioSink(Sink):
    """Writes rows, histograms, texts and tables; telemetry goes where Trackio keeps its own."""

    name = "trackio"
    summary = "Rows, histograms, texts and tables in Trackio's local database."
    options = TrackioOptions
    extra = "trackio"
    holds = (*NUMBERS, "histogram", "text", "option", f"blob:{TABLE}")

    _context: SinkContext

    def __init__(self) -> None:
        self._trackio: Any = None
        self._storage: Any = None
        self._project = ""
        self._name = ""
        self._run_id = ""
        self._config: dict[str, Any] = {}
        self._has_new_config = True
        self._rows: list[tuple[Entry, dict[str, Any]]] = []
        self._telemetry: list[tuple[Entry, dict[str, Any]]] = []

    def open(self, context: SinkContext) -> bool:
        """Find Trackio's database."""
        options: TrackioOptions = context.options
        self._context = context
        self._trackio = require("trackio", self)
        self._storage = require("trackio.sqlite_storage", self).SQLiteStorage
        self._project = options.trackio_project or context.fact("project", "epochal")
        self._name = options.trackio_name or context.fact("name", context.folder.path.name)
        self._run_id = context.fact("id", self._name)
        self._config = {
            **(context.state.get("config") or context.config),
            "_Created": datetime.fromtimestamp(context.created, timezone.utc).isoformat(),
        }
        return True

    def write(self, entry: Entry) -> None:
        """Collect the record's row."""
        if entry.kind == "option":
            self._config[str(entry.record.get("name"))] = entry.record.get("value")
            self._has_new_config = True
        elif row := self._row(entry):
            (self._telemetry if entry.kind in _TELEMETRY else self._rows).append((entry, row))

    def flush(self) -> dict[str, Any]:
        """Store the collected rows, all of a table at once; project, run and configuration."""
        rows, self._rows = self._rows, []
        telemetry, self._telemetry = self._telemetry, []
        if rows:
            config = self._config if self._has_new_config else None
            steps = [entry.step for entry, _ in rows]
            self._storage.bulk_log(**self._columns(rows), steps=steps, config=config)
            self._has_new_config = False
        if telemetry:
            self._storage.bulk_log_system(**self._columns(telemetry))
        return self._state()

    def close(self, status: str | None) -> dict[str, Any]:
        """Nothing is open."""
        return self._state() if self._storage is not None else {}

    def _state(self) -> dict[str, Any]:
        config = {name: value for name, value in self._config.items() if name != "_Created"}
        return {"project": self._project, "run_id": self._run_id, "config": config}

    def _columns(self, rows: Sequence[tuple[Entry, dict[str, Any]]]) -> dict[str, Any]:
        """Rows of one of Trackio's tables, column by column."""
        times = [datetime.fromtimestamp(entry.t, timezone.utc).isoformat() for entry, _ in rows]
        return {
            "project": self._project,
            "run": self._name,
            "run_id": self._run_id,
            "metrics_list": [metrics for _, metrics in rows],
            "timestamps": times,
            "log_ids": [f"{self._run_id}.{entry.position}" for entry, _ in rows],
        }

    def _row(self, entry: Entry) -> dict[str, Any]:
        name = str(entry.record.get("name"))
        if entry.kind == "text":
            markdown = self._trackio.Markdown(str(entry.record.get("text", "")))
            return {name: markdown._to_dict()}
        if entry.kind == "histogram":
            histogram = self._trackio.Histogram(np_histogram=histogram_bins(entry.record))
            return {name: histogram._to_dict()}
        if entry.kind == "blob":
            table = json.loads(self._context.file(entry.record).read_bytes())
            rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
            return {name: {"_type": self._trackio.Table.TYPE, "_value": rows}}
        return dict(keyed_scalars(entry))
