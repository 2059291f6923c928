"""Points of a sealed series as arrays, from the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from epochal.records import Axis
from epochal.segments import columns as c

NO_STEP = -1


@dataclass(frozen=True, slots=True, eq=False)
class SegmentSeries:
    """The points of one series in file order: times in Unix seconds, nan where there is none.

    ``steps`` are epochs on the epoch axis, and -1 on the time axis where a record had none.
    ``order`` reads the ordinals, which hardly anybody asks for.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]
    order: Callable[[], NDArray[np.int64]]

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Which records of the part the points are of."""
        return self.order()


def compute() -> Any:
    """pyarrow.compute, which takes longer to import than sealing a part of 10 MB does without."""
    import pyarrow.compute

    return pyarrow.compute


def rows_where(table: pa.Table, conditions: Iterable[Any]) -> pa.Table:
    """The rows that meet all conditions: masks of the whole table, or one truth for all of it."""
    mask = None
    for condition in conditions:
        if isinstance(condition, pa.Scalar):
            if not condition.as_py():
                return table.slice(0, 0)
        else:
            mask = condition if mask is None else compute().and_(mask, condition)
    return table if mask is None else table.filter(mask)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers or truths."""
    return bool(
        pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    )


def points_of(table: pa.Table, *, along: str, value: str, axis: Axis) -> SegmentSeries:
    """The rows of a table as points; on a step axis, those that have no step stand nowhere."""
    steps = table.column(along)
    if steps.null_count and axis != "time":
        table = table.filter(steps.is_valid())
        steps = table.column(along)
    return SegmentSeries(
        steps=filled_column(steps, NO_STEP).astype(np.int64, copy=False),
        times=seconds_of(table.column(c.TIME)),
        values=table.column(value).to_numpy().astype(np.float64, copy=False),
        order=table.column(c.ORDINAL).to_numpy,
    )


def take(ordinals: NDArray[np.int64], rows: Any) -> NDArray[np.int64]:
    """The ordinals of some rows."""
    taken: NDArray[np.int64] = ordinals[rows]
    return taken


def filled_column(column: pa.ChunkedArray, absent: int) -> NDArray[Any]:
    """A column as an array, with ``absent`` where it has no value."""
    filled: NDArray[Any] = (column.fill_null(absent) if column.null_count else column).to_numpy()
    return filled


def seconds_of(milliseconds: pa.ChunkedArray) -> NDArray[np.float64]:
    """Times in seconds, nan where there is none."""
    seconds: NDArray[np.float64] = filled_column(milliseconds, 0) / 1000
    if milliseconds.null_count:
        seconds[milliseconds.is_null().to_numpy()] = np.nan
    return seconds


def join_points(pieces: list[SegmentSeries]) -> SegmentSeries:
    """The pieces of one series in the order of their records."""
    if len(pieces) == 1:
        return pieces[0]
    ordinals = np.concatenate([np.empty(0, np.int64), *(p.ordinals for p in pieces)])
    order = np.argsort(ordinals, kind="stable")
    return SegmentSeries(
        steps=np.concatenate([np.empty(0, np.int64), *(p.steps for p in pieces)])[order],
        times=np.concatenate([np.empty(0, np.float64), *(p.times for p in pieces)])[order],
        values=np.concatenate([np.empty(0, np.float64), *(p.values for p in pieces)])[order],
        order=lambda: ordinals[order],
    )
