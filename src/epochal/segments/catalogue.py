"""Which series a segment holds, and where the points of each lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from epochal.records import KINDS, Axis, axis_of
from epochal.segments.contents import SeriesSources, Source
from epochal.segments.long import LongForm
from epochal.segments.shape import Path


def catalogue(
    pieces: Iterable[tuple[str, Mapping[Path, Any], int]], long: LongForm
) -> tuple[SeriesSources, ...]:
    """The series of a segment in order of first appearance.

    A piece is a kind, the cells of some of its records by path, and their first ordinal.
    """
    sources: dict[tuple[str, Axis], dict[Source, None]] = {}
    first: dict[tuple[str, Axis], int] = {}
    for kind, cells, ordinal in pieces:
        axis: Axis = axis_of({"log": kind, "step": 0})
        for name, source in _sources(kind, cells):
            sources.setdefault((name, axis), {})[source] = None
            first[name, axis] = min(ordinal, first.get((name, axis), ordinal))
    in_long: set[tuple[str, Axis]] = set()
    for key, series in long:
        in_long.add((key.name, key.axis))
        ordinal = min(series.ordinals)
        first[key.name, key.axis] = min(ordinal, first.get((key.name, key.axis), ordinal))
    return tuple(
        SeriesSources(name, axis, tuple(sources.get((name, axis), ())), (name, axis) in in_long)
        for name, axis in sorted(first, key=lambda key: first[key])
    )


def _sources(kind: str, cells: Mapping[Path, Any]) -> Iterator[tuple[str, Source]]:
    known = KINDS.get(kind)
    numbers = [path for path, values in cells.items() if isinstance(values, np.ndarray)]
    for path in numbers:
        if path[0] == "m" and len(path) == 2:
            yield path[1], Source(kind, path)
        elif known is not None and path[0] in known.objects and len(path) == 2:
            yield known.prefix + path[1], Source(kind, path)
    if known is None:
        return
    paths = {path[0]: path for path in numbers if len(path) == 1}
    for gpu in _gpus(cells) if known.by_id else [None]:
        for field, name in known.series_names({**paths, "id": gpu}).items():
            yield name, Source(kind, paths[field], gpu)


def _gpus(cells: Mapping[Path, Any]) -> list[str]:
    """The numbers of the GPUs as series names have them; a record without one is of GPU 0."""
    given = cells.get(("id",))
    if given is None:
        return ["0"]
    return sorted({str(gpu) for gpu in (given.tolist() if hasattr(given, "tolist") else given)})
