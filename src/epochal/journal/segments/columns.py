"""The numbers of one part as growing columns.

Records that hold the same series share a block: 24 bytes for a record, and 8 for each value.
Records with the same keys are added at once, other records one by one. Each block keeps the
ordinals of its records, so that a series of several blocks comes back in the order written.
"""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.facts import STEP_LIMIT, Extent, SeriesKey, seconds
from epochal.journal.rows import FieldPath, Keys, Rows
from epochal.records import KINDS, Axis, Record, axis_of, stored_numbers_of, whole_number
from epochal.series.downsample import summarise_rows
from epochal.series.series import Series, concatenated, merge
from epochal.series.summary import Summary

NO_STEP = -1
# Logs that hardly ever repeat a set of names would make a block for each record: beyond this many
# sets, each value goes to a block of its own name.
_MAX_BLOCKS = 256
_VALUES_AT_ONCE = 1 << 20
# Fewer records are added one by one.
_FEW = 8
_NUMBERS = {float, int, bool}

Names = tuple[str, ...]


class PartSummary(NamedTuple):
    """The summary of a series in one part.

    ``first_at`` is the position of its first point on its axis, ``last_t`` the time of its last
    point in Unix seconds.
    """

    summary: Summary
    first_at: float
    last_t: float


class Plan(NamedTuple):
    """The series of records with the same keys: the axis, and the path of each by its name."""

    axis: Axis
    paths: Mapping[str, FieldPath]


@lru_cache(1024)
def plan_of(kind: str, keys: Keys, gpu: str) -> Plan | None:
    """The series of such records, in the order of ``numbers_of``.

    None where each record has to be looked at: one name occurs twice, or an object is none.
    """
    spec, members = KINDS[kind], dict(keys)
    objects = [name for name in ("m", *spec.objects) if name in members]
    if any(members[name] is None for name in objects):
        return None
    found: list[tuple[str, FieldPath]] = []
    for name in objects:
        prefix = "" if name == "m" else spec.prefix
        found += [(prefix + member, (name, member)) for member in members[name] or ()]
    if spec.scalars:
        names = spec.series_names({"log": kind, **members, "id": gpu}).items()
        found += [(name, (field,)) for field, name in names if members[field] is None]
    paths = dict(found)
    return Plan(spec.axis, paths) if len(paths) == len(found) else None


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
        found = _columns(rows) if len(rows.records) >= _FEW else None
        if found is None:
            reach = map(self._add_pair, zip(rows.ordinals, rows.records, strict=True))
            return functools.reduce(Extent.joined, reach)
        axis, steps, times, columns = found
        if columns:
            for block in self._blocks_of(axis, tuple(columns)):
                block.place(rows.ordinals[0])
                block.ordinals.extend(rows.ordinals)
                block.steps.extend(steps or array("q", [NO_STEP]) * len(rows.ordinals))
                block.times.extend(times or array("d", [math.nan]) * len(rows.ordinals))
                for name, values in zip(block.names, block.values, strict=True):
                    values.extend(columns[name])
        return Extent(max(steps, default=None), max(times, default=None))

    def _add_pair(self, pair: tuple[int, Record]) -> Extent:
        return self.add(pair[1], ordinal=pair[0])

    def add(self, record: Record, *, ordinal: int) -> Extent:
        """Add every number of a record; returns how far it reaches.

        A record that is not what its kind should be is counted in ``num_malformed``.
        """
        axis, t = axis_of(record), seconds(record)
        at = whole_number(record.get("epoch" if axis == "epoch" else "step"))
        step = at if axis != "epoch" else whole_number(record.get("step"))
        extent = Extent(step, t if math.isfinite(t) else None)
        if axis == "none" or (at is None and axis != "time"):
            return extent
        try:
            numbers = list(stored_numbers_of(record))
        except (AttributeError, TypeError, ValueError, OverflowError):
            numbers = None
        if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
            numbers = None
        self.num_malformed += numbers is None
        if numbers:
            names, values = zip(*numbers, strict=True)
            left = iter(values)
            for block in self._blocks_of(axis, names):
                block.place(ordinal)
                block.ordinals.append(ordinal)
                block.steps.append(NO_STEP if at is None else at)
                block.times.append(t)
                for column in block.values:
                    column.append(next(left))
        return extent

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


def _columns(rows: Rows) -> tuple[Axis, array[int], array[float], dict[str, array[float]]] | None:
    """The axis, the steps, the times and the values of each series of some records.

    Steps and times are empty where the records have none. None where each record has to be looked
    at, because some values are not of the usual type.
    """
    plan, fields = plan_of(rows.kind, rows.keys, rows.gpu), dict(rows.keys)
    needed = {"step": {"step"}, "time": set[str]()}
    if plan is None or plan.axis not in needed or not needed[plan.axis] <= fields.keys():
        return None
    steps, times = array("q"), array("d")
    columns: dict[str, array[float]] = {}
    found = rows.columns()
    try:
        if ("step",) in found:
            if set(map(type, found["step",])) != {int}:
                return None
            steps = array("q", found["step",])
        if ("t",) in found:
            if not set(map(type, found["t",])) <= {int, float}:
                return None
            times = array("d", found["t",])
            if not -STEP_LIMIT < min(times) <= max(times) < STEP_LIMIT:
                return None
        for name, path in plan.paths.items():
            kinds = set(map(type, found[path]))
            if kinds <= _NUMBERS:
                columns[name] = array("d", found[path])
            elif kinds != {str}:
                return None
    except OverflowError:  # an integer beyond 64 bits, or beyond a float
        return None
    return plan.axis, steps, times, columns


def in_order(pieces: list[tuple[Series, NDArray[np.int64]]]) -> Series:
    """The points of several places of a part, in the order of their records."""
    whole = concatenated([points for points, _ in pieces])
    ordinals = np.concatenate([ordinals for _, ordinals in pieces])
    if bool(np.all(ordinals[:-1] <= ordinals[1:])):
        return whole
    return whole.select(np.argsort(ordinals, kind="stable"))
