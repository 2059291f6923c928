"""Reads a series body as ``docs/explanation/http.md`` says, and by nothing of the server."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RAW = ("x", "value", "t")
EDGES = ("first_x", "last_x", "min_x", "max_x")
VALUES = ("mean", "min", "max")


@dataclass(frozen=True, slots=True, eq=False)
class DecodedSeries:
    """One series; ``nonfinite`` are the marks of slices: x, and 0 nan, 1 inf or 2 -inf."""

    head: dict[str, Any]
    columns: dict[str, Floats]
    nonfinite: list[tuple[float, float]]


class _Reader:
    """Columns one after the other."""

    def __init__(self, body: bytes, at: int) -> None:
        self.body, self.at = body, at

    def doubles(self, count: int) -> Floats:
        self.at += 8 * count
        return np.frombuffer(self.body, "<f8", count, self.at - 8 * count)

    def packed(self, count: int, *, is_whole: bool) -> Floats:
        width = self.body[self.at]
        planes = np.frombuffer(self.body, np.uint8, width * count, self.at + 1)
        self.at += 1 + planes.size
        of_values = planes.reshape(width, count).T
        if not is_whole:
            return np.ascontiguousarray(of_values).view(f"<f{width}").ravel().astype(np.float64)
        return of_values @ 256.0 ** np.arange(width)


def decode_series(body: bytes) -> tuple[dict[str, Any], list[DecodedSeries]]:
    """The head of a body and its series."""
    assert body[:4] == b"EPS1"
    (length,) = struct.unpack_from("<I", body, 4)
    assert length % 8 == 0
    header = json.loads(body[8 : 8 + length])
    reader = _Reader(body, 8 + length)
    series = [_series(head, reader) for head in header["series"]]
    assert reader.at == len(body)
    return header, series


def _series(head: dict[str, Any], reader: _Reader) -> DecodedSeries:
    count, further = head["count"], head.get("columns", ())
    if head["raw"]:
        return DecodedSeries(
            head, {name: reader.doubles(count) for name in (*RAW, *further)}, nonfinite=[]
        )
    is_whole = head.get("whole", False)
    columns = {name: reader.packed(count, is_whole=is_whole) for name in EDGES}
    if is_whole:
        steps = np.cumsum(columns["first_x"] + np.append(0, columns["last_x"][:-1]))
        columns = {name: steps + (name != "first_x") * x for name, x in columns.items()}
    columns["count"] = reader.packed(count, is_whole=True)
    columns |= {name: reader.packed(count, is_whole=False) for name in (*VALUES, *further)}
    at = reader.packed(head.get("nonfinite", 0), is_whole=is_whole)
    kinds = reader.packed(at.size, is_whole=True)
    reader.at += -reader.at % 8
    marks = zip(np.cumsum(at) if is_whole else at, kinds, strict=True)
    return DecodedSeries(head, columns, [(float(x), float(kind)) for x, kind in marks])
