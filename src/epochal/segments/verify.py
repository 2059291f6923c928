"""Compares a segment that was just written with what was read from the journal.

What was read is exact: lines that became columns at once gave back their very bytes when they were
encoded again, and records that were taken apart one by one were put together again. So it is enough
that the file gives back the columns, every bit of every number, and every record exactly once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.journal.line import encode_json, encode_lines
from epochal.segments.collect import Collected
from epochal.segments.plan import Piece, Plan
from epochal.segments.read import Segment
from epochal.segments.rebuild import Rebuilder


def verify(path: Path, journal: Path, found: Collected, plan: Plan) -> None:
    """Raise FormatError, naming the journal part, unless a segment gives back all of it."""
    with Segment(path) as segment:
        if segment.damage() != found.damage:
            raise FormatError(f"{journal} was not sealed: its damaged lines came out wrong.")
        rebuilder = segment.rebuilder()
        seen = [] if rebuilder is None else _compared(rebuilder, segment, found, plan, journal)
    ordinals = np.sort(np.concatenate(seen)) if seen else np.zeros(0, dtype=np.int64)
    if not np.array_equal(ordinals, np.arange(found.num_records)):
        raise FormatError(f"{journal} was not sealed: records are missing, or there are too many.")


def _compared(
    rebuilder: Rebuilder, segment: Segment, found: Collected, plan: Plan, journal: Path
) -> list[NDArray[np.int64]]:
    """The ordinals of the records that are as they should be."""
    numbers = {shape: number for number, shape in enumerate(segment.shapes)}
    seen: list[NDArray[np.int64]] = []
    for piece in plan.pieces:
        if not _is_same(rebuilder, numbers.get(piece.shape, -1), piece):
            raise FormatError(
                f"{journal} was not sealed: records of kind {piece.shape.kind!r} came out wrong."
            )
        seen.append(piece.ordinals)
    rows = rebuilder.rows_of(None)
    expected = sorted((document.ordinal, document.text) for document in found.documents)
    ordinals = rebuilder.ordinals(rows)
    if list(zip(ordinals.tolist(), rebuilder.documents(rows), strict=True)) != expected:
        raise FormatError(f"{journal} was not sealed: records kept as JSON came out wrong.")
    return [*seen, ordinals]


def _is_same(rebuilder: Rebuilder, number: int, piece: Piece) -> bool:
    """Whether the rows of a piece hold its values; several pieces can share a shape."""
    rows = rebuilder.rows_of(number)
    order = np.argsort(piece.ordinals, kind="stable")
    ordinals = piece.ordinals[order]
    rows = rows[np.isin(rebuilder.ordinals(rows), ordinals)]
    if not np.array_equal(rebuilder.ordinals(rows), ordinals):
        return False
    if "w" in piece.shape.codes:  # some of its values are in long form
        expected = piece.bucket.records()
        made = [record for _, record in rebuilder.records(rows)]
        return encode_lines(made) == encode_lines([expected[place] for place in order.tolist()])
    return all(
        _are_same(read, given, order)
        for read, given in zip(rebuilder.cells(number, rows), piece.cells, strict=True)
    )


def _are_same(
    read: NDArray[Any] | list[Any], given: NDArray[Any] | list[Any], order: NDArray[np.intp]
) -> bool:
    if isinstance(given, list) or isinstance(read, list):
        return encode_json(list(read)) == encode_json([given[place] for place in order.tolist()])
    return read.dtype == given.dtype and read.tobytes() == given[order].tobytes()
