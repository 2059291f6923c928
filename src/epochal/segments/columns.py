"""The numbers of one part as growing columns.

Records that hold the same series share a block: 24 bytes for a record, and 8 for each value. Rows
of one shape are added at once, other records one by one. Each block keeps the ordinals of its
records, so that a series of several blocks comes back in the order written.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.shape import Rows, Shape, unpack
from epochal.records import KINDS, Axis, Record, axis_of, stored_numbers_of, whole_number, word_key
from epochal.series.reduce import Summary, summarise_rows
from epochal.series.series import Series, concatenated, merge

NO_STEP = -1
STEP_LIMIT = 2**63
# Logs that hardly ever repeat a set of names would make a block for each record: beyond this many
# sets, each value goes to a block of its own name.
_MAX_BLOCKS = 256
_VALUES_AT_ONCE = 1 << 20
_NO_STEP_BYTES = NO_STEP.to_bytes(8, sys.byteorder, signed=True)
WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_NUMPY_TYPES: dict[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_}

Names = tuple[str, ...]


class SeriesKey(NamedTuple):
    """A name on an axis: an epoch's ``loss`` and a step's ``loss`` are two series."""

    name: str
    axis: Axis


class PartSummary(NamedTuple):
    """The summary of a series in one part.

    ``first_at`` is the position of its first point on its axis, ``last_t`` the time of its last
    point in Unix seconds.
    """

    summary: Summary
    first_at: float
    last_t: float


class Extent(NamedTuple):
    """The highest step and the latest time (Unix seconds) of some records, where they have any."""

    step: int | None
    time: float | None

    def joined(self, other: Extent) -> Extent:
        """The extent of both."""
        steps = [step for step in (self.step, other.step) if step is not None]
        times = [time for time in (self.time, other.time) if time is not None]
        return Extent(max(steps, default=None), max(times, default=None))


class Plan(NamedTuple):
    """Which columns of the rows of a shape are series: their names, and the columns' places.

    A value that JSON cannot hold is null, and ``words`` has the place of the column that names it.
    """

    axis: Axis
    names: Names
    places: tuple[int, ...]
    words: tuple[int | None, ...]


@lru_cache(1024)
def plan_of(shape: Shape, gpu: Any) -> Plan | None:
    """The series of a shape, in the order of ``numbers_of``; None if one name occurs twice."""
    places = {path: place for place, path in enumerate(shape.paths())}
    kind, fields = KINDS[shape.kind], {name: None for name, _ in shape.keys}
    record: Record = {"log": shape.kind, **fields, **({"id": gpu} if "id" in fields else {})}
    sources = [(path[1], path, word_key(path[1], record)) for path in places if path[0] == "m"]
    for name in kind.objects:
        members = [path[1] for path in places if path[0] == name and len(path) == 2]
        sources += [(kind.prefix + m, (name, m), word_key(m, record)) for m in members]
    if kind.scalars:
        named = kind.series_names(record).items()
        sources += [(name, (field,), field) for field, name in named]
    found: dict[str, tuple[int, int | None]] = {}
    for name, path, word in sources:
        place, said = places.get(path, -1), places.get(("nonfinite", word))
        is_word = place >= 0 and shape.types[place] is type(None) and said is not None
        if place < 0 or not (is_word or shape.types[place] in _NUMPY_TYPES):
            continue
        if name in found:
            return None
        found[name] = (place, said if is_word else None)
    steps = places.get(("step",))
    has_step = steps is not None and shape.types[steps] is int
    if kind.axis == "none" or (kind.axis != "time" and not has_step):
        found = {}
    columns = tuple(found.values())
    return (
        Plan(kind.axis, tuple(found), *zip(*columns, strict=True))
        if columns
        else Plan(kind.axis, (), (), ())
    )


def seconds(record: Record) -> float:
    """A record's time in Unix seconds; nan when it has none."""
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) and abs(t) < STEP_LIMIT else float("nan")


def by_id(rows: Rows) -> Iterator[tuple[Any, Rows]]:
    """The rows of each GPU with its id; all rows of kinds whose series are not named by it."""
    paths = rows.shape.paths() if KINDS[rows.shape.kind].by_id else []
    if ("id",) not in paths:
        yield None, rows
        return
    place = paths.index(("id",))
    ids = unpack(rows.shape.types[place], rows.columns[place], len(rows.ordinals))
    for one in dict.fromkeys(ids):
        some = [row for row, value in enumerate(ids) if value == one]
        yield one, rows if len(some) == len(ids) else rows.select(some)


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

    def add_rows(self, rows: Rows, gpu: Any) -> Extent:
        """Add records of one shape and GPU; returns how far they reach."""
        size, (time_place, step_place) = len(rows.ordinals), _positions(rows.shape)
        times = np.full(size, np.nan) if time_place is None else _numbers(rows, time_place)
        newest = float(times.max())
        latest: float | None = newest
        if not (newest < STEP_LIMIT and times.min() > -STEP_LIMIT):  # nan is neither
            is_time = np.abs(times) < STEP_LIMIT
            latest = float(times[is_time].max()) if is_time.any() else None
            times = np.where(is_time, times, np.nan)
        steps: Any = _NO_STEP_BYTES * size if step_place is None else rows.columns[step_place]
        plan = plan_of(rows.shape, gpu)
        columns = None if plan is None else _values(rows, plan)
        if plan is None or columns is None:
            for ordinal, record in zip(rows.ordinals, rows.records(), strict=True):
                self.add(record, ordinal=ordinal)
        elif plan.names:
            left = iter(columns)
            for block in self._blocks_of(plan.axis, plan.names):
                block.place(rows.ordinals[0])
                block.ordinals.extend(rows.ordinals)
                block.steps.frombytes(steps)
                block.times.frombytes(times.data.cast("B"))
                for values in block.values:
                    values.frombytes(next(left))
        last_step = None if step_place is None else int(np.frombuffer(steps, np.int64).max())
        return Extent(last_step, latest)

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

    def first_ordinal(self, key: SeriesKey) -> int:
        """The ordinal of the first record that holds a series."""
        return min(block.ordinals[0] for block, _ in self._places[key])

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


@lru_cache(1024)
def _positions(shape: Shape) -> tuple[int | None, int | None]:
    """The places of the times and of the steps of a shape; None where it has none."""
    places = {path: place for place, path in enumerate(shape.paths())}
    time, step = places.get(("t",)), places.get(("step",))
    has_times = time is not None and shape.types[time] in _NUMPY_TYPES
    has_steps = step is not None and shape.types[step] is int
    return time if has_times else None, step if has_steps else None


def _numbers(rows: Rows, place: int) -> NDArray[np.float64]:
    """The numbers of a column as floats."""
    column: Any = rows.columns[place]
    found = np.frombuffer(column, dtype=_NUMPY_TYPES[rows.shape.types[place]])
    return found.astype(np.float64, copy=False)


def _values(rows: Rows, plan: Plan) -> list[bytes] | None:
    """The values of the series of rows, packed; None where a word is none for a number."""
    found: list[bytes] = []
    for place, said in zip(plan.places, plan.words, strict=True):
        column = rows.columns[place if said is None else said]
        if isinstance(column, bytes):
            is_float = rows.shape.types[place] is float
            found.append(column if is_float else _numbers(rows, place).tobytes())
        elif column is None or not WORDS.keys() >= set(column):
            return None
        else:
            found.append(np.array([WORDS[word] for word in column]).tobytes())
    return found


def in_order(pieces: list[tuple[Series, NDArray[np.int64]]]) -> Series:
    """The points of several places of a part, in the order of their records."""
    whole = concatenated([points for points, _ in pieces])
    ordinals = np.concatenate([ordinals for _, ordinals in pieces])
    if bool(np.all(ordinals[:-1] <= ordinals[1:])):
        return whole
    return whole.select(np.argsort(ordinals, kind="stable"))
