"""Reads sealed journal parts: one column at a time, or every record as it was written."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property, partial
from pathlib import Path as FilePath
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.records import Axis, Record, axis_of
from epochal.segments import columns as c
from epochal.segments.contents import SeriesSources, Source, decode_contents
from epochal.segments.footer import Extent
from epochal.segments.long import NO_NUMBER
from epochal.segments.points import (
    NO_STEP,
    SegmentSeries,
    compute,
    filled_column,
    is_number,
    join_points,
    points_of,
    rows_where,
    seconds_of,
    take,
)
from epochal.segments.rebuild import LONG_COLUMNS, LongValues, Rebuilder, columns_for, plain_numbers
from epochal.segments.shape import Shape

# Points in long form that are sorted by name once, and then held: 32 bytes each.
MAX_LONG_POINTS = 4_000_000
_LONG_SERIES = [c.ORDINAL, c.STEP, c.TIME, c.LONG_NAME, c.LONG_AXIS, c.LONG_VALUE]
_AXES: tuple[Axis, ...] = ("step", "epoch", "time")
_LAST = 2**62


class SegmentTable(NamedTuple):
    """Series over the same steps and times in file order: ``values`` has a column for each name."""

    axis: Axis
    names: tuple[str, ...]
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


class Segment:
    """One sealed part; its table of contents is read at once, everything else when asked for.

    Raises FormatError, naming the file, for one that is damaged, of a newer format or not readable.
    """

    def __init__(self, path: FilePath) -> None:
        self.path = path
        with self._translated():
            self._file = pq.ParquetFile(path, page_checksum_verification=True)
            metadata = self._file.metadata.metadata or {}
        self._contents = decode_contents(metadata, file=str(path))
        # Row groups of the same kinds, in file order, are read as one.
        self._groups: dict[tuple[str, ...], list[int]] = {}
        for number, kinds in enumerate(self._contents.groups):
            self._groups.setdefault(kinds, []).append(number)
        self._by_name: dict[str, list[SeriesSources]] = {}
        for series in self._contents.series:
            self._by_name.setdefault(series.name, []).append(series)
        # Series of one row group are drawn over the same steps and times: those are read once for
        # as long as anybody holds them.
        self._shared: WeakValueDictionary[tuple[int, str], NDArray[Any]] = WeakValueDictionary()

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # -- what there is ----------------------------------------------------------------------------

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of its records."""
        return self._contents.shapes

    @property
    def num_records(self) -> int:
        """How many records the part holds."""
        return self._contents.num_records

    @property
    def num_damaged(self) -> int:
        """How many damaged lines a reader of the journal part would have counted."""
        return self._contents.num_damaged

    @property
    def journal_bytes(self) -> int:
        """How large the journal part was: a larger one has grown since it was sealed."""
        return self._contents.journal_bytes

    @property
    def header(self) -> Record | None:
        """The first record, when it is the one that opens a part."""
        if "run" not in self._contents.kinds:
            return None
        ordinal, record = next(self.entries("run"))
        return record if ordinal == 0 else None

    def extents(self) -> dict[str, Extent]:
        """How far the records of each kind reach."""
        found: dict[str, Extent] = {}
        for kinds, groups in self._groups.items():
            if len(kinds) == 1:  # the file's statistics say it
                step, milliseconds = (self._largest(groups, name) for name in (c.STEP, c.TIME))
                found[kinds[0]] = _extent(step, milliseconds)
                continue
            table = self._table(groups, [c.LOG, c.STEP, c.TIME])
            # Kinds that share a group are few records.
            logs, *columns = (table.column(n).to_pylist() for n in (c.LOG, c.STEP, c.TIME))
            for kind in kinds:
                step, milliseconds = (
                    max(
                        (
                            n
                            for log, n in zip(logs, column, strict=True)
                            if log == kind and n is not None
                        ),
                        default=None,
                    )
                    for column in columns
                )
                found[kind] = _extent(step, milliseconds)
        return found

    def _largest(self, groups: Sequence[int], name: str) -> int | None:
        found = [self._bounds(group, name) for group in groups]
        if all(bounds is not None for bounds in found):
            return max(int(bounds[1]) for bounds in found if bounds is not None)
        column = self._table(groups, [name]).column(name)
        if column.null_count == len(column):
            return None
        return int(plain_numbers(column, absent=NO_NUMBER).max())

    def _bounds(self, group: int, name: str) -> tuple[Any, Any] | None:
        """The lowest and the highest value of a column; None where the file does not say it."""
        # Lists take one leaf each, so leaves and fields are numbered alike.
        place = self._file.schema_arrow.get_field_index(name)
        statistics = self._file.metadata.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        return statistics.min, statistics.max

    def kinds(self) -> Mapping[str, int]:
        """How many records there are of each kind."""
        return dict(self._contents.kinds)

    def names(self) -> tuple[str, ...]:
        """The scalar series, in order of first appearance."""
        return tuple(self._by_name)

    def axes(self, name: str) -> tuple[Axis, ...]:
        """The axes a series has points on."""
        found = {series.axis for series in self._by_name.get(name, ())}
        return tuple(axis for axis in _AXES if axis in found)

    # -- numbers ----------------------------------------------------------------------------------

    def series(self, name: str, *, axis: Axis | None = None) -> SegmentSeries:
        """Every point of one scalar series; without an axis, on the first it has points on.

        A name that is not here has no points.
        """
        axes = self.axes(name) if axis is None else (axis,)
        pieces: list[SegmentSeries] = []
        for entry in self._by_name.get(name, ()):
            if axes and entry.axis == axes[0]:
                pieces += self._pieces(entry)
        return join_points(pieces)

    def tables(self) -> Iterator[SegmentTable]:
        """The series that lie in one place each, many at a time: in a row group, or in long form.

        Each file's region is read once, however many series there are. A series that is not among
        these is asked for by its name.
        """
        holders = Counter(kind for kinds in self._groups for kind in kinds)
        for kinds in self._groups:
            for kind in kinds:
                if holders[kind] == 1:
                    yield from self._group_tables(kinds, kind)
        yield from self._long_tables()

    def _group_tables(self, kinds: tuple[str, ...], kind: str) -> Iterator[SegmentTable]:
        by_axis: dict[Axis, dict[str, str]] = {}
        for entry in self._contents.series:
            if entry.long or len(entry.sources) != 1 or entry.axis == "epoch":
                continue
            source = entry.sources[0]
            if source.kind == kind and source.gpu is None:
                column = self._contents.columns[source.path]
                by_axis.setdefault(entry.axis, {})[entry.name] = column
        for axis, columns in by_axis.items():
            names = [c.LOG, c.STEP, c.TIME, *columns.values()]
            table = self._table(self._groups[kinds], names)
            if len(kinds) > 1:
                table = table.filter(compute().equal(table.column(c.LOG), kind))
            if axis == "step" and table.column(c.STEP).null_count:
                continue
            whole = {
                name: column.to_numpy().astype(np.float64, copy=False)
                for name, column in zip(columns, table.columns[3:], strict=True)
                if not column.null_count and is_number(column.type)
            }
            if whole:
                steps = filled_column(table.column(c.STEP), NO_STEP).astype(np.int64, copy=False)
                values = np.stack(list(whole.values()), axis=1)
                times = seconds_of(table.column(c.TIME))
                yield SegmentTable(axis, tuple(whole), steps, times, values)

    def _long_tables(self) -> Iterator[SegmentTable]:
        """The series that are in long form alone; those over the same steps are one table."""
        wanted = [e for e in self._contents.series if e.long and not e.sources]
        points = (self._long_points if wanted else None) or {}
        together: dict[tuple[Axis, bytes, bytes], dict[str, SegmentSeries]] = {}
        for entry in wanted:
            found = points.get((entry.name, entry.axis))
            if found is not None:
                key = (entry.axis, found.steps.tobytes(), found.times.tobytes())
                together.setdefault(key, {})[entry.name] = found
        for (axis, _, _), members in together.items():
            first = next(iter(members.values()))
            values = np.stack([found.values for found in members.values()], axis=1)
            yield SegmentTable(axis, tuple(members), first.steps, first.times, values)

    @cached_property
    def _long_points(self) -> Mapping[tuple[str, str], SegmentSeries] | None:
        """The points in long form by name and axis; None where they are too many to hold.

        Asked for one name at a time, each would go through the points of all.
        """
        trailing = range(len(self._contents.groups), self._file.metadata.num_row_groups)
        rows = sum(self._file.metadata.row_group(group).num_rows for group in trailing)
        return None if rows > MAX_LONG_POINTS else dict(self._sorted_long())

    def _sorted_long(self) -> Iterator[tuple[tuple[str, str], SegmentSeries]]:
        table = self._long_table(_LONG_SERIES)
        if not table.num_rows:
            return
        found = table.column(c.LONG_NAME).combine_chunks().dictionary_encode()
        axes = table.column(c.LONG_AXIS).combine_chunks().dictionary_encode()
        codes = found.indices.to_numpy().astype(np.int64) * len(axes.dictionary)
        codes += axes.indices.to_numpy()
        table = table.take(np.lexsort((table.column(c.ORDINAL).to_numpy(), codes)))
        codes = np.sort(codes)
        ordinals = table.column(c.ORDINAL).to_numpy()
        steps = filled_column(table.column(c.STEP), NO_STEP).astype(np.int64, copy=False)
        has_step = table.column(c.STEP).is_valid().to_numpy()
        times = seconds_of(table.column(c.TIME))
        values = table.column(c.LONG_VALUE).to_numpy().astype(np.float64, copy=False)
        names, kinds = found.dictionary.to_pylist(), axes.dictionary.to_pylist()
        edges = np.flatnonzero(np.diff(codes, prepend=-1, append=-1)).tolist()
        for start, end in itertools.pairwise(edges):
            name, axis = divmod(int(codes[start]), len(kinds))
            rows: Any = slice(start, end)
            if kinds[axis] != "time" and not has_step[rows].all():
                rows = start + np.flatnonzero(has_step[rows])
            points = SegmentSeries(
                steps[rows], times[rows], values[rows], partial(take, ordinals, rows)
            )
            yield (names[name], kinds[axis]), points

    def field(self, kind: str, *path: str) -> SegmentSeries:
        """Every number a kind's records hold in a field, ``("epoch", "resources", "rss")``."""
        if tuple(path) not in self._contents.columns:
            return join_points([])
        axis: Axis = axis_of({"log": kind, "step": 0})
        return join_points(list(self._wide(Source(kind, tuple(path)), axis)))

    def _pieces(self, entry: SeriesSources) -> Iterator[SegmentSeries]:
        """Members of objects first, then fields: the order of a record's own scalars."""
        members = [source for source in entry.sources if len(source.path) > 1]
        fields = [source for source in entry.sources if len(source.path) == 1]
        for source in members:
            yield from self._wide(source, entry.axis)
        if entry.long:
            yield from self._from_long(entry)
        for source in fields:
            yield from self._wide(source, entry.axis)

    def _wide(self, source: Source, axis: Axis) -> Iterator[SegmentSeries]:
        name = self._contents.columns[source.path]
        along = self._contents.columns.get(("epoch",), "") if axis == "epoch" else c.STEP
        wanted = {c.ORDINAL, c.TIME, along, name}
        if source.gpu is not None and ("id",) in self._contents.columns:
            wanted.add(self._contents.columns["id",])
        for kinds, groups in self._groups.items():
            if source.kind not in kinds:
                continue
            if len(kinds) == 1 and source.gpu is None:
                points = self._whole(groups, name, along)
                if points is not None:
                    yield points
                    continue
            shared = {c.LOG} if len(kinds) > 1 else set()
            table = self._table(groups, sorted(wanted | shared))
            table = rows_where(table, self._conditions(table, source, name))
            yield points_of(table, along=along, value=name, axis=axis)

    def _whole(self, groups: Sequence[int], name: str, along: str) -> SegmentSeries | None:
        """A column of row groups all of whose rows are points; None where some are not."""
        column = self._table(groups, [name]).column(name)
        if column.null_count or not is_number(column.type):
            return None
        steps, times = self._along(groups, along), self._along(groups, c.TIME)
        if steps is None or times is None:
            return None
        values = column.to_numpy().astype(np.float64, copy=False)
        return SegmentSeries(steps, times, values, lambda: self._ordinals(groups))

    def _ordinals(self, groups: Sequence[int]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._table(groups, [c.ORDINAL]).column(c.ORDINAL).to_numpy()
        return found

    def _along(self, groups: Sequence[int], name: str) -> NDArray[Any] | None:
        """Steps, epochs or times of row groups; None where a row has none."""
        group = groups[0]
        found = self._shared.get((group, name))
        if found is None:
            column = self._table(groups, [name]).column(name)
            if column.null_count:
                return None
            found = seconds_of(column) if name == c.TIME else column.to_numpy().astype(np.int64)
            found.flags.writeable = False
            self._shared[group, name] = found
        return found

    def _conditions(self, table: pa.Table, source: Source, name: str) -> Iterator[Any]:
        if not is_number(table.schema.field(name).type):
            yield pa.scalar(False)
        if table.column(name).null_count:
            yield table.column(name).is_valid()
        if c.LOG in table.column_names:
            yield compute().equal(table.column(c.LOG), source.kind)
        if source.gpu is not None:
            yield self._is_gpu(table, source.gpu)

    def _is_gpu(self, table: pa.Table, gpu: str) -> Any:
        name = self._contents.columns.get(("id",))
        if name is None:
            return pa.scalar(gpu == "0")
        column = table.column(name)
        if not pa.types.is_string(column.type):
            column = column.cast(pa.int64(), safe=False).cast(pa.string())
        return compute().equal(column.fill_null("0"), gpu)

    def _from_long(self, entry: SeriesSources) -> Iterator[SegmentSeries]:
        points = self._long_points
        if points is not None:
            found = points.get((entry.name, entry.axis))
            if found is not None:
                yield found
            return
        table = self._long_table(_LONG_SERIES, only=entry.name)
        conditions = [
            compute().equal(table.column(c.LONG_NAME), entry.name),
            compute().equal(table.column(c.LONG_AXIS), entry.axis),
        ]
        rows = rows_where(table, conditions).sort_by(c.ORDINAL)
        yield points_of(rows, along=c.STEP, value=c.LONG_VALUE, axis=entry.axis)

    # -- records ----------------------------------------------------------------------------------

    def records(self, *, first: int = 0) -> Iterator[tuple[int, Record]]:
        """Every record from an ordinal on, as it was written, with its ordinal."""
        for rebuilder, start, end in self._stretches(range(len(self._contents.groups)), first):
            yield from rebuilder.records(first=start, end=end)

    def entries(self, *kinds: str, name: str | None = None) -> Iterator[tuple[int, Record]]:
        """The records of some kinds, in file order; of one ``name`` when given."""
        wanted = set(kinds)
        groups = [g for g, held in enumerate(self._contents.groups) if wanted & set(held)]
        for rebuilder, start, end in self._stretches(groups, 0, wanted):
            for ordinal, record in rebuilder.records(first=start, end=end, kinds=wanted):
                if name is None or record.get("name") == name:
                    yield ordinal, record

    def rebuilder(self) -> Rebuilder | None:
        """What makes records of all rows; None where there are none."""
        groups = range(len(self._contents.groups))
        if not groups:
            return None
        table = self._table(groups, columns_for(self._contents, set(self._contents.kinds)))
        return Rebuilder(self._contents, table, self._long_values())

    def _stretches(
        self, groups: Sequence[int], first: int, kinds: Set[str] | None = None
    ) -> Iterator[tuple[Rebuilder, int, int]]:
        """What makes the records of some row groups, from an ordinal on, a stretch at a time.

        A stretch is from one ordinal to another; only the row groups that reach into it are read.
        """
        reach = {group: self._bounds(group, c.ORDINAL) or (0, _LAST) for group in groups}
        starts = sorted({max(first, low) for low, high in reach.values() if high >= first})
        names = columns_for(self._contents, kinds or set(self._contents.kinds))
        long = self._long_values() if starts else None
        tables: dict[int, pa.Table] = {}
        for start, end in itertools.zip_longest(starts, starts[1:], fillvalue=_LAST + 1):
            held = [g for g, (low, high) in reach.items() if low < end and high >= start]
            tables = {g: tables[g] if g in tables else self._table([g], names) for g in held}
            yield Rebuilder(self._contents, pa.concat_tables(tables.values()), long), start, end

    def damage(self) -> list[tuple[int, bytes]]:
        """What no reader hands out: the bytes, and the ordinal of the record they stand before."""
        if self._file.metadata.num_row_groups == len(self._contents.groups):
            return []
        table = self._trailing([c.ORDINAL, c.DAMAGE])
        table = rows_where(table, [table.column(c.DAMAGE).is_valid()])
        return list(
            zip(
                table.column(c.ORDINAL).to_pylist(), table.column(c.DAMAGE).to_pylist(), strict=True
            )
        )

    def _long_values(self) -> LongValues | None:
        """The members of records that are in long form; None where there are none."""
        has_long = any("w" in shape.codes for shape in self._contents.shapes)
        return LongValues(self._long_table(list(LONG_COLUMNS))) if has_long else None

    # -- the file ---------------------------------------------------------------------------------

    def _long_table(self, names: list[str], *, only: str | None = None) -> pa.Table:
        table = self._trailing(names, only=only)
        return rows_where(table, [table.column(c.LONG_NAME).is_valid()])

    def _trailing(self, names: list[str], *, only: str | None = None) -> pa.Table:
        """Columns of the row groups that hold no records: long points, by name, and damage."""
        groups = range(len(self._contents.groups), self._file.metadata.num_row_groups)
        return self._table([g for g in groups if self._may_hold(g, only)], names)

    def _may_hold(self, group: int, name: str | None) -> bool:
        bounds = None if name is None else self._bounds(group, c.LONG_NAME)
        return bounds is None or bool(bounds[0] <= name <= bounds[1])

    def _table(self, groups: Sequence[int], names: list[str]) -> pa.Table:
        with self._translated():
            table = self._file.read_row_groups(list(groups), columns=names, use_threads=False)
            return table.select(names)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        # A schema that does not fit its contents makes the last two.
        except (pa.ArrowException, OSError, KeyError, IndexError) as error:
            # A number comes from the system, as for a file without permission; damage has none.
            if isinstance(error, OSError) and error.errno is not None:
                reason = os.strerror(error.errno)
                raise FormatError(f"{self.path} cannot be read: {reason}.") from error
            raise FormatError(f"{self.path} is damaged: {error}") from error


def _extent(step: int | None, milliseconds: int | None) -> Extent:
    return Extent(step, None if milliseconds is None else milliseconds / 1000)
