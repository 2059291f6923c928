"""What W&B keeps in history beside numbers: histograms, and media that lie in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from epochal.imports.histogram import histogram_record
from epochal.imports.media import blob_record, media_type_of_name
from epochal.journal.regular_file import read_regular
from epochal.records import Record


def media_records(
    name: str, value: Mapping[str, Any], folder: Path, *, t: float, step: int
) -> Iterator[tuple[Record, Path | None]]:
    """The records of one typed value; a blob's with its file."""
    kind = value.get("_type")
    if kind == "histogram":
        yield _histogram(name, value, t=t, step=step), None
        return
    paths, captions = _listed(value, "filenames", "path"), _listed(value, "captions", "caption")
    for number, path in enumerate(paths):
        label = name if len(paths) == 1 else f"{name}/{number}"
        place = _inside(folder, path)
        try:
            data = None if place is None else read_regular(place)
        except OSError:
            data = None
        if data is None or place is None:
            fact = {"name": "missing-media", "series": label, "path": str(path)}
            yield {"log": "event", "t": t, "step": step, **fact}, None
            continue
        record = blob_record(label, data, t=t, step=step, media_type=media_type_of_name(path))
        if number < len(captions) and captions[number]:
            record["caption"] = captions[number]
        yield record, place
    if not paths:
        shown = {key: item for key, item in value.items() if isinstance(item, (str, int, bool))}
        yield {"log": "event", "t": t, "step": step, "name": "media", "series": name, **shown}, None


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


def _listed(value: Mapping[str, Any], several: str, one: str) -> list[str]:
    found = value.get(several)
    if isinstance(found, list):
        return [str(item) for item in found]
    return [str(value[one])] if isinstance(value.get(one), str) else []


def _inside(folder: Path, path: str) -> Path | None:
    """A file below a folder; None for a path that leads out of it."""
    try:
        place = (folder / path).resolve()
        return place if place.is_relative_to(folder.resolve()) and place.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
