"""Weights & Biases, through its own package.

The number of a W&B row only increases, while a run may log steps in any order and resume from an
earlier one. So the sink counts the rows itself. The step is a value of the row
(``trainer/global_step``), and charts use it as their axis.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from epochal.format import format_bytes
from epochal.media.files import TABLE
from epochal.sinks.keys import allocator_prefix, histogram_bins, keyed_scalars, segments_of
from epochal.sinks.sink import NUMBERS, Entry, Sink, SinkContext, SinkOptions, option, require
from epochal.values import as_float

STEP = "trainer/global_step"
_EPOCH = "epoch"
_ALERT_LEVELS = {"warning": "WARN", "warn": "WARN", "error": "ERROR"}
# The allocator's memory as a pie chart, in pixels.
_SIZE, _RADIUS, _LINE = 240, 110, 22
_COLOURS = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2"),
    *("#edc948", "#b07aa1", "#9c755f", "#ff9da7", "#bab0ac"),
)
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
    wandb_dir: str | None = option("the folder of W&B's files; default: W&B's own", is_path=True)


class WandbSink(Sink):
    """Sends rows, texts, histograms, media, tables and the allocation pie to one W&B run.

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
        *(f"blob:{TABLE}", "blob:text/html"),
    )

    _context: SinkContext

    def __init__(self) -> None:
        self._wandb: Any = None
        self._run: Any = None
        self._rows = 0

    def open(self, context: SinkContext) -> bool:
        """Start the W&B run, or go on with it."""
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
        if entry.kind in _FACTS:
            _FACTS[entry.kind](self, entry.record)
            return
        row = _ROWS.get(entry.kind, WandbSink._scalars)(self, entry)
        if row:
            row |= {STEP: entry.step, "_timestamp": entry.t}
            self._run.log(row, step=self._rows, commit=True)
            self._rows += 1

    def may_pass(self, error: Exception) -> bool:
        """Whether W&B may accept the record later."""
        return super().may_pass(error) or isinstance(error, self._wandb.errors.CommError)

    def flush(self) -> dict[str, Any]:
        """The id of the W&B run, and how many rows it was given."""
        url = None if self._run.offline else self._run.url
        return {"id": self._run.id, "rows": self._rows, "url": url}

    def close(self, status: str | None) -> dict[str, Any]:
        """Finish the W&B run; W&B first sends its queue."""
        if self._run is None:
            # A start that failed keeps the run's id taken in this process.
            if self._wandb is not None:
                self._wandb.teardown(exit_code=1)
            return {}
        state = self.flush()
        run, self._run = self._run, None
        run.finish(exit_code=0 if status in (None, "finished") else 1)
        return state

    def _configure(self, record: Mapping[str, Any]) -> None:
        values = {str(record.get("name")): record.get("value")}
        self._run.config.update(values, allow_val_change=True)

    def _define(self, record: Mapping[str, Any]) -> None:
        x = record.get("x")
        if isinstance(x, str) and x != "step":
            self._run.define_metric(x)
            self._run.define_metric(str(record.get("name")), step_metric=x)

    def _alert(self, record: Mapping[str, Any]) -> None:
        level = _ALERT_LEVELS.get(str(record.get("level")).lower(), "INFO")
        title, text = (str(record.get(name) or "") for name in ("title", "text"))
        self._run.alert(title=title, text=text, level=self._wandb.AlertLevel[level])

    def _set_summary(self, record: Mapping[str, Any]) -> None:
        name = str(record.get("name"))
        if not record.get("deleted"):
            self._run.summary[name] = record.get("value")
        elif name in self._run.summary.keys():  # noqa: SIM118 (W&B's summary is no mapping)
            del self._run.summary[name]

    def _scalars(self, entry: Entry) -> dict[str, Any]:
        row: dict[str, Any] = dict(keyed_scalars(entry))
        if row and entry.kind == "epoch":
            for name in row:
                self._run.define_metric(name, step_metric=_EPOCH)
            row[_EPOCH] = entry.record.get(_EPOCH)
        return row

    def _histogram(self, entry: Entry) -> dict[str, Any]:
        histogram = self._wandb.Histogram(np_histogram=histogram_bins(entry.record))
        return {str(entry.record.get("name")): histogram}

    def _text(self, entry: Entry) -> dict[str, Any]:
        text = html.escape(str(entry.record.get("text", "")))
        return {str(entry.record.get("name")): self._html(f"<pre>{text}</pre>")}

    def _file(self, entry: Entry) -> dict[str, Any]:
        path, caption = self._context.file(entry.record), entry.record.get("caption")
        media_type = str(entry.record.get("media_type", ""))
        if media_type == TABLE:
            value = self._wandb.Table(**json.loads(path.read_bytes()), allow_mixed_types=True)
        elif media_type in ("text/html", "image/svg+xml"):
            value = self._html(path.read_text(encoding="utf-8"))
        elif media_type.startswith("audio/"):
            value = self._wandb.Audio(str(path), caption=caption)
        elif media_type.startswith("video/") or media_type == "image/gif":
            value = self._wandb.Video(str(path), caption=caption)
        elif importlib.util.find_spec("PIL") is None:
            # W&B's own type opens the image with Pillow, which it does not bring along.
            data = base64.b64encode(path.read_bytes()).decode()
            value = self._html(f'<img src="data:{media_type};base64,{data}">')
        else:
            value = self._wandb.Image(str(path), caption=caption)
        return {str(entry.record.get("name")): value}

    def _graph(self, entry: Entry) -> dict[str, Any]:
        return {str(entry.record.get("name")): self._html(str(entry.record.get("svg")))}

    def _allocator(self, entry: Entry) -> dict[str, Any]:
        prefix = allocator_prefix(entry.record)
        sizes = {
            name: as_float(item.get("device") or 0) for name, item in segments_of(entry.record)
        }
        table = self._wandb.Table(columns=["segment", "MiB"])
        for name, value in keyed_scalars(entry).items():
            table.add_data(name.removeprefix(prefix).removesuffix("_mib"), value)
        pie = self._html(pie_svg("GPU memory by segment", sizes))
        return {f"{prefix}pie": pie, f"{prefix}table": table}

    def _html(self, text: str) -> Any:
        return self._wandb.Html(text, inject=False)


_ROWS: Mapping[str, Callable[[WandbSink, Entry], dict[str, Any]]] = {
    "histogram": WandbSink._histogram,
    "text": WandbSink._text,
    "blob": WandbSink._file,
    "graph": WandbSink._graph,
    "allocator": WandbSink._allocator,
}
_FACTS: Mapping[str, Callable[[WandbSink, Mapping[str, Any]], None]] = {
    "option": WandbSink._configure,
    "define": WandbSink._define,
    "event": WandbSink._alert,
    "summary": WandbSink._set_summary,
}


def _settings(wandb: Any) -> Any:
    """Settings that keep W&B from recording and printing on its own, as far as it knows them."""
    known = getattr(wandb.Settings, "model_fields", _QUIET)
    return wandb.Settings(**{name: value for name, value in _QUIET.items() if name in known})


def pie_svg(title: str, sizes: Mapping[str, float]) -> str:
    """A slice for each size in bytes that is not 0, the largest first, with a legend."""
    shown = sorted(((s, n) for n, s in sizes.items() if s > 0), reverse=True)
    total = math.fsum(size for size, _ in shown)
    height = max(_SIZE, _LINE * (len(shown) + 1)) + _LINE
    drawn: list[str] = []
    begin = 0.0
    for (size, name), colour in zip(shown, itertools.cycle(_COLOURS), strict=False):
        share, y = 100 * size / total, _LINE * (len(drawn) + 2)
        words = f"{html.escape(name)} {format_bytes(size)}"
        # A slice is a dash on a circle whose line is as wide as the circle.
        drawn.append(
            f'<circle cx="{_SIZE / 2}" cy="{_SIZE / 2 + _LINE}" r="{_RADIUS / 2}" fill="none"'
            f' stroke="{colour}" stroke-width="{_RADIUS}" pathLength="100"'
            f' stroke-dasharray="{share:.3f} {100 - share:.3f}"'
            f' stroke-dashoffset="{25 - begin:.3f}"><title>{words}</title></circle>'
            f'<rect x="{_SIZE}" y="{y - 11}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{_SIZE + 18}" y="{y}">{words}</text>'
        )
        begin += share
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE * 2} {height}"'
        ' font-family="sans-serif" font-size="13">'
        f'<text x="8" y="16" font-weight="bold">{html.escape(title)}</text>'
        f"{''.join(drawn)}</svg>"
    )
