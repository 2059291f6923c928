"""Trackio, into its local database; ``trackio sync`` sends that on to a Space.

Trackio's own ``log`` notes the time of the call and cannot be told that a row was sent before. Its
storage, which its importers use, takes both: rows keep their time, and a row's place in the journal
is its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from epochal.exchange.imports.values import OWN_PREFIX, SUMMARY_PREFIX
from epochal.exchange.sinks.keys import histogram_bins, keyed_scalars, sample_name
from epochal.exchange.sinks.sink import (
    NUMBERS,
    Entry,
    Sink,
    SinkContext,
    SinkOptions,
    option,
    require,
)
from epochal.journal.blobs import TABLE

_TELEMETRY = frozenset({"gpu", "system"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackioOptions(SinkOptions):
    """A run in Trackio's own folder (``TRACKIO_DIR``)."""

    trackio_project: str | None = option("the project; default: the run's project")
    trackio_name: str | None = option("the name of the Trackio run; default: the run's name")


class TrackioSink(Sink):
    """Writes rows and samples; telemetry goes where Trackio keeps its own."""

    name = "trackio"
    summary = "Rows, histograms, texts, media and tables in Trackio's local database."
    options = TrackioOptions
    extra = "trackio"
    holds = (
        *(*NUMBERS, "histogram", "text", "option", "summary", "event:alert", f"blob:{TABLE}"),
        *("blob:image/*", "blob:audio/wav", "blob:audio/mpeg", "blob:text/html"),
        *("blob:video/mp4", "blob:video/webm"),
    )

    _context: SinkContext

    def __init__(self) -> None:
        self._trackio: Any = None
        self._storage: Any = None
        self._project = ""
        self._name = ""
        self._run_id = ""
        self._config: dict[str, Any] = {}
        self._has_new_config = True
        # An option or a summary came that no row has taken along.
        self._has_late_config = False
        self._last: dict[str, Any] = {}
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
        self._config |= _labels(context.identity)
        self._last = {"step": 0, "t": context.created, **(context.state.get("last") or {})}
        return True

    def write(self, entry: Entry) -> None:
        if entry.kind == "event":
            self._storage.bulk_alert(**self._alert(entry))
        elif entry.kind == "summary":
            name = f"{SUMMARY_PREFIX}{entry.record.get('name')}"
            self._config[name] = entry.record.get("value")
            if entry.record.get("deleted"):
                del self._config[name]
            self._has_new_config = self._has_late_config = True
        elif entry.kind == "option":
            self._config[str(entry.record.get("name"))] = entry.record.get("value")
            self._has_new_config = self._has_late_config = True
        elif row := self._row(entry):
            (self._telemetry if entry.kind in _TELEMETRY else self._rows).append((entry, row))

    def flush(self) -> dict[str, Any]:
        """Store the collected rows, all of a table at once; project, run and configuration."""
        rows, self._rows = self._rows, []
        telemetry, self._telemetry = self._telemetry, []
        if rows:
            self._last = {"step": rows[-1][0].step, "t": rows[-1][0].t}
            config = self._config if self._has_new_config else None
            steps = [entry.step for entry, _ in rows]
            self._storage.bulk_log(**self._columns(rows), steps=steps, config=config)
            self._has_new_config = self._has_late_config = False
        elif self._has_late_config:
            self._store_config()
            self._has_late_config = False
        if telemetry:
            self._storage.bulk_log_system(**self._columns(telemetry))
        return self._state()

    def close(self, status: str | None) -> dict[str, Any]:
        """Nothing is open."""
        return self._state() if self._storage is not None else {}

    def _store_config(self) -> None:
        """Store the configuration, for which Trackio needs a row: an empty one, once."""
        moment = datetime.fromtimestamp(self._last["t"], timezone.utc).isoformat()
        self._storage.bulk_log(
            project=self._project,
            run=self._name,
            run_id=self._run_id,
            metrics_list=[{}],
            timestamps=[moment],
            log_ids=[f"{self._run_id}.config"],
            steps=[self._last["step"]],
            config=self._config,
        )

    def _state(self) -> dict[str, Any]:
        config = {name: value for name, value in self._config.items() if name != "_Created"}
        place = {"project": self._project, "run_id": self._run_id}
        return {**place, "config": config, "last": self._last}

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

    def _alert(self, entry: Entry) -> dict[str, Any]:
        record, row = entry.record, self._columns([(entry, {})])
        level = str(record.get("level") or "info").lower()
        return {
            **{key: row[key] for key in ("project", "run", "run_id", "timestamps")},
            "titles": [str(record.get("title") or "")],
            "texts": [record.get("text")],
            "levels": [{"warning": "warn"}.get(level, level)],
            "steps": [entry.step],
            "alert_ids": row["log_ids"],
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
            return {sample_name(entry.record): self._sample(entry.record, entry)}
        return dict(keyed_scalars(entry))

    def _sample(self, record: Mapping[str, Any], entry: Entry) -> Any:
        """A sample as Trackio stores it; its file is copied into Trackio's folder."""
        media_type, path = str(record.get("media_type")), self._context.file(record)
        if media_type == TABLE:
            columns, rows = self._context.table(record, lambda cell: self._sample(cell, entry))
            named = [dict(zip(columns, row, strict=True)) for row in rows]
            return {"_type": self._trackio.Table.TYPE, "_value": named}
        if media_type == "text/html":
            media = self._trackio.Html(path, inject=False, caption=record.get("caption"))
        else:
            is_video = media_type.startswith("video/") or media_type == "image/gif"
            kind = "Video" if is_video else media_type.partition("/")[0].capitalize()
            media = getattr(self._trackio, kind)(str(path), caption=record.get("caption"))
        media._save(self._project, self._name, entry.step)
        return media._to_dict()


def _labels(identity: Mapping[str, Any]) -> dict[str, Any]:
    """A run's labels as Trackio's configuration has them; the group under Trackio's own name."""
    found = {f"{OWN_PREFIX}{label}": identity.get(label) for label in ("job_type", "tags", "notes")}
    found["_Group"] = identity.get("group")
    return {name: value for name, value in found.items() if value}
