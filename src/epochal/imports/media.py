"""Turns the media of W&B and Trackio into samples: pictures, sounds, videos, pages and tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epochal.imports.histogram import histogram_record
from epochal.imports.values import json_safe, json_value
from epochal.journal.line import encode_json
from epochal.journal.regular_file import read_regular
from epochal.media.files import PLOTLY, TABLE, blob_record, files_of, media_type_of_name
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
# Lists of samples: the field that has them.
_LISTS = {"audio": "audio", "videos": "videos", "html": "html"}
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
        elif isinstance(several := value.get(_LISTS.get(kind, "")), list):
            for index, one in enumerate(several):
                caption = {"caption": _item(value.get("captions"), index)}
                yield {**self._sample(name, {**caption, **one}, at), "index": index}
        elif isinstance(paths := value.get("filenames"), list):
            for index, path in enumerate(paths):
                one = {"path": path, "caption": _item(value.get("captions"), index)}
                one |= {"boxes": _item(value.get("all_boxes"), index)}
                one |= {"masks": _item(value.get("all_masks"), index)}
                one |= {key: value.get(key) for key in ("width", "height")}
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
        return {
            **record,
            **size,
            **({"boxes": boxes} if boxes else {}),
            **({"masks": masks} if masks else {}),
        }

    def _stored(
        self, name: str, path: str, at: Record, find: Find, media_type: str | None = None
    ) -> Record:
        place = find(path)
        try:
            data = None if place is None else read_regular(place)
        except OSError:
            data = None
        if data is None or place is None:
            return {"log": "event", **at, "name": "missing-media", "series": name, "path": path}
        record = blob_record(name, data, **at, media_type=media_type or media_type_of_name(path))
        self._blobs.setdefault(record["file"], place)
        return record

    def _boxes(self, groups: Any, size: Mapping[str, int], find: Find) -> Iterator[Record]:
        for group, given in groups.items() if isinstance(groups, dict) else ():
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
        for group, given in groups.items() if isinstance(groups, dict) else ():
            path = str(given.get("path")) if isinstance(given, dict) else ""
            record = self._stored(name, path, {"t": 0.0, "step": 0}, find)
            if record["log"] == "blob":
                about = known.get(f"{name}_wandb_delimeter_{group}")
                labels = about.get("value") if isinstance(about, dict) else None
                labels = labels if isinstance(labels, dict) else {}
                yield {"group": group, "file": record["file"], "labels": labels}

    def _table(self, name: str, value: Mapping[str, Any], at: Record) -> Record:
        """A table; W&B keeps one with pictures in an artifact, Trackio its rows in the value."""
        artifact, _, path = str(value.get("artifact_path", "")).partition("://")[2].partition("/")
        place = self.artifact_file(artifact, path)
        find = self._inside if place is None else partial(self.artifact_file, artifact)
        columns: Any
        data: Any
        if isinstance(rows := value.get("_value"), list):
            listed = [row for row in rows if isinstance(row, dict)]
            columns = list(dict.fromkeys(column for row in listed for column in row))
            data = [[row.get(column) for column in columns] for row in listed]
        else:
            place = place or self._inside(str(value.get("path")))
            content = self._json(place)
            columns, data = content.get("columns"), content.get("data")
        if not isinstance(columns, list) or not isinstance(data, list):
            return self._stored(name, str(value.get("path")), at, find)
        files: dict[str, None] = {}
        cells = [
            [self._cell(cell, at, find, files) for cell in row]
            for row in data
            if isinstance(row, list)
        ]
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
        is_sample = isinstance(cell, dict) and ("_type" in cell or "filepath" in cell)
        if not is_sample:
            return json_safe(cell)
        record = self._sample("", cell, at, find)
        if record["log"] == "event":
            return str(cell.get("caption") or cell.get("_type") or cell.get("type"))
        files.update(dict.fromkeys(files_of(record)))
        return {
            key: item for key, item in record.items() if key not in ("log", "t", "step", "name")
        }

    def _chart(self, name: str) -> tuple[str, dict[str, str] | None]:
        """The name of a chart whose table this is, and how it is drawn."""
        chart_name = name.removesuffix(_CHART_SUFFIX)
        panel = self.about.get("visualize", {}).get(chart_name)
        if chart_name == name or not isinstance(panel, dict):
            return name, None
        config = panel.get("panel_config")
        config = config if isinstance(config, dict) else {}
        fields, texts = (config.get(key) or {} for key in ("fieldSettings", "stringSettings"))
        for kind, chart, names in CHARTS:
            if config.get("panelDefId") == chart:
                found = {
                    own: str(fields[theirs]) for own, theirs in names.items() if fields.get(theirs)
                }
                title = {"title": str(texts["title"])} if texts.get("title") else {}
                return chart_name, {"kind": kind, **found, **title}
        return chart_name, None

    def _json(self, place: Path | None) -> Mapping[str, Any]:
        try:
            content = None if place is None else json_value(read_regular(place))
        except (OSError, ValueError, RecursionError):
            content = None
        return content if isinstance(content, dict) else {}

    def _inside(self, path: str) -> Path | None:
        """A file of the run's folder; None for a path that leads out of it."""
        try:
            place = (self._folder / path).resolve()
            is_inside = place.is_relative_to(self._folder.resolve()) and place.is_file()
        except (OSError, ValueError, RuntimeError):
            return None
        return place if is_inside else None


def _item(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _edges(box: Mapping[str, Any], size: Mapping[str, int]) -> Record | None:
    """The edges of a box of W&B as shares of the picture."""
    at = box.get("position")
    if not isinstance(at, dict):
        return None
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
    number = str(box.get("class_id"))
    label = (labels or {}).get(number) or box.get("box_caption")
    scores = box.get("scores")
    score = next(iter(scores.values()), None) if isinstance(scores, dict) else None
    found = {"label": str(label) if label else None, "score": score}
    return {key: item for key, item in found.items() if item is not None}


def _histogram(name: str, value: Mapping[str, Any], *, t: float, step: int) -> Record:
    edges, packed = value.get("bins"), value.get("packedBins")
    if isinstance(packed, Mapping):
        low, width, count = (_number(packed.get(key)) for key in ("min", "size", "count"))
        edges = (low + width * np.arange(min(max(int(count), 0), 10_000) + 1)).tolist()
    counts = value.get("values")
    return histogram_record(name, t=t, step=step, edges=_numbers(edges), counts=_numbers(counts))


def _numbers(values: Any) -> list[float]:
    return [_number(value) for value in values] if isinstance(values, list) else []


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float)) else float("nan")
    except OverflowError:
        return float("nan")
