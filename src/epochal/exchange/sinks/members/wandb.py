"""Weights & Biases, through its own package.

The number of a W&B row only increases, while a run may log steps in any order and resume from an
earlier one. So the sink counts the rows itself. The step is a value of the row
(``trainer/global_step``), and charts use it as their axis.
"""

from __future__ import annotations

import base64
import glob
import html
import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.exchange.sinks.keys import (
    SampleLists,
    allocator_prefix,
    histogram_bins,
    keyed_scalars,
    path_name,
    plotly_figure,
    sample_name,
)
from epochal.exchange.sinks.sink import (
    NUMBERS,
    Entry,
    Sink,
    SinkContext,
    SinkOptions,
    option,
    require,
)
from epochal.journal.blobs import PLOTLY, TABLE

STEP = "trainer/global_step"
_EPOCH = "epoch"
_ALERT_LEVELS = {"warning": "WARN", "warn": "WARN", "error": "ERROR"}
_EDGES = {"x0": "minX", "y0": "minY", "x1": "maxX", "y1": "maxY"}
# Telemetry, console output and the machine's description are in the run already.
_QUIET = {
    "silent": True,
    "console": "off",
    "x_disable_stats": True,
    "x_disable_meta": True,
    "disable_git": True,
    "disable_code": True,
    # Without a network W&B would wait for a minute and a half; it is tried again anyway.
    "init_timeout": 30.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbOptions(SinkOptions):
    """Arguments of ``wandb.init``; its own settings apply to those that are not given."""

    wandb_project: str | None = option("the project; default: the run's project")
    wandb_name: str | None = option("the name of the W&B run; default: the run's name")
    wandb_entity: str | None = option("the user or team; default: W&B's own")
    wandb_mode: str | None = option(
        "`online`, `offline` or `disabled`; default: `WANDB_MODE`, else `online`"
    )
    wandb_dir: str | None = option(
        "the folder that has `wandb/`; default: `WANDB_DIR`, else the folder of the training",
        is_path=True,
    )


class WandbSink(Sink):
    """Sends rows, texts, histograms, media, tables and the allocator's memory to one W&B run.

    The run's id is kept, and a later sending goes on with the same W&B run. A row that is sent
    again has the number it had, and W&B ignores numbers that it is past.
    """

    name = "wandb"
    summary = "A W&B run: rows, texts, histograms, media, tables and the allocator's memory."
    options = WandbOptions
    extra = "wandb"
    holds = (
        *(*NUMBERS, "histogram", "text", "option", "define", "summary", "graph", "event:alert"),
        *("blob:image/*", "blob:audio/*", "blob:video/mp4", "blob:video/webm"),
        *(f"blob:{TABLE}", f"blob:{PLOTLY}", "blob:text/html", "file:*"),
    )

    _context: SinkContext

    def __init__(self) -> None:
        self._wandb: Any = None
        self._run: Any = None
        self._rows = 0
        self._lists = SampleLists(self._log)

    def open(self, context: SinkContext) -> bool:
        options: WandbOptions = context.options
        self._wandb = require("wandb", self)
        self._context = context
        self._rows = int(context.state.get("rows") or 0)
        self._run = self._wandb.init(
            project=options.wandb_project or context.fact("project", "epochal"),
            name=options.wandb_name or context.fact("name", context.folder.path.name),
            entity=options.wandb_entity,
            mode=options.wandb_mode,
            dir=options.wandb_dir,
            id=context.state.get("id") or context.identity.get("id"),
            resume="allow",
            config=context.config,
            allow_val_change=True,
            group=context.identity.get("group"),
            job_type=context.identity.get("job_type"),
            tags=list(context.identity.get("tags") or ()) or None,
            notes=context.identity.get("notes"),
            settings=_settings(self._wandb),
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)
        return True

    def write(self, entry: Entry) -> None:
        """Send a row for a record that has anything to show."""
        row = getattr(self, f"_on_{entry.kind}", self._on_numbers)(entry)
        self._lists.add(entry, row or {})

    def _log(self, entry: Entry, row: dict[str, Any]) -> None:
        row |= {STEP: entry.step, "_timestamp": entry.t}
        self._run.log(row, step=self._rows, commit=True)
        self._rows += 1

    def may_pass(self, error: Exception) -> bool:
        return super().may_pass(error) or isinstance(error, self._wandb.errors.CommError)

    def flush(self) -> dict[str, Any]:
        """Send the last row; the id of the W&B run, and how many rows it was given."""
        self._lists.flush()
        url = None if self._run.offline else self._run.url
        return {"id": self._run.id, "rows": self._rows, "url": url}

    def close(self, status: str | None) -> dict[str, Any]:
        """Finish the W&B run; W&B first sends its queue."""
        if self._run is None:
            # A start that failed keeps the run's id taken in this process.
            if self._wandb is not None:
                self._wandb.teardown(exit_code=1)
            return {}
        self._lists = SampleLists(self._log)  # what was not flushed is sent again
        state = self.flush()
        run, self._run = self._run, None
        run.finish(exit_code=0 if status in (None, "finished") else 1)
        return state

    def _on_option(self, entry: Entry) -> None:
        values = {str(entry.record.get("name")): entry.record.get("value")}
        self._run.config.update(values, allow_val_change=True)

    def _on_define(self, entry: Entry) -> None:
        x = entry.record.get("x")
        if isinstance(x, str) and x != "step":
            self._run.define_metric(x)
            self._run.define_metric(str(entry.record.get("name")), step_metric=x)

    def _on_event(self, entry: Entry) -> None:
        level = _ALERT_LEVELS.get(str(entry.record.get("level")).lower(), "INFO")
        title, text = (str(entry.record.get(name) or "") for name in ("title", "text"))
        self._run.alert(title=title, text=text, level=self._wandb.AlertLevel[level])

    def _on_summary(self, entry: Entry) -> None:
        name = str(entry.record.get("name"))
        if not entry.record.get("deleted"):
            self._run.summary[name] = entry.record.get("value")
        elif name in self._run.summary.keys():  # noqa: SIM118 (W&B's summary is no mapping)
            del self._run.summary[name]

    def _on_numbers(self, entry: Entry) -> dict[str, Any]:
        row: dict[str, Any] = dict(keyed_scalars(entry))
        if row and entry.kind == "epoch":
            for name in row:
                self._run.define_metric(name, step_metric=_EPOCH)
            row[_EPOCH] = entry.record.get(_EPOCH)
        return row

    def _on_histogram(self, entry: Entry) -> dict[str, Any]:
        histogram = self._wandb.Histogram(np_histogram=histogram_bins(entry.record))
        return {str(entry.record.get("name")): histogram}

    def _on_text(self, entry: Entry) -> dict[str, Any]:
        text = html.escape(str(entry.record.get("text", "")))
        name = path_name(str(entry.record.get("name")))
        return {name: self._html(f"<pre>{text}</pre>")}

    def _on_blob(self, entry: Entry) -> dict[str, Any]:
        value = self._value(entry.record)
        # W&B has lists of pictures; its other lists need packages, or cannot be shown.
        is_picture = isinstance(value, self._wandb.Image)
        name = entry.record.get("name") if is_picture else sample_name(entry.record)
        return {path_name(str(name)): value}

    def _value(self, record: Mapping[str, Any]) -> Any:
        """A sample as W&B's type for it."""
        path, caption = self._context.file(record), record.get("caption")
        media_type = str(record.get("media_type", ""))
        if media_type == TABLE:
            return self._table(record)
        if media_type == PLOTLY:
            return self._wandb.Plotly(plotly_figure(path))
        if media_type in ("text/html", "image/svg+xml"):
            return self._html(path.read_text(encoding="utf-8"))
        if media_type.startswith("audio/"):
            return self._wandb.Audio(str(path), caption=caption)
        if media_type.startswith("video/") or media_type == "image/gif":
            return self._wandb.Video(str(path), caption=caption)
        if importlib.util.find_spec("PIL") is None:
            # W&B's own type opens the image with Pillow, which it does not bring along.
            data = base64.b64encode(path.read_bytes()).decode()
            return self._html(f'<img src="data:{media_type};base64,{data}">')
        masks = {mask["group"]: self._mask(mask) for mask in record.get("masks") or ()}
        boxes = _boxes(record.get("boxes") or ())
        return self._wandb.Image(str(path), caption=caption, boxes=boxes, masks=masks or None)

    def _mask(self, mask: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np
        from PIL import Image

        labels = {int(number): str(label) for number, label in mask["labels"].items()}
        with Image.open(self._context.file(mask)) as opened:
            data = np.array(opened)
        return {"mask_data": data, **({"class_labels": labels} if labels else {})}

    def _table(self, record: Mapping[str, Any]) -> Any:
        """A table, as a chart where W&B has one like it."""
        from epochal.exchange.imports.media import CHARTS  # it needs NumPy

        columns, rows = self._context.table(record, self._value)
        table = self._wandb.Table(columns=columns, data=rows, allow_mixed_types=True)
        drawn: Mapping[str, str] = record.get("chart") or {}
        for kind, chart, names in CHARTS:
            if kind == drawn.get("kind"):
                fields = {theirs: drawn.get(own) for own, theirs in names.items()}
                title = {"title": drawn.get("title", "")}
                return self._wandb.plot_table(chart, table, fields, title)
        return table

    def _on_file(self, entry: Entry) -> None:
        """Copy a file of the user's into the folder whose files W&B keeps."""
        target = Path(self._run.dir, path_name(str(entry.record.get("name"))))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._context.file(entry.record), target)
        self._run.save(glob.escape(str(target)), base_path=self._run.dir, policy="now")

    def _on_graph(self, entry: Entry) -> dict[str, Any]:
        name = path_name(str(entry.record.get("name")))
        return {name: self._html(str(entry.record.get("svg")))}

    def _on_allocator(self, entry: Entry) -> dict[str, Any]:
        prefix = allocator_prefix(entry.record)
        rows = [
            [name.removeprefix(prefix).removesuffix("_mib"), value]
            for name, value in keyed_scalars(entry).items()
        ]
        table = self._wandb.Table(columns=["segment", "MiB"], data=rows)
        chart = self._wandb.plot.bar(table, "segment", "MiB", title="GPU memory by segment")
        return {f"{prefix}memory": chart}

    def _html(self, text: str) -> Any:
        return self._wandb.Html(text, inject=False)


def _boxes(boxes: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Boxes as W&B takes them: by group, with a number for each label."""
    groups: dict[str, dict[str, Any]] = {}
    for box in boxes:
        group = groups.setdefault(str(box.get("group", "boxes")), {"box_data": [], "labels": {}})
        label, labels = str(box.get("label", "")), group["labels"]
        data = {"class_id": labels.setdefault(label, len(labels)), "box_caption": label}
        data["position"] = {theirs: box[own] for own, theirs in _EDGES.items()}
        if box.get("score") is not None:
            data["scores"] = {"score": box["score"]}
        group["box_data"].append(data)
    for group in groups.values():
        group["class_labels"] = {number: label for label, number in group.pop("labels").items()}
    return groups or None


def _settings(wandb: Any) -> Any:
    """Settings that keep W&B from recording and printing on its own, as far as it knows them."""
    known = getattr(wandb.Settings, "model_fields", _QUIET)
    return wandb.Settings(**{name: value for name, value in _QUIET.items() if name in known})
