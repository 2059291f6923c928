"""Turns the media of W&B and Trackio into samples: pictures, sounds, videos, pages and tables."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from epochal.exchange.imports.histogram import histogram_record
from epochal.exchange.imports.values import json_safe, json_value, plain_number, sort_values
from epochal.journal.blobs import PLOTLY, TABLE, blob_record, files_of, media_type_of_name
from epochal.journal.line import encode_json
from epochal.journal.regular_file import read_regular
from epochal.records import Record

# Kinds of charts, the names of W&B's charts, and how W&B calls what our charts name.
CHARTS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("line", "wandb/line/v0", {"x": "x", "y": "y", "color": "stroke"}),
    ("scatter", "wandb/scatter/v0", {"x": "x", "y": "y"}),
    ("bar", "wandb/bar/v0", {"x": "label", "y": "value"}),
    ("histogram", "wandb/histogram/v0", {"x": "value"}),
    (
        "matrix",
        "wandb/confusion_matrix/v1",
        {"x": "Predicted", "y": "Actual", "value": "nPredictions"},
    ),
    ("line", "wandb/area-under-curve/v0", {"x": "x", "y": "y", "color": "class"}),
    ("line", "wandb/lineseries/v0", {"x": "step", "y": "lineVal", "color": "lineKey"}),
)
_TYPES = {"table-file": TABLE, "plotly-file": PLOTLY}
# Lists of samples: the field that has them, and those that say more about each.
_LISTS = {"audio": "audio", "videos": "videos", "html": "html"}
_LISTED = {"caption": "captions", "boxes": "all_boxes", "masks": "all_masks"}
_CHART_SUFFIX = "_table"

Find = Callable[[str], "Path | None"]


class MediaReader:
    """Makes the records of typed values.

    ``blobs`` gets what each file of a record contains. ``about`` is what W&B's configuration says
    of media: names of classes, and charts. ``artifacts`` has the files of W&B's artifacts.
    """

    def __init__(self, folder: Path, blobs: dict[str, Path | bytes]) -> None:
        self._folder = folder
        self._blobs = blobs
        self.about: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, Mapping[str, tuple[str, str]]] = {}

    def row_records(self, row: Mapping[str, Any], at: Record) -> Iterator[Record]:
        """The records of a row of history."""
        found = sort_values(row, type_key="_type")
        if found.numbers:
            yield {"log": "metrics", **at, "m": found.numbers}
        for name, text in found.texts.items():
            yield {"log": "text", **at, "name": name, "text": text}
        for name, value in found.objects.items():
            yield from self.records(name, value, at)

    def records(self, name: str, value: Mapping[str, Any], at: Record) -> Iterator[Record]:
        """The records of a value; ``at`` has the time and the step."""
        kind = str(value.get("_type", "")).removeprefix("trackio.")
        if kind == "histogram":
            yield _histogram(name, value, **at)
        elif kind == "markdown":
            text = str(value.get("_value", ""))
            yield {"log": "text", **at, "name": name, "text": text, "format": "markdown"}
        elif kind in ("table", "table-file"):
            yield self._table(name, value, at)
        elif isinstance(several := value.get(_LISTS.get(kind, "filenames")), list):
            for index, given in enumerate(several):
                one = {key: value.get(key) for key in ("width", "height")}
                for own, theirs in _LISTED.items():
                    items = value.get(theirs)
                    one[own] = items[index] if isinstance(items, list) and items[index:] else None
                one |= given if isinstance(given, dict) else {"path": given}
                yield {**self._sample(name, one, at), "index": index}
        else:
            yield self._sample(name, value, at)

    def text(self, name: str, path: str, at: Record) -> Record:
        """The record of a text in a file."""
        record = self._stored(name, path, at, self._inside)
        if record["log"] == "event":
            return record
        text = read_regular(self._folder / path).decode(errors="replace")
        markdown = {"format": "markdown"} if path.endswith(".md") else {}
        return {"log": "text", **at, "name": name, "text": text, **markdown}

    def file(self, name: str, path: str, at: Record, find: Find | None = None) -> Record:
        """The record of a file that the user kept."""
        record = self._stored(name, path, at, find or self._inside)
        return record if record["log"] == "event" else {**record, "log": "file"}

    def artifact_file(self, client_id: str, path: str) -> Path | None:
        """A file of an artifact, wherever it lies, if it has the digest that the log names.

        So a log cannot have files copied that its writer did not have.
        """
        local, digest = self.artifacts.get(client_id, {}).get(path, ("", ""))
        try:
            found = Path(local)
            md5 = hashlib.md5(read_regular(found), usedforsecurity=False).digest()
        except (OSError, ValueError):
            return None
        return found if base64.b64encode(md5).decode() == digest else None

    def _sample(
        self, name: str, value: Mapping[str, Any], at: Record, find: Find | None = None
    ) -> Record:
        """The record of one file; an event if the value has none, or if it is missing."""
        find = find or self._inside
        path = value.get("path") or value.get("file_path") or value.get("filepath")
        if not isinstance(path, str):
            shown = {key: item for key, item in value.items() if isinstance(item, (str, int))}
            return {"log": "event", **at, "name": "media", "series": name, **shown}
        record = self._stored(name, path, at, find, _TYPES.get(str(value.get("_type"))))
        if record["log"] == "event":
            return record
        if caption := value.get("caption"):
            record["caption"] = str(caption)
        size = {key: value[key] for key in ("width", "height") if isinstance(value.get(key), int)}
        boxes = list(self._boxes(value.get("boxes"), size, find))
        masks = list(self._masks(name, value.get("masks"), find))
        own = {**size, "boxes": boxes, "masks": masks}
        return record | {key: item for key, item in own.items() if item}

    def _stored(
        self, name: str, path: str, at: Record, find: Find, media_type: str | None = None
    ) -> Record:
        try:
            if (place := find(path)) is None:
                raise FileNotFoundError
            data = read_regular(place)
        except OSError:
            return {"log": "event", **at, "name": "missing-media", "series": name, "path": path}
        record = blob_record(name, data, **at, media_type=media_type or media_type_of_name(path))
        self._blobs.setdefault(record["file"], place)
        return record

    def _boxes(self, groups: Any, size: Mapping[str, int], find: Find) -> Iterator[Record]:
        for group, given in _dict(groups).items():
            labels: Any = {}
            boxes = given
            if isinstance(given, dict):  # a file has them
                content = self._json(find(str(given.get("path"))))
                boxes, labels = content.get("box_data"), content.get("class_labels")
            for box in boxes if isinstance(boxes, list) else ():
                if isinstance(box, dict) and (edges := _edges(box, size)) is not None:
                    yield {"group": group, **_label(box, labels), **edges}

    def _masks(self, name: str, groups: Any, find: Find) -> Iterator[Record]:
        known = self.about.get("mask/class_labels", {})
        for group, given in _dict(groups).items():
            path = str(_dict(given).get("path", ""))
            record = self._stored(name, path, {"t": 0.0, "step": 0}, find)
            if record["log"] == "blob":
                about = _dict(known.get(f"{name}_wandb_delimeter_{group}"))
                labels = _dict(about.get("value"))
                yield {"group": group, "file": record["file"], "labels": labels}

    def _table(self, name: str, value: Mapping[str, Any], at: Record) -> Record:
        """A table; W&B keeps one with pictures in an artifact, Trackio its rows in the value."""
        artifact, _, path = str(value.get("artifact_path", "")).partition("://")[2].partition("/")
        place = self.artifact_file(artifact, path)
        find = self._inside if place is None else partial(self.artifact_file, artifact)
        columns: Any
        data: Any
        if isinstance(rows := value.get("_value"), list):
            columns = list(dict.fromkeys(column for row in rows for column in _dict(row)))
            data = [[_dict(row).get(column) for column in columns] for row in rows]
        else:
            place = place or self._inside(str(value.get("path")))
            content = self._json(place)
            columns, data = content.get("columns"), content.get("data")
        if not isinstance(columns, list) or not isinstance(data, list):
            return self._stored(name, str(value.get("path")), at, find)
        files: dict[str, None] = {}
        listed = [row for row in data if isinstance(row, list)]
        cells = [[self._cell(cell, at, find, files) for cell in row] for row in listed]
        name, chart = self._chart(name)
        table = encode_json({"columns": [str(column) for column in columns], "data": cells})
        record = blob_record(name, table, **at, media_type=TABLE)
        self._blobs[record["file"]] = table
        own = {"chart": chart, "files": list(files)}
        return {**record, "rows": len(cells)} | {key: item for key, item in own.items() if item}

    def _cell(self, cell: Any, at: Record, find: Find, files: dict[str, None]) -> Any:
        if isinstance(cell, list):
            return [self._cell(item, at, find, files) for item in cell]
        # MLflow's pictures in cells have another field for what they are.
        if not {"_type", "filepath"} & _dict(cell).keys():
            return json_safe(cell)
        record = self._sample("", cell, at, find)
        if record["log"] == "event":
            return str(cell.get("caption") or cell.get("_type") or cell.get("type"))
        files.update(dict.fromkeys(files_of(record)))
        for key in ("log", "t", "step", "name"):
            del record[key]
        return record

    def _chart(self, name: str) -> tuple[str, dict[str, str] | None]:
        """The name of a chart whose table this is, and how it is drawn."""
        chart_name = name.removesuffix(_CHART_SUFFIX)
        panel = self.about.get("visualize", {}).get(chart_name)
        if chart_name == name or not isinstance(panel, dict):
            return name, None
        config = _dict(panel.get("panel_config"))
        fields, texts = (config.get(key) or {} for key in ("fieldSettings", "stringSettings"))
        for kind, chart, names in CHARTS:
            if config.get("panelDefId") == chart:
                found = {own: fields.get(theirs) for own, theirs in names.items()}
                found |= {"kind": kind, "title": texts.get("title")}
                return chart_name, {own: str(item) for own, item in found.items() if item}
        return chart_name, None

    def _json(self, place: Path | None) -> Mapping[str, Any]:
        try:
            return {} if place is None else _dict(json_value(read_regular(place)))
        except (OSError, ValueError, RecursionError):
            return {}

    def _inside(self, path: str) -> Path | None:
        """A file of the run's folder; None for a path that leads out of it."""
        try:
            place = (self._folder / path).resolve()
            is_inside = place.is_relative_to(self._folder.resolve()) and place.is_file()
        except (OSError, ValueError, RuntimeError):
            return None
        return place if is_inside else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _edges(box: Mapping[str, Any], size: Mapping[str, int]) -> Record | None:
    """The edges of a box of W&B as shares of the picture."""
    at = _dict(box.get("position"))
    try:
        if "middle" in at:
            (x, y), w, h = at["middle"], at["width"] / 2, at["height"] / 2
            edges = [x - w, y - h, x + w, y + h]
        else:
            edges = [at["minX"], at["minY"], at["maxX"], at["maxY"]]
        scale = (size["width"], size["height"]) if box.get("domain") == "pixel" else (1, 1)
        shares = [float(edge) / scale[number % 2] for number, edge in enumerate(edges)]
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return dict(zip(("x0", "y0", "x1", "y1"), shares, strict=True))


def _label(box: Mapping[str, Any], labels: Any) -> Record:
    label = (labels or {}).get(str(box.get("class_id"))) or box.get("box_caption")
    score = next(iter(_dict(box.get("scores")).values()), None)
    found = {"label": str(label) if label else None, "score": score}
    return {key: item for key, item in found.items() if item is not None}


def _histogram(name: str, value: Mapping[str, Any], *, t: float, step: int) -> Record:
    edges, packed = value.get("bins"), value.get("packedBins")
    if isinstance(packed, Mapping):
        low, width, count = (_number(packed.get(key)) for key in ("min", "size", "count"))
        edges = [low + width * place for place in range(int(min(max(0.0, count), 1e4)) + 1)]
    counts = value.get("values")
    return histogram_record(name, t=t, step=step, edges=_numbers(edges), counts=_numbers(counts))


def _numbers(values: Any) -> list[float]:
    return [_number(value) for value in values] if isinstance(values, list) else []


def _number(value: Any) -> float:
    number = plain_number(value)
    return math.nan if number is None else number
