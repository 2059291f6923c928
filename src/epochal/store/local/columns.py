"""The numbers of a journal part as growing columns, never an object per record.

Records that hold the same series share a block: 24 bytes a record, 8 a value. Each block keeps the
ordinals of its records, so that a series found in several blocks comes back in the order written.
"""

from __future__ import annotations

import itertools
import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis, Record, stored_numbers_of
from epochal.series.series import Series, concatenated

_STEP_LIMIT = 2**63
# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800
NO_STEP = -1
# Logs that hardly ever repeat a set of names would make a block per record: beyond this many sets,
# each value goes to a block of its name.
_MAX_SHAPES = 256

Names = tuple[str, ...]


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


class SeriesKey(NamedTuple):
    """A name on an axis: an epoch's ``loss`` and a step's ``loss`` are two series."""

    name: str
    axis: Axis


class SeriesTable(NamedTuple):
    """Series of one part that were logged together: ``values`` has a column for each name."""

    axis: Axis
    names: Names
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class Block:
    """The records of one part that hold the same series."""

    __slots__ = ("_late", "names", "ordinals", "pack", "steps", "times", "values")

    def __init__(self, names: Names, late: dict[Names, Block]) -> None:
        self.names = names
        self.pack = struct.Struct(f"={len(names)}d").pack
        self.ordinals = array("q")
        self.steps = array("q")
        self.times = array("d")
        self.values = array("d")
        # Blocks that got a record after one that follows it.
        self._late = late

    def append(self, ordinal: int, step: int, t: float, values: Iterable[float]) -> None:
        """Add a record; raises struct.error or OverflowError, adding nothing, for no numbers."""
        self.values.frombytes(self.pack(*values))
        if self.ordinals and ordinal < self.ordinals[-1]:
            self._late[self.names] = self
        self.ordinals.append(ordinal)
        self.steps.append(step)
        self.times.append(t)

    def extend(
        self,
        ordinals: array[int],
        steps: NDArray[np.int64] | None,
        times: NDArray[np.float64],
        columns: list[NDArray[np.float64]],
    ) -> None:
        """Add many records, a column of values for each name; without steps, none has one."""
        self.values.frombytes(np.column_stack(columns).tobytes())
        if self.ordinals and ordinals[0] < self.ordinals[-1]:
            self._late[self.names] = self
        self.ordinals.extend(ordinals)
        self.steps.frombytes((np.full(times.size, NO_STEP) if steps is None else steps).tobytes())
        self.times.frombytes(times.tobytes())

    def sort(self, first: int, num_records: int) -> None:
        """Bring the last so many records, from an ordinal on, into their order."""
        start = max(0, len(self.ordinals) - num_records)
        start += sum(ordinal < first for ordinal in self.ordinals[start:])
        order = np.argsort(np.array(self.ordinals[start:], dtype=np.int64), kind="stable")
        width = len(self.names)
        for column, per_row in (
            (self.ordinals, 1),
            (self.steps, 1),
            (self.times, 1),
            (self.values, width),
        ):
            some = column[start * per_row :]
            rows = np.frombuffer(some, dtype=column.typecode).reshape(-1, per_row)[order]
            column[start * per_row :] = array(column.typecode, rows.tobytes())

    def column(self, place: int) -> NDArray[np.float64]:
        """A copy of one column: a view would forbid the buffers to grow."""
        return np.frombuffer(self.values).reshape(-1, len(self.names))[:, place].copy()


class Blocks:
    """Every series of one part; in order of first appearance."""

    def __init__(self) -> None:
        self._shapes: dict[Axis, dict[Names, Block]] = {}
        self._places: dict[SeriesKey, list[tuple[Block, int]]] = {}
        self._late: dict[Axis, dict[Names, Block]] = {}

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def shapes(self, axis: Axis) -> dict[Names, Block]:
        """The blocks of an axis by the names they hold."""
        return self._shapes.setdefault(axis, {})

    def block(self, axis: Axis, names: Names) -> Block | None:
        """The block of these names; None when there are too many different ones already."""
        shapes = self.shapes(axis)
        block = shapes.get(names)
        if block is None:
            if len(names) > 1 and len(shapes) >= _MAX_SHAPES:
                return None
            block = shapes[names] = Block(names, self._late.setdefault(axis, {}))
            for place, name in enumerate(names):
                self._places.setdefault(SeriesKey(name, axis), []).append((block, place))
        return block

    def add(self, record: Record, *, axis: Axis, ordinal: int, at: int, t: float) -> None:
        """Append every scalar of a record at a step, or at a time with ``at`` as its step.

        Raises what a record of the wrong shape makes; it is then added in part or not at all.
        """
        scalars = list(_all_scalars(record))
        if not scalars:
            return
        names, values = zip(*scalars, strict=True)
        block = self.block(axis, names)
        if block is not None:
            block.append(ordinal, at, t, values)
            return
        for name, value in scalars:
            alone = self.block(axis, (name,))
            assert alone is not None
            alone.append(ordinal, at, t, (value,))

    def sort(self, first: int, num_records: int) -> None:
        """Bring so many records, which came in columns and one by one, into their order."""
        for late in self._late.values():
            for block in late.values():
                block.sort(first, num_records)
            late.clear()

    def series(self, key: SeriesKey, rank: int) -> Series:
        """The points of one series, in the order they were written."""
        places = self._places[key]
        whole = concatenated(
            [
                Series(
                    key.name,
                    key.axis,
                    rank,
                    np.array(block.steps, dtype=np.int64),
                    np.array(block.times, dtype=np.float64),
                    block.column(place),
                )
                for block, place in places
            ]
        )
        if len(places) == 1:
            return whole
        ordinals = np.concatenate([np.array(b.ordinals, dtype=np.int64) for b, _ in places])
        if bool(np.all(ordinals[:-1] <= ordinals[1:])):
            return whole
        return whole.select(np.argsort(ordinals, kind="stable"))

    def tables(self) -> Iterator[SeriesTable]:
        """The series that lie in one block each; copies, since views forbid buffers to grow."""
        for axis, shapes in self._shapes.items():
            for block in shapes.values():
                alone = [len(self._places[SeriesKey(n, axis)]) == 1 for n in block.names]
                if any(alone):
                    values = np.frombuffer(block.values).reshape(-1, len(block.names))
                    yield SeriesTable(
                        axis,
                        tuple(itertools.compress(block.names, alone)),
                        np.array(block.steps, dtype=np.int64),
                        np.array(block.times, dtype=np.float64),
                        values.copy() if all(alone) else values[:, alone],
                    )

    def ordinals(self, key: SeriesKey) -> NDArray[np.int64]:
        """The ordinals of a series' records, in the order of the points of ``series``."""
        found = [np.array(block.ordinals, dtype=np.int64) for block, _ in self._places[key]]
        return np.sort(np.concatenate(found), kind="stable")


def whole_number(value: Any) -> int | None:
    """A step or epoch as 64 bits hold it; None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -_STEP_LIMIT <= value < _STEP_LIMIT else None


def unix_time(value: Any) -> float | None:
    """A time as a file says it, in Unix seconds; None for what is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _TIME_LIMIT else None


def seconds(record: Record) -> float:
    """A record's time in Unix seconds; nan when it has none."""
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) and abs(t) < _STEP_LIMIT else float("nan")


def _all_scalars(record: Record) -> Iterable[tuple[str, float]]:
    if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
        raise TypeError("the stats of an allocator are a list")
    return stored_numbers_of(record)
