"""Makes histogram records, whose bins are equally wide, of histograms with any bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from epochal.records import Record

_BINS = 64
_MAX_BINS = 10_000


def histogram_record(
    name: str,
    *,
    t: float,
    step: int,
    edges: ArrayLike,
    counts: ArrayLike,
    moments: tuple[float, float] | None = None,
) -> Record:
    """The record of counts between edges; ``moments`` are mean and standard deviation if known.

    Bins of different widths are spread over equal ones, and the exact ones are kept beside them as
    ``edges`` and ``edge_counts``.
    """
    borders = np.asarray(edges, dtype=np.float64)
    amounts = np.nan_to_num(np.asarray(counts, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    record: Record = {"log": "histogram", "t": t, "step": step, "name": name}
    total = _whole(float(amounts.sum()))
    usable = len(borders) == len(amounts) + 1 and len(amounts) > 0
    # Halved, so that the width of the widest range is still a float.
    usable = (
        usable and bool(np.isfinite(borders / 2).all()) and bool((np.diff(borders / 2) >= 0).all())
    )
    if not usable or not total:
        record.update(lo=0.0, hi=0.0, counts=[], count=total if usable else 0)
        return record
    lo, hi = float(borders[0]), float(borders[-1])
    if lo == hi:
        record.update(lo=lo - 0.5, hi=hi + 0.5, counts=[total])
    elif _are_equal(borders) and len(amounts) <= _MAX_BINS:
        record.update(lo=lo, hi=hi, counts=[_whole(amount) for amount in amounts.tolist()])
    else:
        reached = np.concatenate(([0.0], np.cumsum(amounts)))
        places = np.linspace(0.0, 1.0, _BINS + 1) * (hi / 2 - lo / 2) + lo / 2
        spread = np.rint(np.interp(places, borders / 2, reached))
        spread[0], spread[-1] = 0.0, np.rint(reached[-1])
        record.update(lo=lo, hi=hi, counts=np.diff(spread).astype(np.int64).tolist())
        record.update(edges=borders.tolist(), edge_counts=[_whole(a) for a in amounts.tolist()])
    record.update(min=lo, max=hi)
    if moments is not None and all(map(np.isfinite, moments)):
        record.update(mean=moments[0], std=moments[1])
    record["count"] = total
    return record


def moments_of(num: float, total: float, squares: float) -> tuple[float, float] | None:
    """Mean and standard deviation from a count, a sum and a sum of squares."""
    if not num > 0 or not np.isfinite([num, total, squares]).all():
        return None
    mean = total / num
    return mean, float(np.sqrt(max(0.0, squares / num - mean * mean)))


def edges_from_limits(limits: Sequence[float], *, low: float, high: float) -> list[float]:
    """Edges of buckets of which only the upper limits are known, between the extremes."""
    inner = np.clip(np.asarray(limits[:-1], dtype=np.float64), low, high)
    return [low, *inner.tolist(), high]


def _are_equal(borders: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    widths = np.diff(borders)
    return bool(np.allclose(widths, widths.mean(), rtol=1e-4, atol=0.0))


def _whole(amount: float) -> int | float:
    return int(amount) if float(amount).is_integer() else amount
