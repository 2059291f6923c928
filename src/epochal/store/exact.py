"""Whole numbers that floats cannot hold, read again from their records.

Columns hold floats: a whole number beyond 2^53 is rounded there. Such series are rare, so nothing
is done for them while records are read; when one is asked for, its values are read once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis, axis_of, numbers_of
from epochal.store.columns import Origin, Piece, SeriesKey
from epochal.store.merge import Cuts, merge
from epochal.store.part import Part

_EXACT_UP_TO = 2.0**53


def may_be_rounded(values: NDArray[np.float64]) -> bool:
    """Whether some of the values may have been whole numbers that a float cannot hold."""
    return bool(values.size) and bool(np.abs(values).max() >= _EXACT_UP_TO)


def exact_values(
    parts: Sequence[Part], key: SeriesKey, rank: int, *, cuts: Cuts
) -> NDArray[np.int64] | NDArray[np.uint64] | None:
    """The values of a series as 64-bit integers; None unless every one of them is such a number."""
    pieces: list[tuple[Origin, Piece]] = []
    for part in parts:
        origin = part.facts.origin
        piece = part.piece(key) if origin.rank == rank else None
        if piece is None:
            continue
        numbers = _numbers(part, key.name, key.axis)
        if not _are_same(numbers, piece.values):
            return None
        pieces.append((origin, piece._replace(values=np.array(numbers, dtype=object))))
    merged = merge(pieces, axis=key.axis, cuts=cuts).values.tolist()
    if min(merged) >= -(2**63) and max(merged) < 2**63:
        return np.array(merged, dtype=np.int64)
    if min(merged) >= 0 and max(merged) < 2**64:
        return np.array(merged, dtype=np.uint64)
    return None


def _numbers(part: Part, name: str, axis: Axis) -> list[Any]:
    return [
        number
        for _, record in part.records(first=0)
        if axis_of(record) == axis
        for found, number in numbers_of(record)
        if found == name
    ]


def _are_same(numbers: list[Any], values: NDArray[np.float64]) -> bool:
    """Whether the numbers are whole, and what the column's floats were made of."""
    return len(numbers) == values.size and all(
        type(number) is int and float(number) == value
        for number, value in zip(numbers, values.tolist(), strict=True)
    )
