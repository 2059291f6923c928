"""Which series a segment holds, and where the points of each lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.records import KINDS, Axis, axis_of
from epochal.segments.contents import SeriesSources, Source
from epochal.segments.long import LongForm
from epochal.segments.shape import Path


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of one shape: their ordinals, and their values by path."""

    kind: str
    shape: int | None
    ordinals: NDArray[np.int64]
    steps: NDArray[np.int64]
    milliseconds: NDArray[np.int64]
    cells: Mapping[Path, NDArray[Any] | list[Any]]
    documents: Sequence[str] | None = None

    @property
    def num_numbers(self) -> int:
        """How many numbers they hold."""
        return sum(len(values) for values in self.cells.values() if isinstance(values, np.ndarray))


def catalogue(pieces: Iterable[Rows], long: LongForm) -> tuple[SeriesSources, ...]:
    """The series of a segment in order of first appearance."""
    sources: dict[tuple[str, Axis], dict[Source, None]] = {}
    first: dict[tuple[str, Axis], int] = {}
    for piece in pieces:
        if piece.shape is None:
            continue
        axis: Axis = axis_of({"log": piece.kind, "step": 0})
        ordinal = int(piece.ordinals.min())
        for name, source in _sources(piece.kind, piece.cells):
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
