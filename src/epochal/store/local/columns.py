"""The numbers of a journal part as growing columns, never an object per record.

Records that hold the same series share a block: 24 bytes a record, 8 a value. The newest are in
memory, the others on disk. Each block keeps the ordinals of its records, so that a series of
several blocks comes back in the order written.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis, Record, stored_numbers_of
from epochal.series.series import Series, concatenated

STEP_LIMIT = 2**63
# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800
NO_STEP = -1
# Logs that hardly ever repeat a set of names would make a block per record: beyond this many sets,
# each value goes to a block of its name.
_MAX_SHAPES = 256
# Columns of a part go to the file in pieces of about this size; of many parts, in smaller ones.
PIECE_BYTES = 4 * 1024 * 1024
_SMALLEST_PIECE = 64 * 1024
# Blocks of a part that has many of them go to the file when they are as large as this.
_SMALLEST_BLOCK = 8 * 1024
# What all parts of all runs keep in memory together, as long as pieces are not too small.
ALL_PARTS_BYTES = 32 * 1024 * 1024

Names = tuple[str, ...]


class SpillFile:
    """Arrays on disk, in a folder or where the system keeps temporary files.

    The file has no name on most systems, and goes with this object or with the process. Several
    threads may use it, and all parts of a run: a thousand of them would reach the limit of open
    files.
    """

    def __init__(self, folder: Path | None = None, *, piece_bytes: int = PIECE_BYTES) -> None:
        self.piece_bytes = piece_bytes
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.size = 0

    def share_among(self, num_parts: int) -> None:
        """Make pieces so small that what so many parts have in memory stays bounded."""
        share = ALL_PARTS_BYTES // max(num_parts, 1)
        self.piece_bytes = max(min(share, PIECE_BYTES), _SMALLEST_PIECE)

    def append(self, *columns: NDArray[Any]) -> int:
        """Write arrays one after the other; returns where they begin.

        Raises ``OSError`` where there is no room; nothing is added then.
        """
        with self._lock:
            file = self._opened()
            file.seek(self.size)
            size = self.size
            for column in columns:
                size += file.write(np.ascontiguousarray(column).data)
            file.flush()
            start, self.size = self.size, size
        return start

    def read(self, start: int, into: NDArray[Any]) -> None:
        """Read numbers of eight bytes back, as many as an array has room for."""
        assert self._file is not None
        with self._lock:
            self._file.seek(start)
            self._file.readinto(into.data.cast("B"))  # type: ignore[attr-defined]

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        return self._file


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
    """The records of one part that hold the same series; the older ones may be on disk."""

    __slots__ = (
        "_last",
        "_late",
        "_ordinals",
        "_spill",
        "_spilled",
        "_steps",
        "_times",
        "_values",
        "names",
        "pack",
    )

    def __init__(self, names: Names, spill: SpillFile, late: dict[Names, Block]) -> None:
        self.names = names
        self.pack = struct.Struct(f"={len(names)}d").pack
        self._ordinals = array("q")
        self._steps = array("q")
        self._times = array("d")
        self._values = array("d")
        self._last = -1
        # Blocks that got a record after one that follows it.
        self._late = late
        self._spill = spill
        # Where pieces begin in the file, and of how many records they are.
        self._spilled: list[tuple[int, int]] = []

    def append(self, ordinal: int, step: int, t: float, values: Iterable[float]) -> None:
        """Add a record. Values that are no numbers raise struct.error or OverflowError."""
        self._values.frombytes(self.pack(*values))
        self._note(ordinal, ordinal)
        self._ordinals.append(ordinal)
        self._steps.append(step)
        self._times.append(t)

    def extend(
        self,
        ordinals: array[int],
        steps: NDArray[np.int64] | None,
        times: NDArray[np.float64],
        columns: list[NDArray[np.float64]],
    ) -> None:
        """Add many records, a column of values for each name; ``steps`` is None without steps."""
        self._values.frombytes(np.column_stack(columns).data.cast("B"))
        self._note(ordinals[0], ordinals[-1])
        self._ordinals.extend(ordinals)
        given = np.full(times.size, NO_STEP) if steps is None else steps
        self._steps.frombytes(given.data.cast("B"))
        self._times.frombytes(times.data.cast("B"))

    def _note(self, first: int, last: int) -> None:
        if first < self._last:
            self._late[self.names] = self
        self._last = max(self._last, last)

    def sort(self, first: int, num_records: int) -> None:
        """Sort the last records, from an ordinal on, by ordinal."""
        start = max(0, len(self._ordinals) - num_records)
        start += sum(ordinal < first for ordinal in self._ordinals[start:])
        order = np.argsort(np.array(self._ordinals[start:], dtype=np.int64), kind="stable")
        width = len(self.names)
        for column, per_row in (
            (self._ordinals, 1),
            (self._steps, 1),
            (self._times, 1),
            (self._values, width),
        ):
            some = column[start * per_row :]
            rows = np.frombuffer(some, dtype=column.typecode).reshape(-1, per_row)[order]
            column[start * per_row :] = array(column.typecode, rows.tobytes())

    @property
    def held_bytes(self) -> int:
        """How much of it is in memory."""
        return 8 * (len(self._values) + 3 * len(self._ordinals))

    def spill(self) -> None:
        """Move the values in memory to the file."""
        columns = (self._ordinals, self._steps, self._times)
        plain = [np.frombuffer(column, dtype=column.typecode) for column in columns]
        try:
            start = self._spill.append(*plain, self._table().T)
        except OSError:  # no room on the disk: it stays in memory
            return
        self._spilled.append((start, len(self._ordinals)))
        self._ordinals, self._steps = array("q"), array("q")
        self._times, self._values = array("d"), array("d")

    @property
    def size(self) -> int:
        """How many records it has."""
        return sum(rows for _, rows in self._spilled) + len(self._ordinals)

    def ordinals(self) -> NDArray[np.int64]:
        """A copy of the ordinals. A view would keep the buffers from growing, here and below."""
        return self._whole(0, np.array(self._ordinals, dtype=np.int64))

    def steps(self) -> NDArray[np.int64]:
        """A copy of the steps."""
        return self._whole(1, np.array(self._steps, dtype=np.int64))

    def times(self) -> NDArray[np.float64]:
        """A copy of the times."""
        return self._whole(2, np.array(self._times, dtype=np.float64))

    def column(self, place: int) -> NDArray[np.float64]:
        """A copy of the values of one name."""
        return self._whole(3 + place, self._table()[:, place].copy())

    def read_column(self, place: int, into: NDArray[np.float64]) -> None:
        """Copy the values of one name to where there is room for all of them."""
        done = self._read_spilled(3 + place, into)
        into[done:] = self._table()[:, place]

    def table(self) -> NDArray[np.float64]:
        """A copy of all values, a column for each name."""
        if not self._spilled:
            return self._table().copy()
        return np.column_stack([self.column(place) for place in range(len(self.names))])

    def _table(self) -> NDArray[np.float64]:
        return np.frombuffer(self._values).reshape(-1, len(self.names))

    def _whole(self, place: int, newest: NDArray[Any]) -> NDArray[Any]:
        """One column: the values in the file, then those in memory."""
        if not self._spilled:
            return newest
        whole = np.empty(self.size, dtype=newest.dtype)
        done = self._read_spilled(place, whole)
        whole[done:] = newest
        return whole

    def _read_spilled(self, place: int, into: NDArray[Any]) -> int:
        """Read the values of a column that are in the file; returns how many."""
        done = 0
        for start, rows in self._spilled:
            self._spill.read(start + 8 * rows * place, into[done : done + rows])
            done += rows
        return done


class Blocks:
    """Every series of one part; in order of first appearance."""

    def __init__(self, spill: SpillFile | None = None) -> None:
        self._spill = SpillFile() if spill is None else spill
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
            late = self._late.setdefault(axis, {})
            block = shapes[names] = Block(names, self._spill, late)
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
        """Sort the newest records, which came in columns and one by one."""
        for late in self._late.values():
            for block in late.values():
                block.sort(first, num_records)
            late.clear()

    def spill(self) -> None:
        """Move large blocks to disk when all together fill a piece; the records are sorted."""
        every = [
            block
            for shapes in self._shapes.values()
            if len(shapes) <= _MAX_SHAPES
            for block in shapes.values()
        ]
        piece = self._spill.piece_bytes
        if sum(block.held_bytes for block in every) < piece:
            return
        least = max(piece // len(every), min(piece, _SMALLEST_BLOCK))
        for block in every:
            if block.held_bytes >= least:
                block.spill()

    @property
    def held_bytes(self) -> int:
        """How much of the columns is in memory."""
        return sum(
            block.held_bytes for shapes in self._shapes.values() for block in shapes.values()
        )

    def series(self, key: SeriesKey, rank: int) -> Series:
        """The points of one series, in the order they were written."""
        places = self._places[key]
        whole = concatenated(
            [
                Series(key.name, key.axis, rank, block.steps(), block.times(), block.column(place))
                for block, place in places
            ]
        )
        if len(places) == 1:
            return whole
        ordinals = np.concatenate([block.ordinals() for block, _ in places])
        if bool(np.all(ordinals[:-1] <= ordinals[1:])):
            return whole
        return whole.select(np.argsort(ordinals, kind="stable"))

    def columns(self, key: SeriesKey) -> list[tuple[Block, int]]:
        """The blocks that have a series, each with the number of its column."""
        return self._places.get(key, [])

    def tables(self) -> Iterator[SeriesTable]:
        """Copies of the series that lie in one block each; views keep buffers from growing."""
        for axis, shapes in self._shapes.items():
            for block in shapes.values():
                alone = [len(self._places[SeriesKey(n, axis)]) == 1 for n in block.names]
                if any(alone):
                    values = block.table()
                    yield SeriesTable(
                        axis,
                        tuple(itertools.compress(block.names, alone)),
                        block.steps(),
                        block.times(),
                        values if all(alone) else values[:, alone],
                    )

    def ordinals(self, key: SeriesKey) -> NDArray[np.int64]:
        """The ordinals of a series' records, in the order of the points of ``series``."""
        found = [block.ordinals() for block, _ in self._places[key]]
        return np.sort(np.concatenate(found), kind="stable")


def unix_time(value: Any) -> float | None:
    """A time of a file in Unix seconds; None for a value that is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _TIME_LIMIT else None


def seconds(record: Record) -> float:
    """A record's time in Unix seconds; nan when it has none."""
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) and abs(t) < STEP_LIMIT else float("nan")


def _all_scalars(record: Record) -> Iterable[tuple[str, float]]:
    if record["log"] == "allocator" and not isinstance(record.get("stats", []), list):
        raise TypeError("the stats of an allocator are a list")
    return stored_numbers_of(record)
