"""The binary body of ``/api/series``: a JSON head, then columns of little-endian float64.

``spec/wire.md`` has the layout to the byte and a worked example.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import UsageError
from epochal.series.series import Series
from epochal.server.wire import WIRE_VERSION, Missing, SeriesHead, SeriesHeader

MAGIC = b"EPS1"
# 16 million points are 384 MB; larger downloads are exports.
MAX_POINTS = 16_000_000
_ALIGNMENT = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesBlock:
    """One series of a body: its head and its columns."""

    head: SeriesHead
    columns: Sequence[Floats]


def series_block(
    run_id: str, series: Series, *, pixels: int, lo: float | None, hi: float | None
) -> SeriesBlock:
    """Downsample a series between lo and hi to ``pixels`` slices; 0 keeps every point."""
    assert series.axis != "none"
    chosen = series.between(lo, hi)
    at, values = chosen.at.astype(np.float64, copy=False), chosen.floats
    is_raw = pixels == 0 or len(chosen) <= pixels
    nonfinite = np.flatnonzero(~np.isfinite(values))
    marks = _marks(at[nonfinite], values[nonfinite], most=0 if is_raw else pixels)
    if is_raw:
        rows: list[Floats] = [at, values, chosen.times]
    else:
        slices = chosen.buckets(pixels, lo=lo, hi=hi)
        rows = [
            *(slices.first_step, slices.first),
            *(slices.last_step, slices.last),
            *(slices.min_step, slices.min),
            *(slices.max_step, slices.max),
            slices.count.astype(np.float64),
        ]
    head = SeriesHead(
        run=run_id,
        name=series.name,
        rank=series.rank,
        axis=series.axis,
        x=series.x,
        raw=is_raw,
        count=rows[0].size,
        points=len(chosen),
        nonfinite=marks[0].size,
        nonfinite_points=nonfinite.size,
        duplicates=series.duplicates,
        hidden=series.hidden,
        lo=float(series.at[0]) if len(series) else None,
        hi=float(series.at[-1]) if len(series) else None,
    )
    return SeriesBlock(head, [*rows, *marks])


def series_body(
    blocks: Sequence[SeriesBlock], *, missing: Sequence[Missing], positions: Mapping[str, str]
) -> bytes:
    """Encode a whole body; raises ``UsageError`` when it would be too large."""
    if sum(one.head.count for one in blocks) > MAX_POINTS:
        raise UsageError(
            f"the response would have more than {MAX_POINTS} points: ask for a narrower range,"
            " with pixels=, or export the run."
        )
    header = SeriesHeader(
        WIRE_VERSION, [one.head for one in blocks], list(missing), dict(positions)
    )
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    columns = (column.astype("<f8", copy=False) for one in blocks for column in one.columns)
    return b"".join(
        (MAGIC, struct.pack("<I", len(text)), text, *(column.tobytes() for column in columns))
    )


def _marks(at: Floats, values: Floats, *, most: int) -> tuple[Floats, Floats]:
    """Where points are not finite and what they are: 0 nan, 1 and -1 the infinities.

    Beyond ``most`` (0: no limit) the marks are thinned to the first of each kind in each of
    ``most`` slices: a chart of that width shows no more.
    """
    kinds = np.where(np.isnan(values), 0.0, np.sign(values))
    if most == 0 or at.size <= most:
        return at, kinds
    width = float(at[-1] - at[0]) or 1.0
    slices = np.minimum((at - at[0]) / width * most, most - 1).astype(np.int64)
    _, first = np.unique(slices * 3 + kinds.astype(np.int64) + 1, return_index=True)
    chosen = np.sort(first)
    return at[chosen], kinds[chosen]
