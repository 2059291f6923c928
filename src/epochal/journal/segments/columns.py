"""The numbers of one part as growing columns.

Records that hold the same series share a block: 24 bytes for a record, and 8 for each value.
Records with the same keys are added at once, other records one by one. Each block keeps the
ordinals of its records, so that a series of several blocks comes back in the order written.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.facts import Extent, SeriesKey, seconds
from epochal.journal.rows import Rows
from epochal.records import KINDS, Axis, Record, axis_of, stored_numbers_of, whole_number
from epochal.series.downsample import summarise_rows
from epochal.series.series import Series, concatenated, merge
from epochal.series.summary import Summary

NO_STEP = -1
# Logs that hardly ever repeat a set of names would make a block for each record: beyond this many
# sets, each value goes to a block of its own name.
_MAX_BLOCKS = 256
_VALUES_AT_ONCE = 1 << 20

Names = tuple[str, ...]


class PartSummary(NamedTuple):
    """The summary of a series in one part.

    ``first_at`` is the position of its first point on its axis, ``last_t`` the time of its last
    point in Unix seconds.
    """

    summary: Summary
    first_at: float
    last_t: float


class _Block:
    """The records of one part that hold the same series."""

    __slots__ = ("is_ordered", "names", "ordinals", "steps", "times", "values")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.ordinals, self.steps = array("q"), array("q")
        self.times = array("d")
        self.values = [array("d") for _ in names]
        self.is_ordered = True

    @property
    def nbytes(self) -> int:
        return 8 * len(self.ordinals) * (3 + len(self.names))

    def series(self, key: SeriesKey, rank: int, place: int) -> Series:
        """Copies of columns; a view would keep the buffers from growing."""
        steps, times, values = map(np.array, (self.steps, self.times, self.values[place]))
        return Series(*key, rank, steps, times, values)

    def place(self, first: int) -> None:
        """Note the ordinal of the next records: rows and other records may come by turns."""
        self.is_ordered &= not self.ordinals or self.ordinals[-1] <= first


class PartColumns:
    """Every series of one part, in order of first appearance."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Axis, Names], _Block] = {}
        self._places: dict[SeriesKey, list[tuple[_Block, int]]] = {}
        self.num_malformed = 0

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    @property
    def nbytes(self) -> int:
        """How much memory the columns take."""
        return sum(block.nbytes for block in self._blocks.values())

    def _blocks_of(self, axis: Axis, names: Names) -> list[_Block]:
        """The block of these names; a block for each if there are too many sets of names."""
        block = self._blocks.get((axis, names))
        if block is None:
            if len(names) > 1 and len(self._blocks) >= _MAX_BLOCKS:
                return [block for name in names for block in self._blocks_of(axis, (name,))]
            block = self._blocks[axis, names] = _Block(names)
            for place, name in enumerate(names):
                self._places.setdefault(SeriesKey(name, axis), []).append((block, place))
        return [block]

    def add_rows(self, rows: Rows) -> Extent:
        """Add records with the same keys; returns how far they reach."""
        times = rows.numbers.get(("t",))
        numbers = {key.name: path for key, path in rows.series().items()}
        if numbers:
            steps = rows.steps if rows.steps.size else np.full(rows.ordinals.size, NO_STEP)
            nan = np.full(rows.ordinals.size, math.nan)
            for block in self._blocks_of(KINDS[rows.kind].axis, tuple(numbers)):
                block.place(rows.ordinals[0].item())
                block.ordinals.frombytes(rows.ordinals.tobytes())
                block.steps.frombytes(steps.tobytes())
                block.times.frombytes((nan if times is None else times).tobytes())
                for name, values in zip(block.names, block.values, strict=True):
                    values.frombytes(rows.numbers[numbers[name]].tobytes())
        step = rows.steps.max().item() if rows.steps.size else None
        return Extent(step, None if times is None else times.max().item())

    def add(self, record: Record, *, ordinal: int) -> tuple[Extent, Iterable[SeriesKey]]:
        """Add every number of a record; returns how far it reaches, and the series of its numbers.

        A record that is not what its kind should be is counted in ``num_malformed``.
        """
        axis, t = axis_of(record), seconds(record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        step = at if axis != "epoch" else whole_number(record.get("step"))
        extent = Extent(step, t if math.isfinite(t) else None)
        if axis == "none" or (at is None and axis != "time"):
            return extent, ()
        try:
            numbers = list(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            numbers = None
        if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
            numbers = None
        self.num_malformed += numbers is None
        if not numbers:
            return extent, ()
        names, values = zip(*numbers, strict=True)
        left = iter(values)
        for block in self._blocks_of(axis, names):
            block.place(ordinal)
            block.ordinals.append(ordinal)
            block.steps.append(NO_STEP if at is None else at)
            block.times.append(t)
            for column in block.values:
                column.append(next(left))
        return extent, [SeriesKey(name, axis) for name in names]

    def series(self, key: SeriesKey, rank: int = 0) -> Series:
        """The points of one series, in the order they were written."""
        blocks = self._places[key]
        if len(blocks) == 1 and blocks[0][0].is_ordered:
            return blocks[0][0].series(key, rank, blocks[0][1])
        return in_order([self.points(key, rank)])

    def points(self, key: SeriesKey, rank: int = 0) -> tuple[Series, NDArray[np.int64]]:
        """The points of one series, block by block, and the ordinals of their records."""
        blocks = self._places[key]
        columns = [block.series(key, rank, place) for block, place in blocks]
        return concatenated(columns), np.concatenate([np.array(b.ordinals) for b, _ in blocks])

    def summaries(self) -> dict[SeriesKey, PartSummary]:
        """The summary of every series; those over the same steps are made together."""
        found: dict[SeriesKey, PartSummary] = {}
        together: dict[tuple[Axis, bytes], list[_Block]] = {}
        for (axis, _), block in self._blocks.items():
            along = block.times if axis == "time" else block.steps
            if block.is_ordered and _ascends(np.array(along), axis):
                together.setdefault((axis, along.tobytes()), []).append(block)
        for (axis, _), blocks in together.items():
            columns = [
                (SeriesKey(name, axis), values, block)
                for block in blocks
                for name, values in zip(block.names, block.values, strict=True)
                if len(self._places[SeriesKey(name, axis)]) == 1
            ]
            at = np.array(blocks[0].times if axis == "time" else blocks[0].steps)
            width = max(1, _VALUES_AT_ONCE // at.size)
            for start in range(0, len(columns), width):
                some = columns[start : start + width]
                rows = np.frombuffer(b"".join(bytes(values) for _, values, _ in some))
                made = summarise_rows(at, rows.reshape(len(some), at.size))
                for (key, _, block), summary in zip(some, made, strict=True):
                    found[key] = PartSummary(summary, at[0].item(), block.times[-1])
        for key in self._places:
            if key not in found:
                whole = merge([(None, self.series(key))])
                found[key] = PartSummary(whole.summary, whole.at[0].item(), whole.times[-1].item())
        return found


def _ascends(along: NDArray[Any], axis: Axis) -> bool:
    """Whether points are in their order, and none replaces another."""
    before, after = along[:-1], along[1:]
    return bool(np.all(before <= after if axis == "time" else before < after))


def in_order(pieces: list[tuple[Series, NDArray[np.int64]]]) -> Series:
    """The points of several places of a part, in the order of their records."""
    whole = concatenated([points for points, _ in pieces])
    ordinals = np.concatenate([ordinals for _, ordinals in pieces])
    if bool(np.all(ordinals[:-1] <= ordinals[1:])):
        return whole
    return whole.select(np.argsort(ordinals, kind="stable"))
