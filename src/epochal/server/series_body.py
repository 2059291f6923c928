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
from epochal.server.wire import WIRE_VERSION, Missing, SeriesHead, SeriesHeader
from epochal.store.along import Placed

MAGIC = b"EPS1"
# 16 million points in one answer are 384 MB: a download beyond that is an export.
MAX_POINTS = 16_000_000
_ALIGNMENT = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """One series of a body: its head and the columns that follow."""

    head: SeriesHead
    columns: Sequence[Floats]


def cut(run_id: str, placed: Placed, *, pixels: int, lo: float | None, hi: float | None) -> Cut:
    """A series between lo and hi at a chart's width; with ``pixels=0`` every point of it."""
    axis, at = placed.series.axis, placed.at.astype(np.float64, copy=False)
    assert axis != "none"
    start, stop = _range(at, lo, hi)
    points = stop - start
    raw = pixels == 0 or points <= pixels
    values = placed.values[start:stop]
    strange = np.flatnonzero(~np.isfinite(values))
    marks = _marks(at[start:stop][strange], values[strange], most=0 if raw else pixels)
    if raw:
        rows: list[Floats] = [at[start:stop], values, placed.times[start:stop]]
    else:
        cut_up = placed.buckets(pixels, lo=lo, hi=hi)
        rows = [
            *(cut_up.first_step, cut_up.first),
            *(cut_up.last_step, cut_up.last),
            *(cut_up.min_step, cut_up.min),
            *(cut_up.max_step, cut_up.max),
            cut_up.count.astype(np.float64),
        ]
    series = placed.series
    head = SeriesHead(
        run=run_id,
        name=series.name,
        rank=series.rank,
        axis=axis,
        x=placed.x,
        raw=raw,
        count=rows[0].size,
        points=points,
        nonfinite=marks[0].size,
        nonfinite_points=strange.size,
        duplicates=series.duplicates,
        hidden=series.hidden,
        lo=float(at[0]) if at.size else None,
        hi=float(at[-1]) if at.size else None,
    )
    return Cut(head, [*rows, *marks])


def series_body(
    cuts: Sequence[Cut], *, missing: Sequence[Missing], positions: Mapping[str, str]
) -> bytes:
    """The whole body; raises ``UsageError`` when it would be too large."""
    if sum(one.head.count for one in cuts) > MAX_POINTS:
        raise UsageError(
            f"the answer would have more than {MAX_POINTS} points: ask for a narrower range,"
            " with pixels=, or export the run."
        )
    header = SeriesHeader(WIRE_VERSION, [one.head for one in cuts], list(missing), dict(positions))
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    columns = (column.astype("<f8", copy=False) for one in cuts for column in one.columns)
    return b"".join(
        (MAGIC, struct.pack("<I", len(text)), text, *(column.tobytes() for column in columns))
    )


def _range(at: Floats, lo: float | None, hi: float | None) -> tuple[int, int]:
    start = 0 if lo is None else int(np.searchsorted(at, lo, side="left"))
    stop = at.size if hi is None else int(np.searchsorted(at, hi, side="right"))
    return start, max(start, stop)


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
